"""
Search for a packing into R cells, or for a tree that proves that none exists, over the patterns that several duals allow.

References
----------
.. [1] Valerio de Carvalho, J. M. (1999). Exact solution of bin-packing problems using column generation and branch-and-bound. *Annals of
   Operations Research* 86: 629-659. https://doi.org/10.1023/A:1018952112615
.. [2] Ryan, D. M., and B. A. Foster (1981). An integer programming approach to scheduling. In: *Computer Scheduling of Public Transport*,
   North-Holland, 269-280.
"""

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routepack.bounds.column_generation import quiet_engine, solved_in_time
from routepack.budget import Budget
from routepack.errors import InvalidCertificate
from routepack.tree_certificate import Filter, Node, Nodes, TreeCertificate, allowed_patterns
from routepack.window import IntArray

LEAF_SCALE = 1 << 20
ARTIFICIAL = 64.0
RECENT = 40


@dataclass(frozen=True, slots=True, eq=False)
class Exhausted:
    """
    The outcome of a finished search: a proof, or a packing.

    Parameters
    ----------
    certificate
        Proof that one cell more is needed; ``None`` if a packing exists.
    packing
        Items of each type in every cell, shape (cells, K); ``None`` if there is none.
    """

    certificate: TreeCertificate | None
    packing: IntArray | None


def exhaust(
    lengths: IntArray, demand: IntArray, capacity: int, cells: int, filters: tuple[Filter, ...], budget: Budget, nodes: int
) -> Exhausted | None:
    """
    Decide whether the items fit into so many cells.

    Parameters
    ----------
    lengths, demand
        Types, longest first, and their items, shape (K,).
    capacity, cells
        Token cap, and cells to use.
    filters
        Weighings whose limits no pattern exceeds.
    budget
        Limit, asked at each node.
    nodes
        Nodes to visit at most.

    Returns
    -------
    Exhausted | None
        ``None`` if there are too many patterns or nodes, or the budget is used up.
    """
    try:
        patterns = allowed_patterns(lengths, demand, capacity, cells, filters)
    except InvalidCertificate:
        return None
    search = _Search(
        Nodes(patterns, (Filter(lengths, capacity), *filters)),
        budget,
        [lengths, *(f.weights for f in filters)],
        _Covering(patterns, demand),
        nodes,
    )
    try:
        tree = search.close(demand, cells, np.arange(len(patterns)))
    except _Stopped:
        return None
    except _Packed:
        return Exhausted(None, np.array(search.fixed))
    return Exhausted(TreeCertificate(cells + 1, filters, tuple(search.leaves), tree), None)


class _Stopped(Exception):
    """The budget is used up."""


class _Packed(Exception):
    """The fixed patterns are a packing."""


class _Covering:
    """Least amount of active patterns that hold exactly the items left; artificial columns keep it feasible."""

    def __init__(self, patterns: IntArray, demand: IntArray) -> None:
        highspy: Any = import_module("highspy")
        types, columns = len(demand), len(patterns)
        self._lp = quiet_engine(presolve="off", simplex_strategy=1)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = columns + 2 * types, types
        lp.col_cost_ = np.concatenate([np.ones(columns), np.full(2 * types, ARTIFICIAL)])
        lp.col_lower_ = np.zeros(lp.num_col_)
        lp.col_upper_ = np.full(lp.num_col_, highspy.kHighsInf)
        lp.row_lower_ = lp.row_upper_ = demand.astype(np.float64)
        rows, kinds = np.nonzero(patterns)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lengths = np.concatenate([np.bincount(rows, minlength=columns), np.ones(2 * types, dtype=np.int64)])
        lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum(lengths)])
        lp.a_matrix_.index_ = np.concatenate([kinds, np.arange(types), np.arange(types)])
        lp.a_matrix_.value_ = np.concatenate([patterns[rows, kinds].astype(np.float64), np.ones(types), -np.ones(types)])
        self._lp.passModel(lp)
        self._open = np.ones(columns, dtype=bool)

    def solve(self, active: IntArray, left: IntArray, budget: Budget) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Amount of each pattern and dual of each type; ``None`` if they were not found in time."""
        wanted = np.zeros(len(self._open), dtype=bool)
        wanted[active] = True
        changed = np.flatnonzero(wanted != self._open).astype(np.int32)
        upper = np.where(wanted[changed], np.inf, 0.0)
        self._lp.changeColsBounds(len(changed), changed, np.zeros(len(changed)), upper)
        self._open = wanted
        side = left.astype(np.float64)
        self._lp.changeRowsBounds(len(left), np.arange(len(left), dtype=np.int32), side, side)
        if not solved_in_time(self._lp, budget):
            return None
        solution = self._lp.getSolution()
        return np.asarray(solution.col_value)[: len(wanted)], np.asarray(solution.row_dual)


@dataclass(slots=True)
class _Search:
    """Depth-first search; ``fixed`` holds the patterns on the way from the root."""

    nodes: Nodes
    budget: Budget
    leaves: list[IntArray]
    covering: _Covering
    node_limit: int
    fixed: list[IntArray] = field(default_factory=list)
    count: int = 0

    def close(self, left: IntArray, cells: int, among: IntArray) -> Node:
        """Return the proof that no packing of the items left exists."""
        self.count += 1
        if self.count > self.node_limit or self.budget.used(0) >= 1:
            raise _Stopped
        if not left.any():
            raise _Packed
        active = self.nodes.active(among, left, cells)
        leaf = self._known_leaf(active, left, cells)
        if leaf is not None:
            return leaf
        covered = self.covering.solve(active, left, self.budget)
        if covered is None:
            raise _Stopped
        amounts, duals = covered
        weights = np.rint(LEAF_SCALE * duals).astype(np.int64)
        if self.nodes.closed_by(weights, active, left, cells):
            self.leaves.append(weights)
            return len(self.leaves) - 1
        return self._branch(left, cells, active, amounts)

    def _known_leaf(self, active: IntArray, left: IntArray, cells: int) -> int | None:
        """Weights that already closed another node, latest first."""
        for n in range(len(self.leaves) - 1, max(-1, len(self.leaves) - 1 - RECENT), -1):
            if self.nodes.closed_by(self.leaves[n], active, left, cells):
                return n
        return 0 if self.nodes.closed_by(self.leaves[0], active, left, cells) else None

    def _branch(self, left: IntArray, cells: int, active: IntArray, amounts: NDArray[np.float64]) -> Node:
        """Branch over the item that fewest patterns hold, the relaxation's favourites first."""
        patterns = self.nodes.patterns
        holders = np.where(left > 0, (patterns[active] > 0).sum(axis=0), len(active) + 1)
        kind = int(holders.argmin())
        holding = active[patterns[active, kind] > 0]
        children: list[Any] = []
        for p in holding[np.argsort(-amounts[holding], kind="stable")].tolist():
            pattern = patterns[p]
            self.fixed.append(pattern)
            child = self.close(left - pattern, cells - 1, active)
            self.fixed.pop()
            children.append([[[int(k), int(pattern[k])] for k in np.flatnonzero(pattern)], child])
            active = active[active != p]
        return [kind, children]
