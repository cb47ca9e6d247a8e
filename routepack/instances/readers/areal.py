"""Samples of AReaL: layers and choices laid end to end in one axis."""

from collections.abc import Iterator

from routepack.errors import InvalidInstance
from routepack.instances.readers.model_shape import ModelShape
from routepack.instances.readers.routes import Record, SampleRoutes, route_array, sample_of

KEYS = ("routed_experts",)


def decode(record: Record, model: ModelShape) -> Iterator[SampleRoutes]:
    """Read ``{routed_experts}`` of shape (rows, layers * k); the model's k takes it apart."""
    routes = route_array(record.get("routed_experts"), "routed_experts")
    if routes is not None:
        if routes.ndim != 2 or routes.shape[1] % model.top_k:
            raise InvalidInstance(f"routed_experts has shape {routes.shape}; (rows, layers * {model.top_k}) needed.")
        routes = routes.reshape(len(routes), -1, model.top_k)
    yield sample_of(record, routes, missing=1, masks=("attention_mask",))
