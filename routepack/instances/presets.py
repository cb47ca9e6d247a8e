"""Sizes of production models, and what their attention costs."""

from dataclasses import dataclass

from routepack.cost_model import CostModel, Stage
from routepack.errors import InvalidInstance

CHUNK = 64  # tokens that a linear-attention kernel handles at once
WINDOW = 128  # tokens that sliding attention of gpt-oss sees


@dataclass(frozen=True, slots=True)
class Attention:
    """
    One kind of attention block: forward FLOPs of a sample of t tokens in one layer are ``linear * t + quadratic * t**2``.

    Parameters
    ----------
    name
        ``full``, ``mla``, ``sliding`` or ``kda``.
    layers
        Layers of this kind.
    linear
        FLOPs a token: projections, and the attention itself where its reach is bounded.
    quadratic
        FLOPs a pair of tokens, the causal half already taken.
    """

    name: str
    layers: int
    linear: float
    quadratic: float


@dataclass(frozen=True, slots=True)
class Preset:
    """
    Sizes of one model.

    Parameters
    ----------
    name
        As given to `preset`.
    moe_layers
        Model layer numbers of the MoE layers.
    experts, top_k
        Experts E of a layer, and how many a token chooses.
    attention
        Kinds of attention block, over all layers of the model, dense ones included.
    """

    name: str
    moe_layers: tuple[int, ...]
    experts: int
    top_k: int
    attention: tuple[Attention, ...]

    @property
    def cost(self) -> CostModel:
        """Window-normalised cost model (share 0.5) with a stage for each kind of attention: only the ratios of the FLOPs matter."""
        return CostModel(stages=tuple(Stage(a.name, a.layers * a.linear, a.layers * a.quadratic) for a in self.attention))


def grouped_query(layers: int, hidden: int, heads: int, kv_heads: int, head: int) -> Attention:
    """
    Full attention with H heads of size d over K key-value heads [1]_.

    Queries ``2 h H d``, keys and values ``4 h K d``, output ``2 h h`` a token; scores and their sum ``2 H d`` a pair.

    References
    ----------
    .. [1] THUDM/slime, ``slime/utils/flops_utils.py``.
    """
    return Attention("full", layers, 2 * hidden * head * (heads + 2 * kv_heads) + 2 * hidden**2, 2 * heads * head)


def sliding_window(layers: int, hidden: int, heads: int, kv_heads: int, head: int) -> Attention:
    """
    Grouped-query attention over the last `WINDOW` tokens.

    A token is charged for the whole reach, ``4 H d`` for each of its tokens; the first tokens of a sample see fewer, which is left out.
    """
    full = grouped_query(layers, hidden, heads, kv_heads, head)
    return Attention("sliding", layers, full.linear + 2 * full.quadratic * WINDOW, 0)


def latent(layers: int, hidden: int, heads: int, query_rank: int | None) -> Attention:
    """
    Multi-head latent attention with the ranks of DeepSeek-V3 [1]_: key-value rank 512, heads of 128 + 64 rotary, values of 128.

    Queries through their rank, or directly where there is none; output ``2 h h`` a token; ``H (128 + 64 + 128)`` a pair.

    References
    ----------
    .. [1] DeepSeek-AI (2024). DeepSeek-V3 technical report. arXiv 2412.19437.
    """
    rank, plain, rotary, value = 512, 128, 64, 128
    width = heads * (plain + rotary)
    queries = hidden * width if query_rank is None else query_rank * (hidden + width)
    keys = rank * (hidden + heads * (plain + value)) + hidden * rotary
    return Attention("mla", layers, 2 * (queries + keys) + 2 * hidden**2, heads * (plain + rotary + value))


def delta(layers: int, hidden: int, heads: int) -> Attention:
    """
    Kimi delta attention [1]_ with heads of size d = 128: linear in t.

    Four projections ``8 h H d``, and ``6 d d + 3 C d + C C`` a head in chunks of C tokens; gates and short convolutions are left out.

    References
    ----------
    .. [1] Kimi Team (2025). Kimi Linear: an expressive, efficient attention architecture. arXiv 2510.26692.
    """
    head = 128
    return Attention("kda", layers, 8 * hidden * heads * head + heads * (6 * head**2 + 3 * CHUNK * head + CHUNK**2), 0)


def _numbers(first: int, layers: int) -> tuple[int, ...]:
    return tuple(range(first, layers))


# Ling's head counts are not published where we looked: hidden / 128 heads and queries without a rank are assumed.
PRESETS = {
    model.name: model
    for model in (
        Preset("ling-3.0-tiny", _numbers(1, 24), 128, 8, (delta(18, 1536, 12), latent(6, 1536, 12, None))),
        Preset("ling-3.0-flash", _numbers(2, 42), 512, 8, (delta(35, 2560, 20), latent(7, 2560, 20, None))),
        Preset("qwen3-30b-a3b", _numbers(0, 48), 128, 8, (grouped_query(48, 2048, 32, 4, 128),)),
        Preset("qwen3-235b-a22b", _numbers(0, 94), 128, 8, (grouped_query(94, 4096, 64, 4, 128),)),
        Preset("deepseek-v3", _numbers(3, 61), 256, 8, (latent(61, 7168, 128, 1536),)),
        Preset("kimi-k2", _numbers(1, 61), 384, 8, (latent(61, 7168, 64, 1536),)),
        Preset("glm-4.5-air", _numbers(1, 46), 128, 8, (grouped_query(46, 4096, 96, 8, 128),)),
        Preset("gpt-oss-20b", _numbers(0, 24), 32, 4, (sliding_window(12, 2880, 64, 8, 64), grouped_query(12, 2880, 64, 8, 64))),
    )
}


def preset(name: str) -> Preset:
    """
    Sizes of a model by its name.

    Raises
    ------
    InvalidInstance
        No model has that name; the known ones are listed.
    """
    if name not in PRESETS:
        raise InvalidInstance(f"preset = {name!r} is unknown; choose {', '.join(PRESETS)}.")
    return PRESETS[name]
