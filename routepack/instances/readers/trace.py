"""Traces of routed experts into what a window needs: demand of every sample, or loads of them all."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from routepack.errors import InvalidInstance
from routepack.instances.readers import (
    areal,
    array,
    megatron,
    ms_swift,
    nemo_rl,
    parts,
    prime_rl,
    recorder,
    sglang,
    skyrl,
    slime,
    verl,
    vllm,
)
from routepack.instances.readers.columns import records
from routepack.instances.readers.counter import RouteCounter, SampleFacts, check_tokens
from routepack.instances.readers.loads import Loads
from routepack.instances.readers.model_shape import ModelShape
from routepack.instances.readers.routes import LastRow, SampleRoutes, names_of
from routepack.instances.readers.sources import documents
from routepack.window import INT32_MAX, Ids, Window

OnMissing = Literal["error", "drop", "uniform"]

# name -> (decoder of one record, keys of the ids, axes of the ids of one sample; 0 where they are text or an object)
SAMPLE_FORMATS = {
    "areal": (areal.decode, areal.KEYS, 2),
    "array": (array.decode, array.KEYS, 3),
    "miles": (slime.decode, slime.KEYS, 3),
    "ms-swift": (ms_swift.decode, ms_swift.KEYS, 3),
    "nemo-rl": (nemo_rl.decode, nemo_rl.KEYS, 3),
    "nrlre1": (nemo_rl.decode, nemo_rl.KEYS, 0),
    "parts": (parts.decode, parts.KEYS, 1),
    "prefill-decode": (parts.decode_split, ("prefill",), 3),
    "prime-rl": (prime_rl.decode, prime_rl.KEYS, 0),
    "sglang": (sglang.decode, sglang.KEYS, 0),
    "skyrl": (skyrl.decode, skyrl.KEYS, 3),
    "slime": (slime.decode, slime.KEYS, 3),
    "verl": (verl.decode, verl.KEYS, 3),
    "vllm": (vllm.decode, vllm.KEYS, 3),
    "vllm-npy": (vllm.decode, vllm.KEYS, 0),
}
# name -> reader of a whole file; no sample boundaries
LOAD_FORMATS = {
    "megatron-trace": megatron.read,
    "sglang-detail": recorder.read,
    "sglang-distribution": recorder.read,
    "sglang-stat": recorder.read,
}
FORMATS = (*SAMPLE_FORMATS, *LOAD_FORMATS)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """
    What a trace says about a window.

    Parameters
    ----------
    lengths
        Tokens of each sample, shape (N,).
    demand
        Token-slots by sample, MoE layer and expert, shape (N, L, E).
    model
        The sizes that it was read by.
    facts
        What was found on the way.
    has_samples
        False where the source has no sample boundaries: then the one sample is the sum of all, good for placement only.
    sample_ids, prompt_ids
        Names, where every record has one.
    dropped, estimated
        Samples without routes that were left out, or were counted as if they chose every expert equally often.
    """

    lengths: NDArray[np.int64]
    demand: NDArray[np.int32]
    model: ModelShape
    facts: SampleFacts
    has_samples: bool = True
    sample_ids: Ids | None = None
    prompt_ids: Ids | None = None
    dropped: tuple[str, ...] = ()
    estimated: tuple[str, ...] = ()

    def window(self) -> Window:
        """Return the samples as a window; it takes the demand over without a copy."""
        return Window(self.lengths, self.demand, self.sample_ids, self.prompt_ids, self.model.moe_layers, self.model.top_k)


@dataclass(slots=True)
class _Names:
    names: list[str | int | None] = field(default_factory=list)
    prompts: list[str | int | None] = field(default_factory=list)

    def ids(self, values: list[str | int | None]) -> Ids | None:
        if not values or any(value is None for value in values):
            return None
        return tuple(map(int, values)) if all(isinstance(value, int) for value in values) else tuple(map(str, values))  # type: ignore[arg-type]


def read_trace(
    path: str | os.PathLike[str], form: str, model: ModelShape, *, on_missing: OnMissing = "error", last_row: LastRow = "filler"
) -> Trace:
    """
    Read a file of routed experts, sample by sample.

    Parameters
    ----------
    path
        The file.
    form
        A name of `FORMATS`.
    model, on_missing, last_row
        As in `count`.

    Raises
    ------
    InvalidInstance
        The file cannot be read or is malformed; one line that names it and the sample.
    """
    try:
        found = Path(path)
        if not stat.S_ISREG(found.stat().st_mode):
            raise InvalidInstance("it is not a regular file.")
        return count(documents(found), form, model, on_missing=on_missing, last_row=last_row)
    except InvalidInstance as fault:
        message = str(fault)
    except OSError as fault:
        message = f"cannot be read: {fault.strerror or fault}; check the path."
    except Exception as fault:  # whatever a hostile file makes the decoders raise is a malformed file
        message = f"cannot be read: {str(fault)[:300] or type(fault).__name__}; write the file anew."
    raise InvalidInstance(" ".join(f"{os.fspath(path)}: {message}".split()))


def count(source: Iterable[Any], form: str, model: ModelShape, *, on_missing: OnMissing = "error", last_row: LastRow = "filler") -> Trace:
    """
    Count routed experts that are in memory already; holds the routes of one sample at a time.

    Parameters
    ----------
    source
        Records of samples, or batches of them, as the framework holds them.
    form
        A name of `FORMATS`.
    model
        Layers and experts.
    on_missing
        What becomes of a sample without routes: refuse it, drop it, or count it as if it chose every expert equally often.
    last_row
        ``"filler"``: the row of a sample's last token is no data, as after any rollout. ``"routed"``: it is, as after a full pass over a
        finished text.

    Raises
    ------
    InvalidInstance
        An unknown name, or routes that contradict the model or themselves; the sample is named.
    """
    for what, value, choices in (
        ("format", form, FORMATS),
        ("on_missing", on_missing, get_args(OnMissing)),
        ("last_row", last_row, get_args(LastRow)),
    ):
        if value not in choices:
            raise InvalidInstance(f"{what} = {value!r} is unknown; choose {', '.join(choices)}.")
    if form in LOAD_FORMATS:
        return _of_loads(LOAD_FORMATS[form](_single_records(source), model), model)
    counter, names = RouteCounter(model, last_row), _Names()
    dropped: list[str] = []
    estimated: list[str] = []
    for n, sample in enumerate(_samples(source, form, model)):
        label = _label(n, sample.name)
        try:
            if sample.routes is None and on_missing == "drop":
                dropped.append(label)
                continue
            if sample.routes is None and on_missing == "uniform":
                counter.add_uniform(sample.tokens)
                estimated.append(label)
            else:
                counter.add(sample)
        except InvalidInstance as fault:
            raise InvalidInstance(f"{label}: {fault}") from None
        names.names.append(sample.name)
        names.prompts.append(sample.prompt)
    if not counter.lengths:
        raise InvalidInstance(f"there is no sample with routes ({len(dropped)} without); record them.")
    return Trace(
        lengths=np.array(counter.lengths, dtype=np.int64),
        demand=counter.demand(),
        model=model,
        facts=counter.facts,
        sample_ids=names.ids(names.names),
        prompt_ids=names.ids(names.prompts),
        dropped=tuple(dropped),
        estimated=tuple(estimated),
    )


def _samples(source: Iterable[Any], form: str, model: ModelShape) -> Iterator[SampleRoutes]:
    decode, keys, axes = SAMPLE_FORMATS[form]
    n = 0
    for record in chain.from_iterable(records(document, keys, axes) for document in source):
        try:
            for sample in decode(record, model):
                n += 1
                yield sample
        except InvalidInstance as fault:
            name = names_of(record).get("name")
            raise InvalidInstance(f"{_label(n, name)}: {fault}") from None


def _label(n: int, name: str | int | None) -> str:
    return f"sample {n}" if name is None else f"sample {n} ({str(name)[:80]})"


def _single_records(source: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    for document in source:
        yield from document if isinstance(document, list) else (document,)


def _of_loads(loads: Loads, model: ModelShape) -> Trace:
    check_tokens(loads.tokens)
    if int(loads.counts.max()) > INT32_MAX:
        raise InvalidInstance(f"counts reach {int(loads.counts.max())}, more than {INT32_MAX}; record fewer steps.")
    return Trace(
        lengths=np.array([loads.tokens], dtype=np.int64),
        demand=loads.counts[None].astype(np.int32),
        model=model,
        facts=loads.facts,
        has_samples=False,
    )
