"""
Gilmore and Gomory's relaxation [1]_: cells as patterns, taken in fractions, priced by an integer knapsack.

The duals are rounded to integer weights before they are priced, so that each iteration gives a bound that needs no trust in the solver.
Exchange columns, which use an item's place for the next shorter one, keep duals monotone [2]_; smoothing keeps them from jumping [3]_.

References
----------
.. [1] Gilmore, P. C., and R. E. Gomory (1961). A linear programming approach to the cutting-stock problem. *Operations Research* 9(6):
   849-859. https://doi.org/10.1287/opre.9.6.849
.. [2] Valerio de Carvalho, J. M. (2005). Using extra dual cuts to accelerate column generation. *INFORMS Journal on Computing* 17(2):
   175-182. https://doi.org/10.1287/ijoc.1030.0060
.. [3] Wentges, P. (1997). Weighted Dantzig-Wolfe decomposition for linear mixed-integer programming. *International Transactions in
   Operational Research* 4(2): 151-162. https://doi.org/10.1016/S0969-6016(97)00001-4
"""

import math
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routepack.bounds.knapsack import heaviest_patterns
from routepack.budget import Budget
from routepack.certificate import MAX_WEIGHT
from routepack.window import IntArray

FloatArray = NDArray[np.float64]

SCALE = 1 << 30
COLUMNS_A_ROUND = 30
SMOOTHING = 0.5
TOLERANCE = 1e-6
INTERIOR_ROUNDS = 40
INTERIOR_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """
    Weight of an item of each type, shape (K,), and the weight that no pattern of the demanded items exceeds.

    Parameters
    ----------
    weights, limit
        Integers.
    """

    weights: IntArray
    limit: int

    def cells(self, demand: IntArray) -> int:
        """Cells that so many items of each type need."""
        return -(-int(self.weights @ demand) // self.limit)

    def ratio(self, demand: IntArray) -> float:
        """The same before rounding up."""
        return int(self.weights @ demand) / self.limit


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """
    Where column generation stopped.

    Parameters
    ----------
    bound
        The best of all rounds.
    value
        Objective of the last master problem.
    patterns, amounts
        Items of each type in every pattern, shape (patterns, K), and how often the master uses each.
    """

    bound: Bound
    value: float
    patterns: IntArray
    amounts: FloatArray


def solved_in_time(engine: Any, budget: Budget) -> bool:
    """Run an engine, whose clock goes on from run to run, for what is left of a budget, and tell whether it found an optimum."""
    if budget.seconds is not None:
        engine.setOptionValue("time_limit", engine.getRunTime() + max(0.0, budget.seconds - budget.elapsed()))
    engine.run()
    return bool(engine.getModelStatus() == import_module("highspy").HighsModelStatus.kOptimal)


def quiet_engine(**options: str | float) -> Any:
    """Return a single-threaded HiGHS, imported where it is wanted; its base class does not print a banner on construction."""
    highspy: Any = import_module("highspy")
    engine = highspy._Highs()
    for name, value in ({"output_flag": False, "threads": 1} | options).items():
        engine.setOptionValue(name, value)
    return engine


class ColumnGeneration:
    """
    The master problem of one instance, which grows with every call of `solve`.

    Parameters
    ----------
    lengths
        Length of each type, falling, shape (K,), in [1, capacity].
    demand
        Items of each type, shape (K,).
    capacity
        Room of a cell.
    """

    def __init__(self, lengths: IntArray, demand: IntArray, capacity: int) -> None:
        self.lengths, self.demand, self.capacity = lengths, demand, capacity
        self.patterns = np.zeros((0, len(lengths)), dtype=np.int64)
        self._column_of_pattern: list[int] = []
        self._asked = demand
        self.rounds = 0
        self._lp = quiet_engine(presolve="off", simplex_strategy=1)
        for k in range(len(lengths)):
            self._lp.addRow(float(demand[k]), math.inf, 0, [], [])
        for k in range(len(lengths) - 1):
            self._lp.addCol(0.0, 0.0, math.inf, 2, [k, k + 1], [-1.0, 1.0])
        self._columns = len(lengths) - 1
        self.add(np.diag(np.minimum(capacity // lengths, demand)))

    def add(self, patterns: IntArray) -> None:
        """Add patterns, shape (patterns, K), that the master may use."""
        for pattern in patterns:
            rows = np.flatnonzero(pattern)
            self._lp.addCol(1.0, 0.0, float("inf"), len(rows), rows, pattern[rows].astype(np.float64))
            self._column_of_pattern.append(self._columns)
            self._columns += 1
        self.patterns = np.concatenate([self.patterns, patterns])

    def _master(self, budget: Budget) -> tuple[float, FloatArray, FloatArray] | None:
        """Objective, amounts and duals of the master problem; ``None`` if it was not solved in time."""
        if not solved_in_time(self._lp, budget):
            return None
        solution = self._lp.getSolution()
        value = self._lp.getInfo().objective_function_value
        return value, np.asarray(solution.col_value)[self._column_of_pattern], np.maximum(0.0, np.asarray(solution.row_dual))

    def solve(self, demand: IntArray, budget: Budget, target: int | None = None) -> Relaxed:
        """
        Generate columns for a demand of at most the instance's until the bound is as good as it gets.

        Parameters
        ----------
        demand
            Items of each type that are left to pack, shape (K,), not all 0.
        budget
            Time limit and interruption, asked in every round.
        target
            Stop as soon as so many cells are proved.
        """
        for k in np.flatnonzero(demand != self._asked).tolist():
            self._lp.changeRowBounds(k, float(demand[k]), float("inf"))
        self._asked = demand.copy()
        best = Bound(np.zeros_like(demand), 1)
        centre: FloatArray | None = None  # duals of the best bound so far
        share, value, amounts, duals = SMOOTHING, math.inf, np.zeros(len(self.patterns)), np.zeros(len(demand))
        master = self._master(budget)
        while master is not None:
            value, amounts, duals = master
            tried = duals if centre is None else share * centre + (1 - share) * duals
            bound, found = self._priced(tried, demand)
            if centre is None or bound.ratio(demand) > best.ratio(demand):
                best, centre = bound, tried * (SCALE / bound.limit)
            cells = best.cells(demand)
            if cells >= math.ceil(value - TOLERANCE) or (target is not None and cells >= target) or budget.used(self.rounds) >= 1:
                break
            improving = found[found @ duals > 1 + TOLERANCE]
            if len(improving):
                share = SMOOTHING
                self.add(improving)
                master = self._master(budget)
            elif share:
                share = 0.0  # the smoothed duals found nothing: price the master's own
            else:
                break
        return Relaxed(best, value, self.patterns[: len(amounts)], amounts)

    def _priced(self, duals: FloatArray, demand: IntArray) -> tuple["Bound", IntArray]:
        """Bound by duals rounded to integer weights, and the patterns that they favour."""
        self.rounds += 1
        weights = np.minimum(np.floor(SCALE * duals), MAX_WEIGHT - 1).astype(np.int64)
        limit, found = heaviest_patterns(self.lengths, weights, demand, self.capacity, COLUMNS_A_ROUND)
        return Bound(weights, max(1, limit)), found

    def interior_bound(self, demand: IntArray, budget: Budget) -> Bound:
        """
        Bound by duals from the middle of the optimal face, which name the patterns that no optimum of the master uses.

        The interior-point method, stopped before it crosses over to a vertex, gives them once no column is missing.
        """
        bound = Bound(np.zeros_like(demand), 1)
        tolerances = ("primal_feasibility_tolerance", "dual_feasibility_tolerance", "ipm_optimality_tolerance")
        for _ in range(INTERIOR_ROUNDS):
            if budget.used(self.rounds) >= 1:
                break
            interior = quiet_engine(solver="ipm", run_crossover="off", **dict.fromkeys(tolerances, INTERIOR_TOLERANCE))
            interior.passModel(self._lp.getLp())
            if not solved_in_time(interior, budget):
                break
            duals = np.maximum(0.0, np.asarray(interior.getSolution().row_dual))
            bound, found = self._priced(duals, demand)
            improving = found[found @ duals > 1 + INTERIOR_TOLERANCE]
            if not len(improving):
                break
            self.add(improving)
        return bound
