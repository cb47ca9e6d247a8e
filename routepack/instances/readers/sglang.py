"""Replies of SGLang: a flat buffer in base64 over all hidden layers, whose type stands in ``meta_info``."""

from collections.abc import Iterator, Mapping

from routepack.errors import InvalidInstance
from routepack.instances.readers.model_shape import ModelShape
from routepack.instances.readers.parts import join
from routepack.instances.readers.routes import Record, SampleRoutes, first_of, sample_of, whole
from routepack.instances.readers.wire import buffer_of, shaped, type_of

KEYS = ("routed_experts",)


def decode(record: Record, model: ModelShape) -> Iterator[SampleRoutes]:
    """Read ``{routed_experts}`` or ``{meta_info: {routed_experts}}``; layers and choices of the flat buffer come from the model."""
    meta = record.get("meta_info")
    given = {**meta, **record} if isinstance(meta, Mapping) else dict(record)
    text = given.get("routed_experts")
    routes = None
    if text is not None:
        dtype = type_of(first_of(given, ("routed_experts_dtype", "dtype")) or "int32")
        content = buffer_of(text, "routed_experts")
        width = model.num_layers * model.top_k
        rows, left = divmod(len(content), width * dtype.itemsize)
        if left:
            raise InvalidInstance(
                f"routed_experts holds {len(content)} bytes, no whole number of rows of {model.num_layers} layers x {model.top_k} choices "
                f"of {dtype.name}; check the model, or the record is cut."
            )
        routes = shaped(content, (rows, model.num_layers, model.top_k), dtype, "routed_experts")
    start = whole(first_of(given, ("routed_experts_start_len", "start_len", "start")) or 0, "start_len")
    if given.get("tokens") is None and "prompt_tokens" in given and "completion_tokens" in given:
        given["tokens"] = whole(given["prompt_tokens"], "prompt_tokens") + whole(given["completion_tokens"], "completion_tokens")
    sample = sample_of(given, routes, missing=1 + start)
    yield SampleRoutes(
        sample.tokens, None if routes is None else join([(start, routes)], sample.tokens), name=sample.name, prompt=sample.prompt
    )
