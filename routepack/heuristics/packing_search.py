"""Tabu search for a packing into a given number of cells: tokens above the cap are traded away."""

import numpy as np

from routepack.compiled import compiled
from routepack.window import IntArray

NEAR = 128


def repair(lengths: IntArray, sizes: IntArray, cell_of_unit: IntArray, rows: int, capacity: int, trials: int) -> IntArray | None:
    """
    Trade units between cells until no cell is over the cap.

    Every step takes the fullest cell and the best shift of one of its units to the emptiest cell of its slot, or swap with one of the
    256 units elsewhere whose length is nearest to ending the overflow, by the tokens above the cap that remain over all cells; a unit that
    has moved rests for some steps. The number of samples of each slot stays as it is, and no cell becomes empty.

    Parameters
    ----------
    lengths
        Tokens of each unit, shape (N,), in [1, capacity].
    sizes
        Samples of each unit, shape (N,).
    cell_of_unit
        Cell of each unit, shape (N,), none empty; cell c belongs to slot ``c // rows``.
    rows
        Cells of a slot; the number of cells if there is nothing to keep equal.
    capacity
        Token cap of a cell.
    trials
        Shifts and swaps that may be looked at.

    Returns
    -------
    IntArray | None
        Cell of each unit with every cell within the cap; ``None`` if none was found.
    """
    cells = int(cell_of_unit.max()) + 1
    if int(lengths.sum()) > cells * capacity:
        return None
    found = _tabu(lengths, sizes, cell_of_unit.copy(), cells, rows, capacity, trials)
    return found if int(np.bincount(found, weights=lengths).max()) <= capacity else None


@compiled
def _tabu(lengths: IntArray, sizes: IntArray, cell: IntArray, cells: int, rows: int, capacity: int, trials: int) -> IntArray:
    load = np.zeros(cells, dtype=np.int64)
    held = np.zeros(cells, dtype=np.int64)
    for i in range(len(cell)):
        load[cell[i]] += lengths[i]
        held[cell[i]] += 1
    over = np.int64(0)
    for c in range(cells):
        over += max(0, load[c] - capacity)
    order = np.argsort(lengths)
    rising = lengths[order]
    rests = np.zeros(len(cell), dtype=np.int64)  # step from which a unit may move again
    least, step, draw = over, 0, np.int64(1)
    while over > 0 and trials > 0:
        step += 1
        full = np.argmax(load)
        slot = full // rows
        empty = _emptiest(load, slot * rows, min(cells, slot * rows + rows), full)
        best, ties, unit, other, target = np.int64(1) << 60, 0, -1, -1, -1
        for i in range(len(cell)):
            if cell[i] != full:
                continue
            if empty >= 0 and held[full] > 1:
                change = _change(load[full], load[empty], lengths[i], capacity)
                if (rests[i] <= step or over + change < least) and change < best:
                    best, ties, unit, other, target = change, 1, i, -1, empty
            middle = np.searchsorted(rising, lengths[i] - (load[full] - capacity))
            for place in range(max(0, middle - NEAR), min(len(cell), middle + NEAR)):
                j = order[place]
                c = cell[j]
                if c == full or lengths[j] >= lengths[i] or (sizes[i] != sizes[j] and c // rows != slot):
                    continue
                change = _change(load[full], load[c], lengths[i] - lengths[j], capacity)
                if ((rests[i] <= step and rests[j] <= step) or over + change < least) and change <= best:
                    draw = (draw * 1103515245 + 12345) & 0x7FFFFFFF
                    ties = ties + 1 if change == best else 1
                    if ties == 1 or (draw >> 8) % ties == 0:
                        best, unit, other, target = change, i, j, c
            trials -= 2 * NEAR
        trials -= (len(cell) + 2 * cells) // 8
        if unit < 0:
            continue
        moved = lengths[unit]
        cell[unit] = target
        rests[unit] = step + 3 + (draw >> 16) % 5
        if other >= 0:
            moved -= lengths[other]
            cell[other] = full
            rests[other] = step + 3 + (draw >> 20) % 5
        else:
            held[full] -= 1
            held[target] += 1
        load[full] -= moved
        load[target] += moved
        over += best
        least = min(least, over)
    return cell


@compiled
def _emptiest(load: IntArray, first: int, end: int, without: int) -> int:
    """Return the cell with the fewest tokens in a range, but not a certain one; -1 if there is no other."""
    best = -1
    for c in range(first, end):
        if c != without and (best < 0 or load[c] < load[best]):
            best = c
    return best


@compiled
def _change(source: int, target: int, moved: int, capacity: int) -> int:
    """Tokens above the cap, after against before, when so many move from one load to another."""
    before = max(0, source - capacity) + max(0, target - capacity)
    return max(0, source - moved - capacity) + max(0, target + moved - capacity) - before
