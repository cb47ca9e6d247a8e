"""Units into as few cells as possible, and into exactly as many as a layout has."""

import heapq
from collections.abc import Callable
from functools import partial

import numpy as np

from routepack.heuristics.packing_exact import MAX_UNITS, fewest_cells
from routepack.heuristics.packing_greedy import best_fit_decreasing, first_fit_decreasing, subset_sum_fill
from routepack.heuristics.packing_search import repair
from routepack.window import IntArray

SEARCH_TRIALS = 20_000_000
LADDER_TRIALS = 1_000_000
LADDER = [(per_mille, nodes) for nodes in (3000, 300) for per_mille in (1, 3, 6, 12, 24, 50)]  # allowance and nodes of fills


def pack(lengths: IntArray, capacity: int, target: int | None = None, trials: int = SEARCH_TRIALS) -> IntArray:
    """
    Pack units into few cells: greedy fits, subset-sum fills, tabu search; for at most 16 units the optimum.

    Parameters
    ----------
    lengths
        Tokens of each unit, shape (N,), in [1, capacity].
    capacity
        Token cap of a cell.
    target
        Stop as soon as no more cells than this are used; the total over the cap, rounded up, if not given.
    trials
        Shifts and swaps that the search may look at, a few nanoseconds each; from a million on, a dozen fills with other allowances
        come before it.

    Returns
    -------
    IntArray
        Cell of each unit, shape (N,), numbered from 0 without holes.
    """
    enough = max(target or 1, -(-int(lengths.sum()) // capacity))
    best = best_fit_decreasing(lengths, capacity)
    if _count(best) > enough and len(lengths) <= MAX_UNITS:
        return fewest_cells(lengths, capacity)
    spare = (enough * capacity - int(lengths.sum())) // enough
    methods: list[Callable[[IntArray, int], IntArray]] = [first_fit_decreasing, subset_sum_fill, partial(subset_sum_fill, allowance=spare)]
    if trials >= LADDER_TRIALS:
        methods += [partial(subset_sum_fill, allowance=capacity * per_mille // 1000, nodes=nodes) for per_mille, nodes in LADDER]
    for method in methods:
        if _count(best) <= enough:
            return best
        best = min(best, method(lengths, capacity), key=_count)
    return _search(lengths, capacity, best, enough, trials)


def _count(cell_of_unit: IntArray) -> int:
    return int(cell_of_unit.max()) + 1


def _search(lengths: IntArray, capacity: int, best: IntArray, enough: int, trials: int) -> IntArray:
    """Do with one cell less, again and again, until enough cells are saved or a repair fails."""
    ones = np.ones_like(lengths)
    while _count(best) > enough:
        fewer = _without_lightest(lengths, best)
        found = repair(lengths, ones, fewer, _count(fewer), capacity, trials)
        if found is None:
            break
        best = found
    return best


def _without_lightest(lengths: IntArray, cell_of_unit: IntArray) -> IntArray:
    """Empty the cell with the fewest tokens, each of its units into the cell with the fewest then, and close the gap."""
    load = np.bincount(cell_of_unit, weights=lengths).astype(np.int64)
    lightest, last = int(load.argmin()), len(load) - 1
    cells = np.where(cell_of_unit == last, lightest, cell_of_unit)
    load[lightest] = load[last]
    for i in np.flatnonzero(cell_of_unit == lightest):
        cells[i] = load[:last].argmin()
        load[cells[i]] += lengths[i]
    return cells


def open_cells(lengths: IntArray, cell_of_unit: IntArray, num_cells: int) -> IntArray:
    """
    Split cells, the fullest that can be split first, until exactly so many are used.

    Parameters
    ----------
    lengths, cell_of_unit
        Tokens and cell of each unit, shape (N,), cells numbered from 0 without holes.
    num_cells
        Cells wanted, at least as many as there are.

    Returns
    -------
    IntArray
        Cell of each unit, shape (N,), numbered from 0 to ``num_cells - 1``.

    Raises
    ------
    ValueError
        There are fewer units than cells wanted, or more cells than wanted.
    """
    cells = cell_of_unit.copy()
    used = _count(cells)
    if len(cells) < num_cells or used > num_cells:
        raise ValueError(f"num_cells = {num_cells} is not between the {used} cells in use and the {len(cells)} units.")
    order = np.argsort(cells, kind="stable")
    members = [part.tolist() for part in np.split(order, np.cumsum(np.bincount(cells))[:-1])]
    heap = [(-int(lengths[part].sum()), c) for c, part in enumerate(members) if len(part) > 1]
    heapq.heapify(heap)
    while used < num_cells:
        _, c = heapq.heappop(heap)
        halves: tuple[list[int], list[int]] = ([], [])
        loads = [0, 0]
        for i in sorted(members[c], key=lambda i: (-int(lengths[i]), i)):
            side = int(loads[1] < loads[0])
            halves[side].append(i)
            loads[side] += int(lengths[i])
        cells[halves[1]] = used
        members[c] = halves[0]
        members.append(halves[1])
        for where, half, load in ((c, halves[0], loads[0]), (used, halves[1], loads[1])):
            if len(half) > 1:
                heapq.heappush(heap, (-load, where))
        used += 1
    return cells
