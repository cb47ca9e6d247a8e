"""Plain arrays: ``routes[row][layer][choice]``, with a mask where some rows are no tokens."""

from collections.abc import Iterator

from routepack.instances.readers.model_shape import ModelShape
from routepack.instances.readers.routes import Record, SampleRoutes, first_of, sample_of

KEYS = ("routes", "routed_experts")


def decode(record: Record, model: ModelShape) -> Iterator[SampleRoutes]:
    """Read ``{routes, mask, tokens}``."""
    yield sample_of(record, first_of(record, KEYS), masks=("mask", "attention_mask"))
