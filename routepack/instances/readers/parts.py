"""Samples in pieces: replies that continue one another, and split serving with a prefill and a decode reply."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routepack.errors import InvalidInstance
from routepack.instances.documents import brief
from routepack.instances.readers.model_shape import ModelShape
from routepack.instances.readers.routes import Record, SampleRoutes, names_of, route_array, tokens_of, whole
from routepack.instances.readers.wire import described

KEYS = ("parts",)


def join(parts: Sequence[tuple[int, NDArray[Any] | None]], tokens: int) -> NDArray[Any] | None:
    """
    Join pieces of a sample; a piece replaces everything from its first row on.

    Parameters
    ----------
    parts
        First row and rows of each piece, in the order of the replies.
    tokens
        Tokens of the sample: a piece that reaches beyond them, but holds as many rows as a whole sample, is one, whatever its first row.

    Returns
    -------
    NDArray or None
        Shape (rows, layers, k); ``None`` if no piece has rows.

    Raises
    ------
    InvalidInstance
        Rows are missing between two pieces, or the pieces differ in their layers or choices.
    """
    kept: list[NDArray[Any]] = []
    for n, (start, rows) in enumerate(parts):
        if rows is None:
            continue
        if rows.ndim != 3 or (kept and rows.shape[1:] != kept[0].shape[1:]):
            raise InvalidInstance(f"parts[{n}] has shape {rows.shape}; (rows, layers, choices) as in the other parts needed.")
        first = 0 if start + len(rows) > tokens and len(rows) in (tokens, tokens - 1) else start
        have = sum(map(len, kept))
        if not 0 <= first <= have:
            raise InvalidInstance(f"parts[{n}] starts at row {start}, but only {have} rows come before; give the part between.")
        while kept and have > first:
            last = kept.pop()
            have -= len(last)
            if have < first:
                kept.append(last[: first - have])
                have = first
        kept.append(rows)
    if len(kept) < 2:
        return kept[0] if kept else None
    return np.concatenate(kept)


def decode(record: Record, model: ModelShape) -> Iterator[SampleRoutes]:
    """Read ``{parts: [{start, routes}, ...], tokens}``; a part may also be ``{start, data, shape, dtype}``."""
    parts = record.get("parts") or []
    if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
        raise InvalidInstance(f"parts = {brief(parts)} is no list of objects; give {{start, routes}} for each.")
    tokens = tokens_of(record)
    pieces = [
        (whole(part.get("start", 0), "start"), described(part) if "data" in part else route_array(part.get("routes"))) for part in parts
    ]
    yield SampleRoutes(tokens, join(pieces, tokens), **names_of(record))


def decode_split(record: Record, model: ModelShape) -> Iterator[SampleRoutes]:
    """Read ``{prompt_tokens, prefill, decode, tokens}``: prompt rows of the decode reply are rubbish."""
    tokens, prompt = tokens_of(record), whole(record.get("prompt_tokens"), "prompt_tokens")
    prefill, rest = route_array(record.get("prefill"), "prefill"), route_array(record.get("decode"), "decode")
    routes = None
    if prefill is not None and rest is not None:
        if not 0 <= prompt <= min(len(prefill), len(rest)):
            raise InvalidInstance(
                f"prompt_tokens = {prompt} exceeds the {len(prefill)} rows of prefill or {len(rest)} of decode; check both."
            )
        routes = join([(0, prefill[:prompt]), (prompt, rest[prompt:])], tokens)
    yield SampleRoutes(tokens, routes, **names_of(record))
