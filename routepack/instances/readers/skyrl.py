"""Samples of SkyRL: a described buffer from its server, or a left-padded array of its training batch."""

from collections.abc import Iterator, Mapping

from routepack.errors import InvalidInstance
from routepack.instances.readers.model_shape import ModelShape
from routepack.instances.readers.routes import Record, SampleRoutes, first_of, mask_of, sample_of
from routepack.instances.readers.wire import described

KEYS = ("rollout_expert_indices", "routed_experts", "data")
TYPES = ("uint8", "int16", "int32")


def decode(record: Record, model: ModelShape) -> Iterator[SampleRoutes]:
    """Read ``{data, shape, dtype}``, alone or under ``routed_experts``, or ``{rollout_expert_indices, router_padding_mask}``."""
    ids = first_of(record, KEYS)
    if isinstance(ids, Mapping | str):
        wire = ids if isinstance(ids, Mapping) else record
        if wire.get("dtype") not in TYPES:
            raise InvalidInstance(f"dtype = {str(wire.get('dtype'))[:40]!r} is unknown; choose {', '.join(TYPES)}.")
        yield sample_of(record, described(wire))
        return
    padding = mask_of(record, "router_padding_mask")
    if padding is not None and "attention_mask" not in record:
        # left-padded: the last row is a token, so what stands there marks tokens, whichever way round the mask is
        record = {**record, "attention_mask": padding == padding[-1:]}
    yield sample_of(record, ids, masks=("attention_mask",))
