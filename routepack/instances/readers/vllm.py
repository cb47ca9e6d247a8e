"""
Completions of vLLM: one array, prompt and generation apart, or an array file in base64.

A position whose routes came from the prefix cache holds minus one in every choice.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from routepack.instances.readers.model_shape import ModelShape
from routepack.instances.readers.parts import join
from routepack.instances.readers.routes import LENGTH_KEYS, Record, SampleRoutes, first_of, names_of, route_array, sample_of, whole
from routepack.instances.readers.wire import array_file

KEYS = ("routed_experts", "npy")


def decode(record: Record, model: ModelShape) -> Iterator[SampleRoutes]:
    """Read a request: every completion in ``outputs`` (or ``choices``) is a sample and shares the rows of the prompt."""
    outputs = first_of(record, ("outputs", "choices"))
    if not isinstance(outputs, list):
        yield _completion(record, {})
        return
    shared = {key: value for key, value in record.items() if key not in ("outputs", "choices")}
    for n, output in enumerate(outputs):
        sample = _completion(output if isinstance(output, Mapping) else {}, shared)
        name = sample.name if sample.name is not None else names_of(record).get("name")
        yield replace(sample, name=name if len(outputs) == 1 or name is None else f"{name}/{n}", prompt=_prompt(record, sample))


def _prompt(record: Record, sample: SampleRoutes) -> str | int | None:
    prompt: str | int | None = names_of(record).get("prompt", sample.prompt)
    return prompt


def _completion(output: Record, request: Mapping[str, Any]) -> SampleRoutes:
    given = {**request, **output}
    generated = _array(output.get("routed_experts", output.get("npy")))
    prompt = _array(first_of(given, ("prompt_routed_experts",)) if request or "prompt_routed_experts" in given else None)
    start = whole(first_of(given, ("routed_experts_prompt_start", "start")) or 0, "start")
    tokens = _tokens(given)
    rows = [rows for rows in (prompt, generated) if rows is not None]
    if tokens is None and rows and not any(key in given for key in LENGTH_KEYS):
        tokens = start + sum(map(len, rows)) + 1
    sample = sample_of(given if tokens is None else {**given, "tokens": tokens}, rows[0] if rows else None)
    if len(rows) == 2:
        return replace(sample, routes=join([(0, rows[0]), (len(rows[0]), rows[1])], sample.tokens))
    return replace(sample, routes=join([(start, rows[0])], sample.tokens)) if rows and start else sample


def _tokens(given: Mapping[str, Any]) -> int | None:
    if given.get("tokens") is not None or "prompt_token_ids" not in given or "token_ids" not in given:
        return None
    return len(given["prompt_token_ids"]) + len(given["token_ids"])


def _array(values: Any) -> NDArray[Any] | None:
    return array_file(values, "routed_experts") if isinstance(values, str | bytes) else route_array(values, "routed_experts")
