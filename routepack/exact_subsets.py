"""Layout by dynamic programming over subsets of units: optimal for a placement and a number of rows, for at most 20 units."""

from dataclasses import dataclass

import numpy as np

from routepack import __version__
from routepack.bounds.dantzig_wolfe import dantzig_wolfe_bound
from routepack.budget import Budget, Progress
from routepack.cost import Score
from routepack.errors import InvalidInstance
from routepack.exact import ExactOutcome
from routepack.layout_problem import LayoutProblem
from routepack.row_patterns import Flag, PatternSource, RowPatterns, slots_of_set
from routepack.row_shard_certificate import IMPOSSIBLE, MAX_UNITS
from routepack.solvers.outcome import Outcome, Status
from routepack.solvers.subset_dp import Stopped, chain, pieces_of, table, watched
from routepack.window import IntArray

FIRST_GAP = 0.005  # above the root bound: plans within it are looked for first, then within twice as much, and so on


def solve_by_subsets(problem: LayoutProblem, hint: IntArray | None = None, *, budget: Budget | None = None) -> ExactOutcome:
    r"""
    Minimise the score over all layouts.

    With f(A) the exact cost of a row-shard that holds the set A, the cheapest shard of r rows is
    ``F_r(B) = min f(A) + F_{r-1}(B \ A)`` over the sets A in B that hold B's lowest unit, and shards combine alike: first the least maximum
    V, then the least sum of shards with ``F <= V``, ties by the largest f. Where shards meet in every row, rows and shards change
    places, and the least sum of a row is taken under its own least maximum. Only sets that the Dantzig-Wolfe bound leaves to plans
    within a limit are priced, and the limit is raised until there is a plan: what lies within it then is all that could be better.

    Parameters
    ----------
    problem
        At most 20 units, without ``equal_samples``.
    hint
        Cell of each unit in a known layout, shape (units,).
    budget
        Time limit, interruption and progress.

    Raises
    ------
    InvalidInstance
        The hint is no layout, there are more units, or slots must hold equal numbers of samples.
    """
    refuse(problem)
    fault = None if hint is None else problem.fault(hint)
    if fault:
        raise InvalidInstance(f"hint is no layout: {fault}")
    budget, known = budget or Budget(), None if hint is None else problem.score(hint)
    certificate = dantzig_wolfe_bound(problem)
    if certificate is None:
        return _outcome(hint, known, None, Status.UNKNOWN, budget)
    source, bound = PatternSource(problem, certificate), certificate.value(problem)
    gap, most = max(1, int(FIRST_GAP * bound)), source.most if known is None else known.makespan
    try:
        while bound <= most:
            limit = min(bound + gap, most)
            budget.report(Progress("subset-dp", budget.elapsed(), score=known and known.makespan, bound=bound))
            cells = watched(budget, lambda stop, limit=limit: Search(problem, source, source.price(limit, stop), stop).best())  # type: ignore[misc]
            if cells is not None:
                return _outcome(cells, problem.score(cells), problem.score(cells).makespan, Status.OPTIMAL, budget)
            bound, gap = limit + 1, 2 * gap
    except Stopped:
        return _outcome(hint, known, bound, Status.UNKNOWN, budget)
    return _outcome(None, None, None, Status.INFEASIBLE, budget)


def refuse(problem: LayoutProblem) -> None:
    """
    Say why a window does not decompose over subsets.

    Raises
    ------
    InvalidInstance
        It does not.
    """
    if problem.num_units > MAX_UNITS:
        raise InvalidInstance(
            f"method = 'subset-dp' lists all sets of {problem.num_units} units, over {MAX_UNITS}; use anneal or anneal+lns."
        )
    if problem.equal_samples:
        raise InvalidInstance("equal_samples = True ties rows to one another, which method = 'subset-dp' cannot; use cp-sat or milp.")


def _outcome(cells: IntArray | None, score: Score | None, bound: int | None, status: Status, budget: Budget) -> ExactOutcome:
    said = Outcome(status, (), score and score.makespan, bound, budget.elapsed(), f"subset-dp {__version__}: {status.name}")
    return ExactOutcome(cells, None, score, (said,) * len(Score._fields))


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """
    Dynamic programming over the patterns of plans within a limit.

    Parameters
    ----------
    problem, source, patterns
        What is laid out, and the priced sets.
    stop
        Flag that ends the work, shape (1,).
    """

    problem: LayoutProblem
    source: PatternSource
    patterns: RowPatterns
    stop: Flag

    def best(self) -> IntArray | None:
        """Cell of each unit, shape (units,), in a layout of least score; ``None`` where none is within the limit, or the flag was set."""
        if self.stop[0]:
            return None
        groups = self._shards() if self.problem.sync == "shard" else self._rows()
        if groups is None or self.stop[0]:
            return None
        cost_of = dict(zip(self.patterns.sets.tolist(), self.patterns.costs.tolist(), strict=True))
        return cells_of_groups(self.problem, groups, cost_of)

    @property
    def _size(self) -> int:
        return 1 << self.problem.num_units

    def _inner(self, first: IntArray, pieces: int, add: bool) -> list[IntArray]:
        """Cut sets into row-shards: of one shard, or of one row."""
        everything = np.arange(self._size)

        def sets_of(k: int) -> IntArray:
            whole = k == pieces and self.problem.sync == "shard"
            return self.source.within(everything, k, int(whole), self.patterns.limit)

        return chain(first, sets_of, pieces, add, self.stop)

    def _outer(self, first: IntArray, pieces: int, add: bool) -> list[IntArray]:
        """Cut sets into shards, or into rows."""
        everything, by_shard = np.arange(self._size), self.problem.sync == "shard"
        held = self.problem.num_row_shards // pieces

        def sets_of(k: int) -> IntArray:
            if k == pieces:
                return everything[-1:]
            return self.source.within(everything, k * held, k if by_shard else 0, self.patterns.limit)

        return chain(first, sets_of, pieces, add, self.stop)

    def _shards(self) -> list[list[int]] | None:
        """Sets of the row-shards of each shard."""
        problem, sets, costs = self.problem, self.patterns.sets, self.patterns.costs
        rows = self._inner(table(self._size, sets, costs, 0 * costs, costs), problem.rows, add=True)
        shards = rows[-1]
        able = np.flatnonzero(shards[:, 0] <= self.patterns.limit)
        slowest = table(self._size, able, shards[able, 0], 0 * able, 0 * able)
        makespan = int(self._outer(slowest, problem.shards, add=False)[-1][-1, 0])
        if makespan >= IMPOSSIBLE:
            return None
        able = able[shards[able, 0] <= makespan]
        outer = self._outer(table(self._size, able, *shards[able].T), problem.shards, add=True)
        return [pieces_of(rows, shard, add=True) for shard in pieces_of(outer, self._size - 1, add=True)]

    def _rows(self) -> list[list[int]] | None:
        """Sets of the row-shards of each row."""
        problem, sets, costs = self.problem, self.patterns.sets, self.patterns.costs
        slowest = self._inner(table(self._size, sets, costs, 0 * costs, 0 * costs), problem.shards, add=False)[-1][:, 0]
        able = np.flatnonzero(slowest < IMPOSSIBLE)
        outer = self._outer(table(self._size, able, slowest[able], 0 * able, 0 * able), problem.rows, add=True)
        makespan = int(outer[-1][-1, 0])
        if makespan > self.patterns.limit:
            return None
        others = outer[-2][able ^ (self._size - 1), 0] if problem.rows > 1 else IMPOSSIBLE * (able < self._size - 1)
        able = able[slowest[able] + others == makespan]  # rows of plans of that makespan: all are as fast as their samples can be
        sums = {}
        for most in np.unique(slowest[able]).tolist():
            held = costs <= most
            inner = self._inner(table(self._size, sets[held], costs[held], 0 * sets[held], 0 * sets[held]), problem.shards, add=True)
            for row in able[slowest[able] == most].tolist():
                sums[row] = (int(inner[-1][row, 0]), pieces_of(inner, row, add=True))
        totals = np.array([sums[row][0] for row in able.tolist()], dtype=np.int64)
        outer = self._outer(table(self._size, able, slowest[able], totals, slowest[able]), problem.rows, add=True)
        return [sums[row][1] for row in pieces_of(outer, self._size - 1, add=True)]


def cells_of_groups(problem: LayoutProblem, groups: list[list[int]], cost_of: dict[int, int]) -> IntArray:
    """Cell of each unit, shape (units,), from the sets of the row-shards of each shard, or of each row where shards meet in every row."""
    cells = np.zeros(problem.num_units, dtype=np.int64)
    for outer, group in enumerate(groups):
        for inner, mask in enumerate(group):
            g, r = (outer, inner) if problem.sync == "shard" else (inner, outer)
            for i, d in slots_of_set(problem, mask, cost_of[mask]).items():
                cells[i] = (g * problem.rows + r) * problem.slots + d
    return cells
