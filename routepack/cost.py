"""What a plan costs: ticks, row-shard costs and the lexicographic score, defined once."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from routepack.errors import InvalidInstance
from routepack.instance import Instance, Sync
from routepack.plan import Plan
from routepack.window import IntArray

MAX_TICKS = 1 << 53


class Score(NamedTuple):
    """The objective, compared lexicographically, all in ticks: slowest shard, sum over shards, costliest row-shard."""

    makespan: int
    total: int
    peak: int


def attention_ticks(instance: Instance) -> IntArray:
    """
    Attention cost b of each sample in each stage, in ticks, shape (N, stages).

    Sums are exactly rounded, so the ticks are the same on every machine.

    Raises
    ------
    InvalidInstance
        Absolute costs are so large that ticks would not be exact in 64 bits.
    """
    model, topology = instance.cost, instance.topology
    t = instance.window.lengths.astype(np.float64)
    raw = np.stack([stage.linear * t + stage.quadratic * (t * t) for stage in model.stages], axis=1)
    if model.expert_cost is not None:
        kappa = 1.0 / model.expert_cost
    else:
        total = int(instance.window.demand.sum(dtype=np.int64))
        ideal = math.fsum(raw.ravel().tolist()) / topology.slots_per_shard
        kappa = model.share / (1 - model.share) * (total / topology.ep) / ideal if ideal else 0.0
    ticks = np.rint(kappa * raw)
    if not math.fsum(ticks.ravel().tolist()) < MAX_TICKS:
        raise InvalidInstance("cost: attention exceeds 2**53 ticks in this window; raise cost.expert_cost or lower the stages' costs.")
    return ticks.astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Cost:
    """
    What each row-shard of a plan costs, in ticks.

    Parameters
    ----------
    attention
        A[r, g]: per stage the largest slot, then added; shape (R, G).
    expert
        X[r, g]: per layer the largest rank, then added; shape (R, G).
    largest_peak
        Largest load of one rank in one layer of one row-shard.
    sync
        When shards meet.
    """

    attention: IntArray
    expert: IntArray
    largest_peak: int
    sync: Sync

    @property
    def row_shards(self) -> IntArray:
        """J[r, g], shape (R, G)."""
        return self.attention + self.expert

    @property
    def shards(self) -> IntArray:
        """U[g], shape (G,)."""
        return self.row_shards.sum(axis=0)  # type: ignore[no-any-return]

    @property
    def score(self) -> Score:
        """The objective."""
        return objective(self.row_shards, self.sync)


def objective(row_shards: IntArray, sync: Sync) -> Score:
    """Score of row-shard costs J, shape (R, G)."""
    makespan = row_shards.max(axis=1).sum() if sync == "row" else row_shards.sum(axis=0).max()
    return Score(int(makespan), int(row_shards.sum()), int(row_shards.max()))


def cost(instance: Instance, plan: Plan) -> Cost:
    """
    Cost of a plan, from the data alone.

    The plan must have the shape of the instance's topology; `routepack.verify.verify` checks that and everything else.
    """
    topology = instance.topology
    ticks = attention_ticks(instance)
    shape = (plan.layout.num_rows, topology.num_shards)
    attention, expert = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    largest = 0
    for r, g, cells in plan.layout.row_shards(topology):
        slots = np.stack([ticks[list(cell)].sum(axis=0) for cell in cells])  # (slot, stage)
        attention[r, g] = slots.max(axis=0).sum()
        members = [i for cell in cells for i in cell]
        demand = instance.window.demand[members].sum(axis=0, dtype=np.int64)  # (layer, expert)
        peaks = plan.placement.project(demand, topology.ep).max(axis=1)
        expert[r, g] = -(-int(peaks.sum()) // topology.parts_per_slot)
        largest = max(largest, int(peaks.max()))
    return Cost(attention, expert, largest, instance.options.sync)
