"""What trainers do today: fill cells by length alone."""

import heapq

import numpy as np

from routepack.errors import Infeasible
from routepack.heuristics.packing import open_cells
from routepack.heuristics.packing_greedy import first_fit_decreasing
from routepack.heuristics.problem import Problem
from routepack.window import IntArray


def row_by_row(problem: Problem, cell_of_unit: IntArray) -> IntArray:
    """Places of cells that are handed out in their order: the first S cells are row 0, slot by slot, and so on."""
    row, slot = np.divmod(cell_of_unit, problem.shards * problem.slots)
    shard, d = np.divmod(slot, problem.slots)
    cells: IntArray = (shard * problem.rows + row) * problem.slots + d
    return cells


def first_fit_rows(problem: Problem, packed: IntArray) -> IntArray:
    """
    First-fit decreasing by length, cells handed out row by row: cell of each unit by place, shape (units,).

    Parameters
    ----------
    problem
        What is laid out.
    packed
        A packing into exactly the layout's cells, taken where first fit opens more of them.
    """
    if problem.equal_samples:
        return packed
    lengths = problem.length[: problem.units]
    fitted = first_fit_decreasing(lengths, problem.cap)
    if int(fitted.max()) >= problem.cells:
        fitted = packed
    return row_by_row(problem, open_cells(lengths, fitted, problem.cells))


def differencing(costs: IntArray, parts: int) -> IntArray:
    """
    Split items into parts of even cost by the largest differencing method.

    Parameters
    ----------
    costs
        Cost of each item, shape (items,).
    parts
        Number of parts, at most the number of items.

    Returns
    -------
    IntArray
        Part of each item, shape (items,); the costliest part is 0.

    References
    ----------
    .. [1] Karmarkar, N., and R. Karp (1982). The differencing method of set partitioning. Report UCB/CSD 82/113, UC Berkeley.
    """
    heap: list[tuple[int, int, list[tuple[int, list[int]]]]] = [(-c, i, [(c, [i])]) for i, c in enumerate(costs.tolist())]
    heapq.heapify(heap)
    while len(heap) > 1:
        (_, order, large), (_, _, small) = heapq.heappop(heap), heapq.heappop(heap)
        joined = large + [(0, [])] * (parts - len(large))
        for k, (cost, items) in enumerate(small):
            total, members = joined[parts - 1 - k]
            joined[parts - 1 - k] = (total + cost, members + items)
        joined = sorted((part for part in joined if part[1]), key=lambda part: (-part[0], part[1]))
        least = joined[-1][0] if len(joined) == parts else 0
        joined = [(cost - least, items) for cost, items in joined]
        heapq.heappush(heap, (-joined[0][0], order, joined))
    part_of_item = np.empty(len(costs), dtype=np.int64)
    for k, (_, items) in enumerate(heap[0][2]):
        part_of_item[items] = k
    return part_of_item


def karmarkar_karp(lengths: IntArray, cap: int, cells: int, step: int) -> IntArray:
    """
    Balance 24576 t + t**2, the length cost of verl, over cells; add rows until every cell respects the cap.

    Parameters
    ----------
    lengths
        Aligned tokens of each unit, shape (units,).
    cap
        Token cap.
    cells, step
        Cells to begin with, and cells of one more admissible number of rows.

    Raises
    ------
    Infeasible
        Even one unit a cell leaves too few units for the next number of rows.
    """
    costs = 24576 * lengths + lengths * lengths
    while cells <= len(lengths):
        cell_of_unit = differencing(costs, cells)
        tokens = np.bincount(cell_of_unit, weights=lengths, minlength=cells)
        if tokens.max() <= cap and tokens.min() > 0:
            return cell_of_unit
        cells += step
    raise Infeasible(
        f"balancing by length alone exceeds token_cap = {cap} in every number of rows that {len(lengths)} units can fill",
        "use another method",
        has_samples=len(lengths),
    )
