"""Hugging Face ``config.json`` files as models: which layers hold experts, what kinds of attention there are, and what they cost."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from routepack.errors import InvalidInstance
from routepack.instances.documents import brief
from routepack.instances.instance_form import MAX_EXPERTS, MAX_LAYERS
from routepack.instances.layer_kinds import attention_kinds, moe_layers
from routepack.instances.presets import CHUNK, Attention, Preset, grouped_query

SIZE_LIMIT = 1 << 24  # bytes of a config
WIDTH_LIMIT = 1 << 24  # of any size of a layer
EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
TOP_K = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "num_experts_per_topk")


@dataclass(frozen=True, slots=True)
class Config:
    """
    Sizes of a config, read by name.

    Parameters
    ----------
    values
        The object; that of the language model where the config nests it.
    name
        For messages.
    """

    values: Mapping[str, Any]
    name: str

    def size(self, *keys: str, default: int | None = None, limit: int = WIDTH_LIMIT) -> int:
        """
        Return the first whole number of at least 1 under one of some keys.

        Raises
        ------
        InvalidInstance
            It is missing without a default, or is no such number.
        """
        key = next((key for key in keys if self.values.get(key) is not None), None)
        if key is None:
            if default is None:
                raise InvalidInstance(f"{self.name}: {' or '.join(keys)} is missing; give a config.json of a MoE model.")
            return default
        value = self.values[key]
        if type(value) is not int or not 1 <= value <= limit:
            raise InvalidInstance(f"{self.name}: {key} = {brief(value)} is no whole number from 1 to {limit}; check the config.")
        return value


def read_config(path: str | os.PathLike[str]) -> Preset:
    """
    Read a model from its ``config.json``.

    Raises
    ------
    InvalidInstance
        The file cannot be read, is no config, or its model has no experts.
    """
    found = Path(path)
    try:
        with found.open("rb") as file:
            document = json.loads(file.read(SIZE_LIMIT))
    except OSError as fault:
        raise InvalidInstance(f"{os.fspath(path)}: cannot be read: {fault.strerror or fault}; check the path.") from None
    except (ValueError, RecursionError) as fault:
        raise InvalidInstance(f"{os.fspath(path)}: is no JSON: {' '.join(str(fault).split())}; give a config.json.") from None
    return model_of(document, found.parent.name or found.stem)


def model_of(document: Any, name: str = "model") -> Preset:
    """
    Take a model from the parsed config of Hugging Face.

    Parameters
    ----------
    document
        The object; a language model nested under ``text_config`` or the like is found.
    name
        Of the model, where the config does not say.

    Raises
    ------
    InvalidInstance
        A size is missing or is none, or no layer holds experts.
    """
    if not isinstance(document, Mapping):
        raise InvalidInstance(f"config = {brief(document)} is no object; give a config.json.")
    nested = (document.get(key) for key in ("text_config", "llm_config", "language_config"))
    values = next((part for part in nested if isinstance(part, Mapping)), document)
    title = document.get("_name_or_path")
    config = Config(values, title if isinstance(title, str) and title else name)
    layers = config.size("num_hidden_layers", "num_layers", "n_layer", limit=MAX_LAYERS)
    experts = config.size(*EXPERTS, limit=MAX_EXPERTS)
    kinds = attention_kinds(values, layers)
    return Preset(
        name=config.name,
        moe_layers=moe_layers(values, layers),
        experts=experts,
        top_k=config.size(*TOP_K, limit=experts),
        attention=tuple(_attention(config, kind, kinds.count(kind)) for kind in dict.fromkeys(kinds)),
    )


def describe(model: Preset) -> list[str]:
    """Return what was understood of a model, a line for each part, for a user to check."""
    layers = sum(attention.layers for attention in model.attention)
    dense = sorted(set(range(layers)) - set(model.moe_layers))
    lines = [
        f"model: {model.name}, {layers} layers, {len(model.moe_layers)} of them MoE, {model.experts} experts, {model.top_k} a token",
        f"dense layers: {', '.join(map(str, dense)) if dense else 'none'}",
    ]
    for kind in model.attention:
        lines.append(f"attention: {kind.name} in {kind.layers} layers, {kind.linear:.4g} t + {kind.quadratic:.4g} t^2 FLOPs for t tokens")
    return lines


def _attention(config: Config, kind: str, layers: int) -> Attention:
    if kind == "linear":
        return _linear(config, layers)
    if config.values.get("kv_lora_rank") is not None:
        full = _latent(config, layers)
    else:
        hidden, heads = config.size("hidden_size"), config.size("num_attention_heads")
        head = config.size("head_dim", default=max(1, hidden // heads))
        full = grouped_query(layers, hidden, heads, config.size("num_key_value_heads", default=heads), head)
    if kind == "full":
        return full
    reach = config.size("sliding_window", "attention_chunk_size")
    return replace(full, name=kind, linear=full.linear + 2 * full.quadratic * reach, quadratic=0)


def _latent(config: Config, layers: int) -> Attention:
    """Latent attention by the ranks of the config, counted as in `presets.latent`."""
    hidden, heads = config.size("hidden_size"), config.size("num_attention_heads")
    rank, plain, rotary = config.size("kv_lora_rank"), config.size("qk_nope_head_dim"), config.size("qk_rope_head_dim")
    value = config.size("v_head_dim")
    width = heads * (plain + rotary)
    by_rank = config.values.get("q_lora_rank") is not None
    queries = config.size("q_lora_rank") * (hidden + width) if by_rank else hidden * width
    keys = rank * (hidden + heads * (plain + value)) + hidden * rotary
    return Attention("mla", layers, 2 * (queries + keys) + 2 * hidden**2, heads * (plain + rotary + value))


def _linear(config: Config, layers: int) -> Attention:
    """
    Linear attention: projections of queries, keys, values and output, and per head the state and the chunk, as in `presets.delta`.

    With keys of size a and values of size d in chunks of C tokens a head costs ``6 a d + 2 C a + C d + C C`` a token.
    """
    hidden = config.size("hidden_size")
    own = config.values.get("linear_attn_config")
    part = Config(own, config.name) if isinstance(own, Mapping) else config
    heads = part.size("linear_num_value_heads", "num_heads", "num_attention_heads")
    key_heads = part.size("linear_num_key_heads", default=heads)
    value = part.size("linear_value_head_dim", "head_dim", default=max(1, hidden // heads))
    key = part.size("linear_key_head_dim", default=value)
    projections = 2 * hidden * (2 * key_heads * key + 2 * heads * value)
    return Attention("linear", layers, projections + heads * (6 * key * value + 2 * CHUNK * key + CHUNK * value + CHUNK**2), 0)
