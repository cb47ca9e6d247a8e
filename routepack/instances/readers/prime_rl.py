"""Samples of prime-rl: bytes with shape, type and, from its inference server, a first row."""

from collections.abc import Iterator, Mapping

from routepack.instances.readers.model_shape import ModelShape
from routepack.instances.readers.parts import join
from routepack.instances.readers.routes import Record, SampleRoutes, names_of, tokens_of, whole
from routepack.instances.readers.wire import described

KEYS = ("routed_experts", "data")


def decode(record: Record, model: ModelShape) -> Iterator[SampleRoutes]:
    """Read ``{data, shape, start, dtype, tokens}``; the first four may stand under ``routed_experts``."""
    nested = record.get("routed_experts")
    wire = nested if isinstance(nested, Mapping) else record
    routes, start = described(wire), whole(wire.get("start") or 0, "start")
    tokens = tokens_of(record)
    yield SampleRoutes(tokens, join([(start, routes)], tokens), **names_of(record))
