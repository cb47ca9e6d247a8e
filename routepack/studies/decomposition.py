"""Where the distance between a score and its bound sits: steps in whole ticks that add up exactly."""

from dataclasses import dataclass

import numpy as np

from routepack.cost import Cost, attention_ticks
from routepack.instance import Instance
from routepack.plan import Plan
from routepack.verify import recompute_bound


@dataclass(frozen=True, slots=True)
class Decomposition:
    """
    Steps from a bound up to the score, in ticks; all but ``beyond_sums`` are at least 0.

    Parameters
    ----------
    score
        First component of the score.
    shard_imbalance
        The slowest shard (or, where shards meet in rows, the slowest of each row, added up) above the mean of the shards.
    attention_waste
        Slots that wait for the longest attention in their row-shard.
    expert_peaks
        Row-shards whose busiest ranks are not those of the whole window.
    placement
        The busiest ranks of the window above what any placement must have.
    beyond_sums
        What the bound proves beyond sums over the window, so no waste: never above 0 for a bound that is at least these sums.
    bound
        The bound.
    """

    score: int
    shard_imbalance: int
    attention_waste: int
    expert_peaks: int
    placement: int
    beyond_sums: int
    bound: int

    @property
    def steps(self) -> dict[str, int]:
        """The steps by name, from the bound up; they add up to ``score - bound``."""
        return {
            "beyond_sums": self.beyond_sums,
            "placement": self.placement,
            "expert_peaks": self.expert_peaks,
            "attention_waste": self.attention_waste,
            "shard_imbalance": self.shard_imbalance,
        }


def decompose(instance: Instance, plan: Plan, cost: Cost, bound: int) -> Decomposition:
    """
    Split the gap of a verified plan.

    The chain is: score, mean of the shards, the same with attention spread evenly over slots, the same with every row-shard's expert
    peaks on the window's busiest ranks, the same with the placement bound of each layer, the bound. Means over shards are rounded up.

    Parameters
    ----------
    instance, plan, cost
        What was planned, the decisions and their recomputed cost.
    bound
        Lower bound on the first score component that holds for the plan, in ticks.
    """
    shards, slots = instance.topology.num_shards, instance.topology.slots_per_shard
    even = int((-(-attention_ticks(instance).sum(axis=0) // slots)).sum())
    chain = [
        cost.score.makespan,
        -(-cost.score.total // shards),
        -(-(even + int(cost.expert.sum())) // shards),
        recompute_bound(instance, plan.placement, kind="aggregation").value,
        recompute_bound(instance, None, kind="aggregation").value,
        bound,
    ]
    imbalance, waste, peaks, placement, beyond = (-np.diff(chain)).tolist()
    return Decomposition(chain[0], imbalance, waste, peaks, placement, beyond, bound)
