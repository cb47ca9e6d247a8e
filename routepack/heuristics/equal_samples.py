"""Cells for slots that must all get the same number of samples."""

import heapq

import numpy as np

from routepack.heuristics.packing_search import repair
from routepack.window import IntArray

TRIALS = 50_000_000


def pack_equal(lengths: IntArray, sizes: IntArray, slots: int, rows: int, capacity: int) -> IntArray | None:
    """
    Give every slot the same number of samples, in cells within the cap, none empty.

    Units are dealt to the slots so that counts are equal and tokens nearly so, then to each slot's cells by falling length; tabu search
    trades away what is above the cap.

    Parameters
    ----------
    lengths
        Tokens of each unit, shape (N,), in [1, capacity].
    sizes
        Samples of each unit, shape (N,), at least 1.
    slots, rows
        DP slots S and rows R.
    capacity
        Token cap of a cell.

    Returns
    -------
    IntArray | None
        Cell of each unit, shape (N,), cell ``d * rows + r`` for row r of slot d; ``None`` if none was found.
    """
    share, rest = divmod(int(sizes.sum()), slots)
    if rest or len(lengths) < slots * rows or int(lengths.sum()) > slots * rows * capacity:
        return None
    slot_of_unit = _deal(lengths, sizes, slots, rows, share)
    if slot_of_unit is None:
        return None
    cell_of_unit = np.empty_like(slot_of_unit)
    for d in range(slots):
        units = np.flatnonzero(slot_of_unit == d)
        if len(units) < rows:
            return None
        cell_of_unit[units] = d * rows + _emptiest_first(lengths[units], rows)
    return repair(lengths, sizes, cell_of_unit, rows, capacity, TRIALS)


def _deal(lengths: IntArray, sizes: IntArray, slots: int, rows: int, share: int) -> IntArray | None:
    """
    Slot of each unit: big groups first, then long ones, to the slot with the fewest samples and then the fewest tokens.

    Where that leaves a slot short of units or samples, units of unequal size trade places until the counts agree.
    """
    order = np.lexsort((-lengths, -sizes))
    slot_of_unit = np.empty(len(lengths), dtype=np.int64)
    heap = [(0, 0, d) for d in range(slots)]
    for i in order:
        count, load, d = heapq.heappop(heap)
        slot_of_unit[i] = d
        heapq.heappush(heap, (count + int(sizes[i]), load + int(lengths[i]), d))
    surplus = np.bincount(slot_of_unit, weights=sizes, minlength=slots).astype(np.int64) - share
    while surplus.any():
        step = _evening_trade(sizes, slot_of_unit, surplus)
        if step is None:
            return None
        giver, taker, out, back = step
        for unit, source, target in ((out, giver, taker), (back, taker, giver)):
            if unit >= 0:
                slot_of_unit[unit] = target
                surplus[source] -= sizes[unit]
                surplus[target] += sizes[unit]
    return slot_of_unit


def _evening_trade(sizes: IntArray, slot_of_unit: IntArray, surplus: IntArray) -> tuple[int, int, int, int] | None:
    """Find units, one or none back, to trade from the slot with the largest surplus so that the squares of all surpluses fall most."""
    giver = int(surplus.argmax())
    best, step = 0, None
    for taker in np.flatnonzero(surplus < 0).tolist():
        firsts = [np.flatnonzero(slot_of_unit == d)[np.unique(sizes[slot_of_unit == d], return_index=True)[1]] for d in (giver, taker)]
        for out in firsts[0].tolist():
            for back in [-1, *firsts[1].tolist()]:
                moved = int(sizes[out]) - (int(sizes[back]) if back >= 0 else 0)
                gain = moved * (int(surplus[giver]) - int(surplus[taker]) - moved)
                if moved > 0 and gain > best:
                    best, step = gain, (giver, taker, out, back)
    return step


def _emptiest_first(lengths: IntArray, rows: int) -> IntArray:
    """Row of each unit of a slot: by falling length, always the row with the fewest tokens."""
    row_of_unit = np.empty(len(lengths), dtype=np.int64)
    heap = [(0, r) for r in range(rows)]
    for i in np.argsort(-lengths, kind="stable"):
        load, r = heapq.heappop(heap)
        row_of_unit[i] = r
        heapq.heappush(heap, (load + int(lengths[i]), r))
    return row_of_unit
