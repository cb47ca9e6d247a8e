"""Samples of slime and miles, as their debug dumps hold them: T-1 rows a sample beside its list of tokens."""

from collections.abc import Iterator

from routepack.instances.readers.model_shape import ModelShape
from routepack.instances.readers.routes import Record, SampleRoutes, first_of, sample_of

KEYS = ("rollout_routed_experts", "routed_experts")


def decode(record: Record, model: ModelShape) -> Iterator[SampleRoutes]:
    """Read ``{rollout_routed_experts, tokens}``; rows of minus one, as miles pads, are unknown."""
    yield sample_of(record, first_of(record, KEYS), missing=1)
