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
from routepack.heuristics.packing_exchange import exchange
from routepack.heuristics.packing_reduction import forced_cells
from routepack.tree_certificate import Filter, TreeCertificate, check_tree
from routepack.window import IntArray

MAX_TABLE = 1 << 26
MAX_TYPES = 1500
QUICK_TYPES = 600
MAX_SEARCHED = 3000
MANY_UNITS = 1000  # too many for dives to be quick
EXCHANGES = (10_000_000, 100_000_000, 300_000_000)  # trials
SEED = 0
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


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """
    What is asked, with what exchange arguments leave open of it.

    Parameters
    ----------
    lengths, capacity
        Tokens of each unit, shape (N,), and of a cell.
    step
        Cells come in steps of so many: slots times the multiple of rows.
    budget
        Limit on column generation.
    forced, rest
        Units of the cells that some best packing has, and the other units.
    """

    lengths: IntArray
    capacity: int
    step: int
    budget: Budget
    forced: list[list[int]]
    rest: IntArray

    def goal(self, bound: int) -> int:
        """Cells that a packing may use if so many are needed."""
        return -(-bound // self.step) * self.step

    def target(self, cells: int) -> int:
        """Cells that must be proved so that a packing with so many has the fewest rows."""
        return self.goal(cells) - self.step + 1

    def open(self, found: Settled) -> bool:
        """Whether fewer rows are neither found nor proved to be impossible."""
        return found.needed < self.target(found.cells)

    def over(self) -> bool:
        """Whether the time is used up."""
        return self.budget.used(0) >= 1

    def better(self, found: Settled, cells_of_rest: IntArray) -> Settled:
        """Take the forced cells and a packing of the rest if they are fewer cells than before."""
        cells = np.empty(len(self.lengths), dtype=np.int64)
        for c, units in enumerate(self.forced):
            cells[units] = c
        cells[self.rest] = len(self.forced) + cells_of_rest
        return replace(found, cell_of_unit=cells) if int(cells.max()) + 1 < found.cells else found


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
    step = slots * row_multiple
    task = Task(lengths, capacity, step, budget or Budget(), [], np.arange(len(lengths)))
    cells = pack(lengths, capacity, task.goal(-(-int(lengths.sum()) // capacity)), 0)
    certificate = prove_cells(lengths, capacity, task.target(int(cells.max()) + 1))
    volume = certificate.limit == capacity and bool((certificate.weights == lengths).all())
    found = Settled(cells, certificate, "volume" if volume else "dual feasible function")
    if task.open(found):
        forced, rest = forced_cells(lengths, capacity)
        task = replace(task, forced=forced, rest=rest)
        goal = task.goal(found.needed) - len(forced)
        if len(rest):
            found = _searched(found, task, goal)
    if task.open(found) and not task.over():
        found = _relaxed(found, task)
    return found


def _searched(found: Settled, task: Task, goal: int) -> Settled:
    """Search for so many cells for the rest: by exchange, longer where units are many, and by fills and tabu search."""
    lengths = task.lengths[task.rest]

    cells = pack(lengths, task.capacity, goal, 0)
    for trials in EXCHANGES:
        cells = exchange(lengths, task.capacity, cells, max(1, goal), trials, task.over)
        found = task.better(found, cells)
        if trials == EXCHANGES[0] and task.open(found) and not task.over() and len(lengths) <= MAX_SEARCHED:
            found = task.better(found, pack(lengths, task.capacity, goal))
        if not task.open(found) or task.over() or len(lengths) < MANY_UNITS:
            break
    return found


def _relaxed(found: Settled, task: Task) -> Settled:
    """Dive for a packing of the rest, on a grid rounded up where there are many lengths; prove by column generation over all units."""
    if len(task.rest):
        grid = _grid(task.lengths[task.rest], task.capacity)
        types = Types.of(-(-task.lengths[task.rest] // grid), task.capacity // grid)
        dives = ColumnGeneration(types.lengths, types.demand, types.capacity)
        found = _dived(found, task, types, dives, EFFORTS[0][0])
    if not task.open(found) or task.over():
        return found
    grid = _grid(task.lengths, task.capacity)
    seen = task.lengths >= grid  # what rounds down to nothing weighs nothing
    all_types = Types.of(task.lengths[seen] // grid, task.capacity // grid)
    proofs = ColumnGeneration(all_types.lengths, all_types.demand, all_types.capacity)
    if len(task.rest) and not task.forced and grid == 1:
        proofs = dives
    proofs.add(all_types.patterns(found.cell_of_unit[seen]))
    found = _bounded(found, task, seen, all_types, proofs)
    for number, nodes in EFFORTS:
        if len(task.rest):
            found = _dived(found, task, types, dives, number)
        if task.open(found) and grid == 1:
            found = _exhausted(found, task, all_types, proofs, nodes)
    return found


def _bounded(found: Settled, task: Task, seen: NDArray[np.bool_], types: Types, relaxation: ColumnGeneration) -> Settled:
    """Prove by the duals of column generation over the units seen, if that is more than is proved."""
    bound = relaxation.solve(types.demand, task.budget, task.target(found.cells)).bound
    if bound.cells(types.demand) <= found.needed:
        return found
    weights = np.zeros_like(task.lengths)
    weights[seen] = bound.weights[types.type_of_unit]
    certificate = WeightCertificate(weights, bound.limit)
    check_weights(certificate, task.lengths, task.capacity)
    return replace(found, certificate=certificate, method="column generation")


def _exhausted(found: Settled, task: Task, types: Types, relaxation: ColumnGeneration, nodes: int) -> Settled:
    """Search all packings into the cells of the bound, over the patterns that the relaxation's duals allow."""
    bounds = (relaxation.solve(types.demand, task.budget).bound, relaxation.interior_bound(types.demand, task.budget))
    filters = tuple(Filter(bound.weights, bound.limit) for bound in bounds)
    outcome = exhaust(types.lengths, types.demand, types.capacity, task.goal(found.needed), filters, task.budget, nodes)
    if outcome is None:
        return found
    if outcome.packing is not None:
        return replace(found, cell_of_unit=types.cell_of_unit(outcome.packing))
    assert outcome.certificate is not None
    check_tree(outcome.certificate, task.lengths, task.capacity)
    return replace(found, tree=outcome.certificate, method="proof tree")


def _dived(found: Settled, task: Task, types: Types, relaxation: ColumnGeneration, number: int) -> Settled:
    """Dive so often from one relaxation, whose columns are kept."""

    def relax(left: IntArray, cells: int) -> tuple[int, IntArray, NDArray[np.float64]] | None:
        if task.budget.used(relaxation.rounds) >= 1:
            return None
        relaxed = relaxation.solve(left, task.budget, cells + 1)
        return relaxed.bound.cells(left), relaxed.patterns, relaxed.amounts

    rng = np.random.default_rng(SEED + number)
    for _ in range(number):
        if not task.open(found) or task.budget.used(relaxation.rounds) >= 1:
            break
        held = dive(types.lengths, types.demand, types.capacity, task.goal(found.needed) - len(task.forced), relax, rng)
        if held is not None:
            found = task.better(found, types.cell_of_unit(held))
    return found


def _grid(lengths: IntArray, capacity: int) -> int:
    """Power of two to divide lengths by: 1 where the knapsack's table and the master problem are small, else until they are quick."""
    grid, most = 1, MAX_TYPES
    while True:
        types = Types.of(-(-lengths // grid), capacity // grid)
        if len(types.lengths) <= most and table_bytes(types.lengths, types.demand, types.capacity) <= MAX_TABLE:
            return grid
        grid, most = 2 * grid, QUICK_TYPES
