"""Megatron-LM's router trace: JSON lines, one record for every router call and rank, by global layer number."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from routepack.errors import InvalidInstance
from routepack.instances.documents import brief
from routepack.instances.readers.loads import Loads, add_tokens, checked
from routepack.instances.readers.model_shape import ModelShape
from routepack.instances.readers.routes import Record, route_array, whole


def read(records: Iterable[Record], model: ModelShape) -> Loads:
    """
    Sum the records of all ranks; ``{lines: [...]}`` holds records as text.

    Raises
    ------
    InvalidInstance
        A record contradicts itself or the model, or the layers do not add up to the same tokens.
    """
    counts = np.zeros((len(model.moe_layers), model.experts), dtype=np.int64)
    repeated = np.zeros(len(counts), dtype=np.int64)
    row_of_layer = {int(layer): j for j, layer in enumerate(model.moe_layers)}
    tokens = None
    n = -1
    for document in records:
        if isinstance(document, Mapping) and "lines" in document:
            tokens = document.get("tokens")
        for record in _records(document):
            n += 1
            try:
                _add(record, model, row_of_layer, counts, repeated)
            except InvalidInstance as fault:
                raise InvalidInstance(f"record {n}: {fault}") from None
    return checked(counts, model, None if tokens is None else whole(tokens, "tokens"), repeated)


def _records(document: Any) -> Iterable[Any]:
    lines = document.get("lines") if isinstance(document, Mapping) else None
    if not isinstance(lines, list):
        return [document]
    try:
        return [json.loads(line) for line in lines]
    except (ValueError, TypeError, RecursionError) as fault:
        raise InvalidInstance(f"lines hold something that is no JSON: {fault}; the trace may be cut.") from None


def _add(record: Any, model: ModelShape, row_of_layer: dict[int, int], counts: np.ndarray, repeated: np.ndarray) -> None:
    if not isinstance(record, Mapping):
        raise InvalidInstance(f"{brief(record)} is no object; the trace may be broken.")
    layer, tokens = whole(record.get("layer"), "layer"), whole(record.get("num_tokens"), "num_tokens")
    if layer not in row_of_layer:
        raise InvalidInstance(f"layer = {layer} is no MoE layer of the model; layer numbers must be global, not those of a pipeline chunk.")
    ids = route_array(record.get("top_indices"), "top_indices")
    if ids is None and tokens == 0:
        return
    if ids is None or ids.shape != (tokens, model.top_k):
        raise InvalidInstance(f"top_indices have no shape ({tokens}, {model.top_k}) of num_tokens and top-k; check the model.")
    if tokens and (int(ids.min()) < 0 or int(ids.max()) >= model.experts):
        raise InvalidInstance(f"top_indices run from {ids.min()} to {ids.max()}, outside 0..{model.experts - 1}; check the model.")
    repeated[row_of_layer[layer]] += add_tokens(ids.astype(np.int64), counts[row_of_layer[layer]])
