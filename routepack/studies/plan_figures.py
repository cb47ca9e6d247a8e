"""The figures of a plan report."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from routepack.cost import Cost
from routepack.instance import Instance
from routepack.plan import Plan
from routepack.studies.charts import Block, heat_map, histogram, timeline, waterfall
from routepack.studies.decomposition import Decomposition
from routepack.studies.page import Figure
from routepack.studies.simulator import Replay, Workload
from routepack.window import IntArray

BINS = 24
STEPS = {
    "beyond_sums": "proved beyond sums over the window",
    "placement": "experts: busiest ranks above the least possible",
    "expert_peaks": "experts: row-shards that peak on other ranks",
    "attention_waste": "attention: slots that wait in their row-shard",
    "shard_imbalance": "shards: the slowest above their mean",
}


@dataclass(frozen=True, slots=True)
class Side:
    """One plan with all that is drawn of it; ``name`` is before or after."""

    name: str
    plan: Plan
    cost: Cost
    work: Workload
    replay: Replay

    @property
    def loads(self) -> IntArray:
        """Token-slots of each layer and rank over the window, shape (L, P)."""
        total: IntArray = self.work.expert.sum(axis=(0, 1))
        return total


def layer_names(instance: Instance) -> list[str]:
    """Layers by their number in the model, or in the window where the model's is unknown."""
    numbers = instance.window.moe_layers
    return [str(n) for n in (range(instance.window.num_layers) if numbers is None else numbers.tolist())]


def timelines(sides: list[Side]) -> list[Figure]:
    """When each shard computes, on one axis for all sides."""
    end = max(side.replay.time for side in sides)
    legend = (("blue", "attention"), ("orange", "experts"), ("idle", "waiting"))
    figures = []
    for side in sides:
        shards = range(side.cost.row_shards.shape[1])
        chart = timeline(
            [(str(g), _lane(side, g)) for g in shards], end=end, label=f"Work of each shard over time, {side.name}", legend=legend
        )
        idle = 100 * side.replay.idle_share.mean()
        caption = f"{side.name.capitalize()}: shards down, ticks across; {side.replay.time:,} ticks, ranks {idle:.1f} % idle."
        figures.append(Figure(f"time-{side.name}", caption, chart))
    return figures


def _lane(side: Side, shard: int) -> list[Block]:
    blocks, at = [], 0
    for span in side.replay.spans:
        if span.shard == shard:
            attention = int(side.cost.attention[span.row, shard])
            blocks += [Block(at, span.start, "idle", f"shard {shard} waits {span.start - at:,} ticks")] if span.start > at else []
            where, middle = f"shard {shard}, row {span.row}", span.start + attention
            blocks.append(Block(span.start, middle, "blue", f"{where}: attention {attention:,} ticks"))
            blocks.append(Block(middle, span.end, "orange", f"{where}: experts {span.end - middle:,} ticks"))
            at = span.end
    if at < side.replay.time:
        blocks.append(Block(at, side.replay.time, "idle", f"shard {shard} waits {side.replay.time - at:,} ticks"))
    return [block for block in blocks if block.end > block.start]


def gap(parts: Decomposition) -> Figure:
    """Steps from the bound to the score."""
    steps = [(STEPS[name], ticks) for name, ticks in parts.steps.items() if ticks]
    chart = waterfall(("bound", parts.bound), steps, ("score", parts.score), label="Steps from the bound up to the score")
    return Figure("gap", "From the bound up to the score, in ticks; the axis does not begin at 0.", chart)


def _over_mean(loads: IntArray) -> NDArray[np.float64]:
    mean = loads.mean(axis=1, keepdims=True)
    ratio: NDArray[np.float64] = np.divide(loads, mean, out=np.ones(loads.shape), where=mean > 0)
    return ratio


def loads(instance: Instance, sides: list[Side]) -> list[Figure]:
    """Load of each layer and rank over the layer's mean."""
    ratios = [_over_mean(side.loads) for side in sides]
    domain = (min(float(r.min()) for r in ratios), max(float(r.max()) for r in ratios))
    layers = layer_names(instance)
    ranks = [str(p) for p in range(instance.topology.ep)]
    figures = []
    for side, ratio in zip(sides, ratios, strict=True):
        tip = _load_tip(layers, side.loads, ratio)
        label = f"Load of each layer and EP rank, {side.name}"
        chart = heat_map(
            ratio, tip, label=label, axes=("layers", "EP ranks"), names=(layers, ranks), domain=domain, unit="of the layer's mean"
        )
        peaks = ratio.max(axis=1)
        caption = f"{side.name.capitalize()}: busiest rank {peaks.max():.3f} of its layer's mean at most, {peaks.mean():.3f} on average."
        figures.append(Figure(f"load-{side.name}", caption, chart))
    return figures


def _load_tip(layers: list[str], loads: IntArray, ratio: NDArray[np.float64]) -> Callable[[int, int], str]:
    def tip(i: int, j: int) -> str:
        return f"layer {layers[i]}, rank {j}\n{loads[i, j]:,} token-slots, {ratio[i, j]:.3f} of the mean"

    return tip


def cells(instance: Instance, sides: list[Side]) -> list[Figure]:
    """Attention of each cell over what its row-shard waits for, or tokens over the cap where no slot waits for another."""
    tokens = [_tokens(instance, side) for side in sides]
    busy = [_busy(side) for side in sides]
    wait = any(bool((side < 1).any()) for side in busy)
    ratios = busy if wait else [side / instance.token_cap for side in tokens]
    domain = (min(float(r.min()) for r in ratios), max(1.0, *(float(r.max()) for r in ratios)))
    figures = []
    for side, filled, ratio in zip(sides, tokens, ratios, strict=True):
        names = ([str(r) for r in range(filled.shape[0])], [str(d) for d in range(filled.shape[1])])
        unit = "of its row-shard's attention" if wait else "of the token cap"
        label = f"Work of each cell, {side.name}"
        tip = _cell_tip(instance, side, filled)
        chart = heat_map(ratio, tip, label=label, axes=("rows", "DP slots"), names=names, domain=domain, unit=unit)
        fill = 100 * filled.sum() / (filled.size * instance.token_cap)
        caption = f"{side.name.capitalize()}: {filled.size:,} cells, {fill:.1f} % full, {100 * ratio.mean():.1f} % {unit} on average."
        figures.append(Figure(f"cells-{side.name}", caption, chart))
    return figures


def _busy(side: Side) -> NDArray[np.float64]:
    """Attention of each cell over that of the slowest slots of its row-shard, shape (R, S); 1 where there is none."""
    own = side.work.attention.sum(axis=3)  # (row, shard, slot)
    waited = side.cost.attention[:, :, None]
    ratio: NDArray[np.float64] = np.divide(own, waited, out=np.ones(own.shape), where=waited > 0)
    return ratio.reshape(len(own), -1)


def _cell_tip(instance: Instance, side: Side, tokens: IntArray) -> Callable[[int, int], str]:
    layout, width = side.plan.layout.cells, instance.topology.slots_per_shard
    ticks = side.work.attention.sum(axis=3)

    def tip(r: int, d: int) -> str:
        g, own = divmod(d, width)
        filled = f"{len(layout[d][r])} samples, {tokens[r, d]:,} of {instance.token_cap:,} tokens"
        return f"row {r}, slot {d}, shard {g}\n{filled}\n{ticks[r, g, own]:,} of {side.cost.attention[r, g]:,} attention ticks"

    return tip


def _tokens(instance: Instance, side: Side) -> IntArray:
    aligned = instance.aligned_lengths
    return np.array([[int(aligned[list(cell)].sum()) for cell in slot] for slot in side.plan.layout.cells]).T


def lengths(instance: Instance) -> Figure:
    """How many samples have which length."""
    values = instance.window.lengths
    counts, edges = np.histogram(values, bins=min(BINS, max(1, int(np.ptp(values)))))
    chart = histogram(edges.tolist(), counts.tolist(), label="Histogram of sample lengths", unit="tokens")
    middle, high = (float(x) for x in np.percentile(values, [50, 90]))
    caption = f"{len(values):,} samples: median {middle:,.0f}, 90 % below {high:,.0f}, longest {int(values.max()):,} tokens."
    return Figure("lengths", caption, chart)
