"""Which layers of a Hugging Face config hold experts, and which kind of attention each has."""

from collections.abc import Mapping
from typing import Any

from routepack.errors import InvalidInstance
from routepack.instances.documents import brief

KINDS = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "linear",
}


def moe_layers(values: Mapping[str, Any], layers: int) -> tuple[int, ...]:
    """
    Find the MoE layers.

    Lists win over rules: ``mlp_layer_types``, ``moe_layers``, or ``moe_layer_freq`` with a 0 or 1 a layer. Otherwise a layer holds experts
    unless it is one of the first ``first_k_dense_replace``, in ``mlp_only_layers``, outside ``moe_layer_start_index`` to
    ``moe_layer_end_index``, or off the step of ``moe_layer_freq`` (layer 0 is on it), or of ``decoder_sparse_step``,
    ``interleave_moe_layer_step`` or ``moe_layer_interval`` (layer 0 is just after it).

    Parameters
    ----------
    values
        The config.
    layers
        Hidden layers.

    Raises
    ------
    InvalidInstance
        A list has another length than the layers, a step is no whole number, or no layer is left.
    """
    types, named, frequency = values.get("mlp_layer_types"), values.get("moe_layers"), values.get("moe_layer_freq")
    if isinstance(types, list):
        found = [n for n, kind in enumerate(_listed("mlp_layer_types", types, layers)) if kind != "dense"]
    elif isinstance(named, list) and named:
        found = sorted(set(_numbers("moe_layers", named, layers)))
    elif isinstance(frequency, list):
        found = [n for n, flag in enumerate(_listed("moe_layer_freq", frequency, layers)) if flag]
    else:
        first = max(_whole(values, "first_k_dense_replace", 0), _whole(values, "moe_layer_start_index", 0))
        last = _whole(values, "moe_layer_end_index", -1)
        dense = set(_numbers("mlp_only_layers", values.get("mlp_only_layers") or [], layers))
        step = max(1, _whole(values, "moe_layer_freq", 1))
        late = max(_whole(values, key, 1) for key in ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"))
        found = [
            n
            for n in range(first, layers if last < 0 else min(layers, last + 1))
            if n not in dense and n % step == 0 and (n + 1) % max(1, late) == 0
        ]
    if not found:
        raise InvalidInstance("no layer of the config holds experts; give a config.json of a MoE model.")
    return tuple(found)


def attention_kinds(values: Mapping[str, Any], layers: int) -> list[str]:
    """
    Find the kind of attention of each layer: ``full``, ``sliding``, ``chunked`` or ``linear``.

    Parameters
    ----------
    values
        The config: ``layer_types``; ``attn_type_list`` with a 1 for full; ``linear_attn_config`` that numbers its layers from 1;
        ``full_attention_interval`` or ``layer_group_size``, whose last layer is full; ``use_sliding_window``; otherwise all are full.
    layers
        Hidden layers.

    Raises
    ------
    InvalidInstance
        A list has another length than the layers, or an unknown kind.
    """
    types, flags, own = values.get("layer_types"), values.get("attn_type_list"), values.get("linear_attn_config")
    if isinstance(types, list):
        unknown = next((kind for kind in types if not isinstance(kind, str) or kind not in KINDS), None)
        if unknown is not None:
            raise InvalidInstance(f"layer_types names {brief(unknown)}, which is unknown; choose {', '.join(KINDS)}.")
        return [KINDS[kind] for kind in _listed("layer_types", types, layers)]
    if isinstance(flags, list):
        return ["full" if flag else "linear" for flag in _listed("attn_type_list", flags, layers)]
    if isinstance(own, Mapping) and isinstance(own.get("full_attn_layers"), list):
        full = set(_numbers("full_attn_layers", own["full_attn_layers"], layers + 1))
        return ["full" if n + 1 in full else "linear" for n in range(layers)]
    group = _whole(values, "full_attention_interval", 0) or _whole(values, "layer_group_size", 0)
    if group > 1:
        whole_groups = layers // group * group  # layers after the last whole group are full
        return ["full" if (n + 1) % group == 0 or n >= whole_groups else "linear" for n in range(layers)]
    sliding = values.get("sliding_window") is not None and values.get("use_sliding_window", True)
    first = _whole(values, "max_window_layers", 0) if "use_sliding_window" in values else 0
    return ["sliding" if sliding and n >= first else "full" for n in range(layers)]


def _listed(key: str, entries: list[Any], layers: int) -> list[Any]:
    if len(entries) != layers:
        raise InvalidInstance(f"{key} has {len(entries)} entries for {layers} layers; give one for each.")
    return entries


def _numbers(key: str, entries: Any, limit: int) -> list[int]:
    if not isinstance(entries, list) or any(type(n) is not int or not 0 <= n < limit for n in entries):
        raise InvalidInstance(f"{key} = {brief(entries)} is no list of layer numbers below {limit}; check the config.")
    return entries


def _whole(values: Mapping[str, Any], key: str, default: int) -> int:
    value = values.get(key)
    if value is None:
        return default
    if type(value) is not int:
        raise InvalidInstance(f"{key} = {brief(value)} is no whole number; check the config.")
    return value
