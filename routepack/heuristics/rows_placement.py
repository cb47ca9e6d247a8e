"""Re-placement of experts for the rows of a layout, with the loads that follow."""

from dataclasses import dataclass

import numpy as np

from routepack.heuristics.problem import Problem, nanoseconds, with_placement
from routepack.heuristics.replacement import replace_for_rows
from routepack.heuristics.row_demand import row_shard_demand
from routepack.instance import Instance
from routepack.window import IntArray

SMALL_WORK = 1 << 21
KICKS = 2
SHAKES = 2


@dataclass(frozen=True, slots=True)
class Replacer:
    """
    Re-places the experts of an instance for given rows.

    Parameters
    ----------
    instance
        The window and its topology.
    row_shards
        Row-shards R * G of a layout.
    """

    instance: Instance
    row_shards: int

    @property
    def work(self) -> int:
        """Swaps of two experts that a pass looks at, times row-shards."""
        window = self.instance.window
        return window.num_layers * window.num_experts**2 // 2 * self.row_shards

    def rounds(self, attempts: float, chains: int, problem: Problem) -> int:
        """Times that experts may be re-placed within a quarter of so many proposals, by counting operations; from 1 to 60."""
        once = 3 * self.work * (1 + self.kicks) + 4 * self.instance.window.demand.size + 20 * problem.load.size + 1_000_000
        return int(max(1.0, min(60.0, 0.25 * attempts * nanoseconds(problem) / (chains * once))))

    @property
    def kicks(self) -> int:
        """Perturbations of each layer after its descent."""
        return KICKS if self.work < SMALL_WORK else 0

    def shake(self, problem: Problem, rank_of_expert: IntArray, rng: np.random.Generator) -> tuple[Problem, IntArray]:
        """Exchange the ranks of a few random experts in each layer of a placement, shape (L, E); return what follows."""
        ranks = rank_of_expert.copy()
        layers = np.arange(len(ranks))
        for _ in range(SHAKES):
            a, b = rng.integers(0, ranks.shape[1], (2, len(ranks)))
            ranks[layers, a], ranks[layers, b] = ranks[layers, b], ranks[layers, a]
        return with_placement(problem, self.instance, ranks, rank_of_expert), ranks

    def replace(self, problem: Problem, rank_of_expert: IntArray, cells: IntArray) -> tuple[Problem, IntArray]:
        """Re-place from a placement, shape (L, E), for a layout by place, shape (units,); return the problem and placement that follow."""
        row_shard = cells[self.instance.unit_of_sample] // problem.slots
        demand = row_shard_demand(self.instance.window.demand, row_shard, self.row_shards)
        ranks: IntArray = replace_for_rows(demand, np.ones(len(demand)), rank_of_expert, self.instance.topology.ep, kicks=self.kicks)
        return with_placement(problem, self.instance, ranks, rank_of_expert), ranks
