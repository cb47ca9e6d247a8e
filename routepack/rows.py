"""The smallest number of rows: packing and proof, cheapest methods first, until they meet."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from routepack.bounds.column_generation import ColumnGeneration
from routepack.bounds.knapsack import table_bytes
from routepack.bounds.proof_tree import exhaust
from routepack.bounds.rows import prove_cells
from routepack.budget import Budget
from routepack.certificate import WeightCertificate, check_weights
from routepack.heuristics.packing import pack
from routepack.heuristics.packing_dive import dive
from routepack.heuristics.packing_reduction import forced_cells
from routepack.tree_certificate import Filter, TreeCertificate, check_tree
from routepack.window import IntArray

QUICK_TRIALS = 2_000_000
MAX_TABLE = 1 << 26
SEED = 0
DIVES = 40
EFFORTS = ((4, 300), (36, 20_000))  # dives, then nodes of a tree


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """
    A packing, and what is proved about smaller ones.

    Parameters
    ----------
    cell_of_unit
        Cell of each unit, shape (N,), numbered from 0 without holes.
    certificate
        Checked weights.
    method
        What proved the bound: ``volume``, ``dual feasible function``, ``column generation`` or ``proof tree``.
    tree
        Checked proof of one cell more than the weights prove, where it was needed.
    """

    cell_of_unit: IntArray
    certificate: WeightCertificate
    method: str
    tree: TreeCertificate | None = None

    @property
    def cells(self) -> int:
        """Cells of the packing."""
        return int(self.cell_of_unit.max()) + 1

    @property
    def needed(self) -> int:
        """Cells that are proved to be needed."""
        return self.tree.cells if self.tree else self.certificate.cells


@dataclass(frozen=True, slots=True)
class Question:
    """Cells come in steps of so many: slots times the multiple of rows; only the step matters."""

    step: int

    def goal(self, bound: int) -> int:
        """Cells that a packing may use if so many are needed."""
        return -(-bound // self.step) * self.step

    def target(self, cells: int) -> int:
        """Cells that must be proved so that a packing with so many has the fewest rows."""
        return self.goal(cells) - self.step + 1


@dataclass(frozen=True, slots=True, eq=False)
class Types:
    """
    Units of one length as a type, longest first.

    Parameters
    ----------
    lengths, demand
        Length of each type and how many units have it, shape (K,).
    capacity
        Token cap of a cell.
    type_of_unit
        Shape (N,).
    """

    lengths: IntArray
    demand: IntArray
    capacity: int
    type_of_unit: IntArray

    @classmethod
    def of(cls, lengths: IntArray, capacity: int) -> Self:
        """Group units by length."""
        distinct, place, counts = np.unique(-lengths, return_inverse=True, return_counts=True)
        return cls(-distinct, counts, capacity, place)

    def patterns(self, cell_of_unit: IntArray) -> IntArray:
        """Units of each type in every cell of a packing, shape (cells, K)."""
        held = np.zeros((int(cell_of_unit.max()) + 1, len(self.lengths)), dtype=np.int64)
        np.add.at(held, (cell_of_unit, self.type_of_unit), 1)
        return np.unique(held[held.any(axis=1)], axis=0)

    def cell_of_unit(self, held: IntArray) -> IntArray:
        """Cell of each unit, shape (N,), from the units of each type in every cell, shape (cells, K)."""
        cells = np.empty(len(self.type_of_unit), dtype=np.int64)
        numbers = np.arange(len(held))
        cells[np.argsort(self.type_of_unit, kind="stable")] = np.concatenate([np.repeat(numbers, amounts) for amounts in held.T])
        return cells


def settle(lengths: IntArray, capacity: int, slots: int = 1, row_multiple: int = 1, budget: Budget | None = None) -> Settled:
    """
    Pack units into the fewest rows, and prove that fewer are impossible.

    Rows of ``slots`` cells are asked for, not cells: a packing is good enough when its cells, rounded up to rows, meet the bound,
    rounded up. Greedy packings and volume come first, then dual feasible functions, tabu search, and column generation with dives into
    packings.

    Parameters
    ----------
    lengths
        Tokens of each unit, shape (N,), in [1, capacity].
    capacity
        Token cap of a cell.
    slots, row_multiple
        DP slots, and what the number of rows is a multiple of; 1 and 1 ask for cells.
    budget
        Limit on column generation, which counts its rounds as attempts; none if not given.

    Returns
    -------
    Settled
        The best packing and the best proof when they met, or the budget was used up.
    """
    question, budget = Question(slots * row_multiple), budget or Budget()
    cells = pack(lengths, capacity, question.goal(-(-int(lengths.sum()) // capacity)), 0)
    certificate = prove_cells(lengths, capacity, question.target(int(cells.max()) + 1))
    volume = certificate.limit == capacity and bool((certificate.weights == lengths).all())
    found = Settled(cells, certificate, "volume" if volume else "dual feasible function")
    if _open(found, question):
        found = _searched(found, lengths, capacity, question)
    if _open(found, question):
        found = _relaxed(found, lengths, capacity, question, budget)
    return found


def _open(found: Settled, question: Question) -> bool:
    return found.needed < question.target(found.cells)


def _searched(found: Settled, lengths: IntArray, capacity: int, question: Question) -> Settled:
    """Search for a packing of what exchange arguments leave open."""
    forced, rest = forced_cells(lengths, capacity)
    cells = np.empty(len(lengths), dtype=np.int64)
    for c, units in enumerate(forced):
        cells[units] = c
    if len(rest):
        cells[rest] = len(forced) + pack(lengths[rest], capacity, question.goal(found.certificate.cells) - len(forced))
    return Settled(cells, found.certificate, found.method) if int(cells.max()) + 1 < found.cells else found


def _relaxed(found: Settled, lengths: IntArray, capacity: int, question: Question, budget: Budget) -> Settled:
    """Prove by column generation, and dive for a packing; on a coarse grid, rounded down or up, where the cap is large."""
    grid = _grid(lengths, capacity)
    seen = lengths >= grid  # what rounds down to nothing weighs nothing
    types = Types.of(lengths[seen] // grid, capacity // grid)
    relaxation = ColumnGeneration(types.lengths, types.demand, types.capacity)
    relaxation.add(types.patterns(found.cell_of_unit[seen]))
    bound = relaxation.solve(types.demand, budget, question.target(found.cells)).bound
    if bound.cells(types.demand) > found.certificate.cells:
        weights = np.zeros_like(lengths)
        weights[seen] = bound.weights[types.type_of_unit]
        certificate = WeightCertificate(weights, bound.limit)
        check_weights(certificate, lengths, capacity)
        found = replace(found, certificate=certificate, method="column generation")
    if grid > 1:
        types = Types.of(-(-lengths // grid), capacity // grid)
        return _dived(found, types, ColumnGeneration(types.lengths, types.demand, types.capacity), question, budget, DIVES)
    for dives, nodes in EFFORTS:
        found = _dived(found, types, relaxation, question, budget, dives)
        if _open(found, question):
            found = _exhausted(found, types, relaxation, question, budget, nodes)
    return found


def _exhausted(found: Settled, types: Types, relaxation: ColumnGeneration, question: Question, budget: Budget, nodes: int) -> Settled:
    """Search all packings into the cells of the bound, over the patterns that the relaxation's duals allow."""
    bounds = (relaxation.solve(types.demand, budget).bound, relaxation.interior_bound(types.demand, budget))
    filters = tuple(Filter(bound.weights, bound.limit) for bound in bounds)
    cells = question.goal(found.needed)
    outcome = exhaust(types.lengths, types.demand, types.capacity, cells, filters, budget, nodes)
    if outcome is None:
        return found
    if outcome.packing is not None:
        return replace(found, cell_of_unit=types.cell_of_unit(outcome.packing))
    assert outcome.certificate is not None
    check_tree(outcome.certificate, np.repeat(types.lengths, types.demand), types.capacity)
    return replace(found, tree=outcome.certificate, method="proof tree")


def _dived(found: Settled, types: Types, relaxation: ColumnGeneration, question: Question, budget: Budget, dives: int) -> Settled:
    """Dive again and again from one relaxation, whose columns are kept."""

    def relax(left: IntArray, cells: int) -> tuple[int, IntArray, NDArray[np.float64]] | None:
        if budget.used(relaxation.rounds) >= 1:
            return None
        relaxed = relaxation.solve(left, budget, cells + 1)
        return relaxed.bound.cells(left), relaxed.patterns, relaxed.amounts

    rng = np.random.default_rng(SEED + dives)
    for _ in range(dives):
        if not _open(found, question) or budget.used(relaxation.rounds) >= 1:
            break
        held = dive(types.lengths, types.demand, types.capacity, question.goal(found.needed), relax, rng)
        if held is not None:
            found = replace(found, cell_of_unit=types.cell_of_unit(held))
    return found


def _grid(lengths: IntArray, capacity: int) -> int:
    """Least power of two to divide lengths by so that the knapsack's table stays small."""
    grid = 1
    while True:
        types = Types.of(-(-lengths // grid), capacity // grid)
        if table_bytes(types.lengths, types.demand, types.capacity) <= MAX_TABLE:
            return grid
        grid *= 2
