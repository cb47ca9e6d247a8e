"""
Dantzig-Wolfe bound over row-shards, by column generation [1]_ with pricing over all sets of units.

References
----------
.. [1] Barnhart, C., E. L. Johnson, G. L. Nemhauser, M. W. P. Savelsbergh, and P. H. Vance (1998). Branch-and-price: Column generation for
   solving huge integer programs. *Operations Research* 46(3): 316-329. DOI 10.1287/opre.46.3.316.
"""

import numpy as np

from routepack.bounds.linear_program import LinearProgram
from routepack.layout_problem import LayoutProblem
from routepack.row_shard_certificate import IMPOSSIBLE, PRICE_SCALE, RowShardCertificate, reduced_costs, subset_costs
from routepack.window import IntArray

COLUMNS_A_ROUND = 200
ROUNDS = 60
LP_SECONDS = 5.0


def dantzig_wolfe_bound(problem: LayoutProblem, experts_on_ranks: int | None = None) -> RowShardCertificate | None:
    """
    Prices of the units that maximise the Lagrangian bound, rounded to 1/1024 tick.

    Parameters
    ----------
    problem
        At most 20 units.
    experts_on_ranks
        Where given, the last axis of ``problem.loads`` is logical experts, to be placed on so many ranks in any way.

    Returns
    -------
    RowShardCertificate | None
        ``None`` where no layout exists, or a linear program was not solved.

    Raises
    ------
    InvalidCertificate
        There are more than 20 units.
    """
    costs = subset_costs(problem, experts_on_ranks)
    best = _start(problem)
    reduced = reduced_costs(costs, best)
    if not (costs < IMPOSSIBLE).any():
        return None
    columns = _cheapest(problem, costs, reduced)
    best_value = int(best.sum()) + problem.num_row_shards * int(reduced.min())
    for _ in range(ROUNDS):
        prices = _prices(problem, costs, columns)
        if prices is None:
            break
        reduced = reduced_costs(costs, prices)
        value = int(prices.sum()) + problem.num_row_shards * int(reduced.min())
        if value > best_value:
            best, best_value = prices, value
        fresh = np.setdiff1d(_cheapest(problem, costs, reduced), columns)
        if not len(fresh):
            break
        columns = np.concatenate([columns, fresh])
    return RowShardCertificate(best)


def _start(problem: LayoutProblem) -> IntArray:
    """Each unit's mean cost: the prices whose bound is about the aggregation bound."""
    expert = problem.loads.sum(axis=(1, 2)) // (problem.loads.shape[2] * problem.parts)
    prices: IntArray = (problem.attention.sum(axis=1) // problem.slots + expert) * PRICE_SCALE
    return prices


def _cheapest(problem: LayoutProblem, costs: IntArray, reduced: IntArray) -> IntArray:
    """Sets of least reduced cost: some over all, and some that hold each unit."""
    possible = np.flatnonzero(costs < IMPOSSIBLE)
    each = max(1, COLUMNS_A_ROUND // problem.num_units)
    chosen = [_least(possible, reduced, COLUMNS_A_ROUND)]
    chosen += [_least(possible[(possible >> i) & 1 == 1], reduced, each) for i in range(problem.num_units)]
    return np.unique(np.concatenate(chosen))


def _least(sets: IntArray, reduced: IntArray, count: int) -> IntArray:
    if len(sets) <= count:
        return sets
    return sets[np.argpartition(reduced[sets], count)[:count]]


def _prices(problem: LayoutProblem, costs: IntArray, columns: IntArray) -> IntArray | None:
    """Duals of the cover rows of the set-partitioning relaxation over some columns, rounded."""
    program = LinearProgram()
    unit = float(max(1, int(costs[columns].max())))
    variables = [program.column(c / unit) for c in costs[columns].tolist()]
    artificial = [program.column(10.0) for _ in range(problem.num_units)]
    for i in range(problem.num_units):
        held = np.flatnonzero((columns >> i) & 1).tolist()
        program.row([(variables[k], 1.0) for k in held] + [(artificial[i], 1.0)], 1.0, equal=True)
    missing = program.column(10.0)
    program.row([*((x, 1.0) for x in variables), (missing, 1.0)], float(problem.num_row_shards), equal=True)
    solved = program.duals(LP_SECONDS)
    return None if solved is None else np.rint(solved[1][: problem.num_units] * unit * PRICE_SCALE).astype(np.int64)
