"""Decreasing first fit, best fit and subset-sum fill: every packing in one pass over the units, longest first."""

import numpy as np

from routepack.compiled import compiled
from routepack.window import IntArray

FILL_NODES = 3000


def first_fit_decreasing(lengths: IntArray, capacity: int) -> IntArray:
    """
    Put each unit, longest first, into the first cell with room for it.

    Parameters
    ----------
    lengths
        Tokens of each unit, shape (N,), in [1, capacity].
    capacity
        Token cap of a cell.

    Returns
    -------
    IntArray
        Cell of each unit, shape (N,), numbered from 0 without holes.

    References
    ----------
    .. [1] Johnson, D. S. (1973). Near-optimal bin packing algorithms. PhD thesis, Massachusetts Institute of Technology.
    """
    order = np.argsort(-lengths, kind="stable")
    return _scattered(order, _first_fit(lengths[order], capacity))


def best_fit_decreasing(lengths: IntArray, capacity: int) -> IntArray:
    """Put each unit, longest first, into the fullest cell with room for it; parameters and result as `first_fit_decreasing`."""
    order = np.argsort(-lengths, kind="stable")
    return _scattered(order, _best_fit(lengths[order], capacity))


def subset_sum_fill(lengths: IntArray, capacity: int, allowance: int = 0, nodes: int = FILL_NODES) -> IntArray:
    """
    Close one cell after the other: the longest unit left, and with it the set of units that leaves least room.

    The set is searched depth first, longest units first, until it leaves at most ``allowance`` or the nodes are spent.

    Parameters
    ----------
    lengths, capacity
        As in `first_fit_decreasing`.
    allowance
        Room in tokens that a closed cell may keep without further search.
    nodes
        Nodes of the search for one cell.

    References
    ----------
    .. [1] Gupta, J. N. D., and J. C. Ho (1999). A new heuristic algorithm for the one-dimensional bin-packing problem. *Production Planning
       & Control* 10(6): 598-603. https://doi.org/10.1080/095372899232894
    .. [2] Fleszar, K., and K. S. Hindi (2002). New heuristics for one-dimensional bin-packing. *Computers & Operations Research* 29(7):
       821-839. https://doi.org/10.1016/S0305-0548(00)00082-4
    """
    order = np.argsort(-lengths, kind="stable")
    return _scattered(order, _fill(lengths[order], capacity, allowance, nodes))


def _scattered(order: IntArray, cells: IntArray) -> IntArray:
    cell_of_unit = np.empty_like(cells)
    cell_of_unit[order] = cells
    return cell_of_unit


@compiled
def _first_fit(down: IntArray, capacity: int) -> IntArray:
    """First fit of units that come by falling length; a tournament tree over the cells finds the first with room."""
    leaves = 1
    while leaves < len(down):
        leaves *= 2
    room = np.full(2 * leaves, capacity, dtype=np.int64)  # room[k] = largest room below node k
    cells = np.empty(len(down), dtype=np.int64)
    for i in range(len(down)):
        node = 1
        while node < leaves:
            node = 2 * node if room[2 * node] >= down[i] else 2 * node + 1
        cells[i] = node - leaves
        room[node] -= down[i]
        while node > 1:
            node //= 2
            room[node] = max(room[2 * node], room[2 * node + 1])
    return cells


@compiled
def _best_fit(down: IntArray, capacity: int) -> IntArray:
    """Best fit of units that come by falling length; the open cells are kept sorted by their room."""
    cells = np.empty(len(down), dtype=np.int64)
    room = np.empty(len(down), dtype=np.int64)  # by place, rising
    cell_at = np.empty(len(down), dtype=np.int64)
    opened = 0
    for i in range(len(down)):
        low, high = 0, opened
        while low < high:
            middle = (low + high) // 2
            if room[middle] < down[i]:
                low = middle + 1
            else:
                high = middle
        place, cell, rest = low, opened, capacity - down[i]
        if low == opened:
            opened += 1
        else:
            cell, rest = cell_at[low], room[low] - down[i]
        while place > 0 and room[place - 1] > rest:
            room[place], cell_at[place] = room[place - 1], cell_at[place - 1]
            place -= 1
        room[place], cell_at[place] = rest, cell
        cells[i] = cell
    return cells


@compiled
def _fill(down: IntArray, capacity: int, allowance: int, nodes: int) -> IntArray:
    """Subset-sum fill of units that are sorted by falling length."""
    cells = np.full(len(down), -1, dtype=np.int64)
    left = np.arange(len(down))
    count, cell = len(down), 0
    path = np.empty(len(down), dtype=np.int64)
    best = np.empty(len(down), dtype=np.int64)
    tail = np.zeros(len(down) + 1, dtype=np.int64)
    while count:
        size = _fullest(down[left[:count]], capacity, allowance, nodes, path, best, tail)
        for k in range(size):
            cells[left[best[k]]] = cell
        kept = 0
        for k in range(count):
            if cells[left[k]] < 0:
                left[kept] = left[k]
                kept += 1
        count = kept
        cell += 1
    return cells


@compiled
def _fullest(down: IntArray, capacity: int, allowance: int, nodes: int, path: IntArray, best: IntArray, tail: IntArray) -> int:
    """Write the fullest set found with the first unit to ``best`` and return its size; ``path`` and ``tail`` are work space."""
    count = len(down)
    tail[count] = 0
    for k in range(count - 1, -1, -1):
        tail[k] = tail[k + 1] + down[k]
    path[0] = best[0] = 0
    depth, size, room, k = 1, 1, capacity - down[0], 1
    least = room
    while least > allowance and nodes > 0:
        high = count
        while k < high:  # the first unit from k on that fits
            middle = (k + high) // 2
            if down[middle] > room:
                k = middle + 1
            else:
                high = middle
        if k < count and room - tail[k] < least:
            path[depth] = k
            depth += 1
            room -= down[k]
            k += 1
            nodes -= 1
            if room < least:
                least, size = room, depth
                best[:depth] = path[:depth]
        elif depth > 1:
            depth -= 1
            k = path[depth]
            room += down[k]
            taken = down[k]
            while k < count and down[k] == taken:
                k += 1
        else:
            break
    return size
