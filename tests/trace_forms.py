"""Random routes, a naive count of them, and every framework's way to write them down."""

import base64
import io
import json

import numpy as np
from hypothesis import strategies as st

from routepack.instances.readers import ModelShape


@st.composite
def models(draw, max_experts=9):
    """Draw a model with dense layers before, after or between its MoE layers."""
    layers = draw(st.integers(1, 4))
    moe = sorted(draw(st.sets(st.integers(0, layers - 1), min_size=1)))
    experts = draw(st.integers(2, max_experts))
    return ModelShape(layers, np.array(moe), experts, draw(st.integers(1, min(3, experts))))


@st.composite
def traces(draw, max_samples=3, max_tokens=7):
    """Draw a model and, for each sample, T rows over all hidden layers: distinct choices, zeros in dense layers."""
    model = draw(models())
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    samples = []
    for _ in range(draw(st.integers(1, max_samples))):
        tokens = draw(st.integers(2, max_tokens))
        routes = np.zeros((tokens, model.num_layers, model.top_k), dtype=np.int32)
        order = rng.random((tokens, len(model.moe_layers), model.experts)).argsort(axis=2)
        routes[:, model.moe_layers] = order[:, :, : model.top_k]
        samples.append(routes)
    return model, samples


def naive(model, routes, rows):
    """Count the first rows of a sample one choice at a time."""
    counts = np.zeros((len(model.moe_layers), model.experts), dtype=int)
    for row in routes[:rows].tolist():
        for j, layer in enumerate(model.moe_layers.tolist()):
            for expert in row[layer]:
                counts[j, expert] += 1
    return counts


def text(array, dtype):
    """Base64 of an array's bytes, little-endian."""
    return base64.b64encode(array.astype(np.dtype(dtype).newbyteorder("<")).tobytes()).decode()


def npy_text(array, dtype):
    """Base64 of an array file."""
    file = io.BytesIO()
    np.save(file, array.astype(dtype))
    return base64.b64encode(file.getvalue()).decode()


def described(array, dtype):
    """Bytes with their shape and type."""
    return {"data": text(array, dtype), "shape": list(array.shape), "dtype": dtype}


def padded(array, before, after, filler):
    """Rows of filler on both sides, and the mask that tells them apart."""
    mask = [0] * before + [1] * len(array) + [0] * after
    return np.pad(array, [(before, after), (0, 0), (0, 0)], constant_values=filler), mask


def _verl(model, routes):
    ids, mask = padded(np.concatenate([routes[:-1], np.zeros_like(routes[:1])]), 2, 3, 0)
    return {"routed_experts": ids.astype(np.int16), "attention_mask": mask}


def _nemo(model, routes):
    filler = np.broadcast_to(np.arange(model.top_k), (4, *routes.shape[1:]))
    return {"routed_experts": np.concatenate([routes[:-1], filler]).astype(np.int8), "input_lengths": len(routes)}


def _skyrl(model, routes):
    ids, mask = padded(routes, 3, 0, 0)
    return {"rollout_expert_indices": ids.astype(np.int16), "router_padding_mask": 1 - np.array(mask)}


def _parts(model, routes):
    half = len(routes) // 2
    stale = np.full_like(routes[:1], model.experts + 5)
    pieces = [(0, np.concatenate([routes[:half], stale])), (half, routes[half:-1])]
    return {"parts": [{"start": start, "routes": rows.tolist()} for start, rows in pieces if len(rows)], "tokens": len(routes)}


# name -> (format, writer of one record); every one leaves out or fills the row of the last token as that framework does
FORMS = {
    "array": ("array", lambda m, r: {"routes": r.tolist(), "tokens": len(r)}),
    "array of MoE layers": ("array", lambda m, r: {"routes": r[:, m.moe_layers].astype(np.uint16), "tokens": len(r)}),
    "areal": ("areal", lambda m, r: {"routed_experts": r[:-1].reshape(len(r) - 1, -1).tolist()}),
    "miles": ("miles", lambda m, r: {"rollout_routed_experts": r[:-1], "tokens": [7] * len(r)}),
    "ms-swift": ("ms-swift", lambda m, r: {"routed_experts": r.astype(np.int64)}),
    "nemo-rl": ("nemo-rl", _nemo),
    "nemo-rl text": (
        "nemo-rl",
        lambda m, r: {"routed_experts": "nrlre1:int8:" + "x".join(map(str, r.shape)) + ":" + text(r, "int8"), "tokens": len(r)},
    ),
    "parts": ("parts", _parts),
    "prefill-decode": (
        "prefill-decode",
        lambda m, r: {"prompt_tokens": 1, "prefill": r[:1].tolist(), "decode": r[:-1].tolist(), "tokens": len(r)},
    ),
    "prime-rl": ("prime-rl", lambda m, r: {**described(r[:-1], "uint8"), "start": 0, "tokens": len(r)}),
    "sglang": ("sglang", lambda m, r: {"meta_info": {"routed_experts": text(r[:-1], "int32")}}),
    "sglang uint8": (
        "sglang",
        lambda m, r: {
            "meta_info": {"routed_experts": text(r[:-1], "uint8"), "routed_experts_dtype": "uint8", "prompt_tokens": 1},
            "tokens": len(r),
        },
    ),
    "skyrl": ("skyrl", _skyrl),
    "skyrl wire": ("skyrl", lambda m, r: {**described(r[:-1], "uint8"), "tokens": len(r)}),
    "slime": ("slime", lambda m, r: {"rollout_routed_experts": r[:-1], "tokens": [7] * len(r)}),
    "verl": ("verl", _verl),
    "vllm": ("vllm", lambda m, r: {"routed_experts": r[:-1].tolist()}),
    "vllm split": (
        "vllm",
        lambda m, r: {
            "prompt_token_ids": [5],
            "prompt_routed_experts": r[:1].astype(np.int16).tolist(),
            "outputs": [{"token_ids": [6] * (len(r) - 1), "routed_experts": r[1:-1].tolist()}],
        },
    ),
    "vllm-npy": ("vllm-npy", lambda m, r: {"npy": npy_text(r[:-1], "uint8")}),
}


def plain(record):
    """Return a record as JSON would carry it."""
    return json.loads(json.dumps(record, default=lambda value: value.tolist()))
