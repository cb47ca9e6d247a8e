"""Dantzig-Wolfe bound over row-shards, recomputed by listing every set of units: for windows of at most 20 units."""

from dataclasses import dataclass

import numpy as np

from routepack.errors import InvalidCertificate
from routepack.layout_problem import LayoutProblem
from routepack.window import IntArray

MAX_UNITS = 20
IMPOSSIBLE = 1 << 50
PRICE_SCALE = 1 << 10


def subset_sums(values: IntArray) -> IntArray:
    """Sum of the values of every subset, shape (2**units,); bit i of the index says whether unit i is in."""
    sums = np.zeros(1, dtype=np.int64)
    for value in values.tolist():
        sums = np.concatenate([sums, sums + value])
    return sums


def subset_maxima(values: IntArray) -> IntArray:
    """Largest value of every subset, at least 0, shape (2**units,)."""
    largest = np.zeros(1, dtype=np.int64)
    for value in values.tolist():
        largest = np.concatenate([largest, np.maximum(largest, value)])
    return largest


def subset_costs(problem: LayoutProblem, experts_on_ranks: int | None = None) -> IntArray:
    """
    Lower bound on the cost J of a row-shard for every set of units, shape (2**units,); ``IMPOSSIBLE`` where no plan has such a row-shard.

    Attention is at least its mean over slots and at least that of one unit alone. Expert cost is exact, or a bound over all placements.

    Parameters
    ----------
    problem
        At most 20 units.
    experts_on_ranks
        Where given, the last axis of ``problem.loads`` is logical experts, to be placed on so many ranks in any way.

    Raises
    ------
    InvalidCertificate
        There are more than 20 units, or costs of 2**50 ticks.
    """
    count = problem.num_units
    if count > MAX_UNITS:
        raise InvalidCertificate(f"row-shard certificate lists all sets of {count} units; it can be checked for at most {MAX_UNITS}.")
    if int(problem.attention.sum()) + int(problem.loads.sum()) >= IMPOSSIBLE:
        raise InvalidCertificate("row-shard certificate: the window costs 2**50 ticks or more, which the check cannot hold.")
    ones = np.ones(count, dtype=np.int64)
    attention = sum(-(-subset_sums(problem.attention[:, s]) // problem.slots) for s in range(problem.attention.shape[1]))
    attention = np.maximum(attention, subset_maxima(problem.attention.sum(axis=1)))
    expert = np.zeros(1 << count, dtype=np.int64)
    for layer in range(problem.loads.shape[1]):
        peak = np.zeros(1 << count, dtype=np.int64)
        for p in range(problem.loads.shape[2]):
            np.maximum(peak, subset_sums(problem.loads[:, layer, p]), out=peak)
        if experts_on_ranks is not None:
            np.maximum(peak, -(-subset_sums(problem.loads[:, layer].sum(axis=1)) // experts_on_ranks), out=peak)
        expert += peak
    cost: IntArray = attention - (-expert // problem.parts)
    tokens, units = subset_sums(problem.lengths), subset_sums(ones)
    others = problem.num_row_shards - 1
    room = problem.slots * problem.token_cap
    fits = (tokens <= room) & (units >= problem.slots)
    fits &= (count - units >= others * problem.slots) & (int(problem.lengths.sum()) - tokens <= others * room)
    if not others:
        fits &= units == count
    cost[~fits] = IMPOSSIBLE
    return cost


def reduced_costs(costs: IntArray, prices: IntArray) -> IntArray:
    """Cost less the prices of its units for every set, in 1/1024 tick."""
    return costs * PRICE_SCALE - subset_sums(prices)


@dataclass(frozen=True, slots=True, eq=False)
class RowShardCertificate:
    r"""
    Lagrangian bound at integer prices of the units.

    The row-shards of a plan share the units among them, so their costs sum to at least the prices plus H times the least reduced cost:
    ``G * makespan >= sum_i price_i + H min_S (J(S) - price(S))`` over the sets S that a row-shard can hold, at any prices.

    Parameters
    ----------
    prices
        In 1/1024 tick, shape (units,), their magnitudes below 2**60 together.
    """

    prices: IntArray

    def value(self, problem: LayoutProblem, experts_on_ranks: int | None = None) -> int:
        """
        Recompute the bound on the slowest shard.

        Raises
        ------
        InvalidCertificate
            There are more than 20 units, not one price for each, or numbers that 64 bits do not hold.
        """
        if self.prices.shape != problem.lengths.shape:
            raise InvalidCertificate(
                f"row-shard certificate has {self.prices.size} prices for {problem.num_units} units; one for each needed."
            )
        if sum(abs(p) for p in self.prices.tolist()) >= PRICE_SCALE * IMPOSSIBLE:
            raise InvalidCertificate("row-shard certificate: prices sum to 2**50 ticks or more, which the check cannot hold.")
        least = int(reduced_costs(subset_costs(problem, experts_on_ranks), self.prices).min())
        total: int = sum(self.prices.tolist()) + problem.num_row_shards * least
        return max(0, -(-total // (problem.shards * PRICE_SCALE)))
