"""Batches of NeMo RL: right-padded with 0..k-1, so that only the length tells data from filler; and NeMo-Gym's text form."""

from collections.abc import Iterator

from routepack.instances.readers.model_shape import ModelShape
from routepack.instances.readers.routes import Record, SampleRoutes, first_of, sample_of
from routepack.instances.readers.wire import envelope

KEYS = ("routed_experts", "text")


def decode(record: Record, model: ModelShape) -> Iterator[SampleRoutes]:
    """Read ``{routed_experts, tokens}``, ids padded or in the text form; a row of minus one has no route."""
    routes = first_of(record, KEYS)
    if isinstance(routes, str):
        yield sample_of(record, envelope(routes), padded=True)
    else:
        yield sample_of(record, routes, padded=True)
