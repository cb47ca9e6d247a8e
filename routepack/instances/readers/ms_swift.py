"""Batches of ms-swift: padded under an attention mask, or padding-free with cumulative lengths."""

from collections.abc import Iterator

from routepack.instances.readers.model_shape import ModelShape
from routepack.instances.readers.routes import Record, SampleRoutes, sample_of

KEYS = ("routed_experts",)


def decode(record: Record, model: ModelShape) -> Iterator[SampleRoutes]:
    """Read ``{routed_experts, attention_mask}``; without a mask every row is a token."""
    yield sample_of(record, record.get("routed_experts"), missing=0, masks=("attention_mask",))
