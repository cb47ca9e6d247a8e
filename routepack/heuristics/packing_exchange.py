"""Exchange of units between pairs of cells that gathers all free room in one cell, until that cell is empty."""

from collections.abc import Callable

import numpy as np

from routepack.compiled import called, compiled
from routepack.window import IntArray

LOOKED_AT = 6
SLICE = 2_000_000
SPARE_PLACES = 6
TWO_TO_53 = 9007199254740992.0
HEAT = 3.0  # times the room that each cell has at the target
COOLED = 0.01


def exchange(
    lengths: IntArray, capacity: int, cell_of_unit: IntArray, target: int, trials: int, stop: Callable[[], bool] = lambda: False
) -> IntArray:
    """
    Empty cells by trading units between the others.

    Two cells, one of them often the emptiest, trade none, one or two units each, such that one of them keeps as little room as
    possible. More room than before is accepted by an exponential draw around a heat that falls, so that the room of nearly full cells
    wanders until it can be joined.

    Parameters
    ----------
    lengths
        Tokens of each unit, shape (N,), in [1, capacity].
    capacity
        Token cap of a cell.
    cell_of_unit
        A packing, shape (N,), numbered from 0 without holes.
    target
        Stop at so many cells, at least 1.
    trials
        Pairs of sets that may be looked at, a nanosecond or two each.
    stop
        Asked every few milliseconds; true ends the search.

    Returns
    -------
    IntArray
        Cell of each unit, shape (N,), numbered from 0 without holes; never more cells than before.

    References
    ----------
    .. [1] Buljubasic, M., and M. Vasquez (2016). Consistent neighborhood search for one-dimensional bin packing and two-dimensional vector
       packing. *Computers & Operations Research* 76: 12-21. https://doi.org/10.1016/j.cor.2016.06.009
    """
    held = np.bincount(cell_of_unit)
    room = capacity - np.bincount(cell_of_unit, weights=lengths).astype(np.int64)
    members = np.full((len(held), int(held.max()) + SPARE_PLACES), -1, dtype=np.int64)
    order = np.argsort(cell_of_unit, kind="stable")
    members[cell_of_unit[order], np.arange(len(order)) - np.repeat(np.cumsum(held) - held, held)] = order
    state = np.array([len(held), 88172645463325252], dtype=np.int64)
    heat = HEAT * (max(0, target * capacity - int(lengths.sum())) + 1) / target
    cooling = COOLED ** (SLICE / max(1, trials))
    while state[0] > target and trials > 0 and not stop():
        _trade(lengths, members, held, room, state, target, min(trials, SLICE), heat)
        heat *= cooling
        trials -= SLICE
    cells = np.empty_like(cell_of_unit)
    for c in range(int(state[0])):
        cells[members[c, : held[c]]] = c
    return cells


@compiled
def _trade(
    lengths: IntArray, members: IntArray, held: IntArray, room: IntArray, state: IntArray, target: int, trials: int, heat: float
) -> None:
    """Trade for so many trials; ``state`` holds the number of cells and the generator's number."""
    cells, draw = state[0], np.uint64(state[1])
    sets = np.empty((2, 1 + LOOKED_AT + LOOKED_AT * (LOOKED_AT - 1) // 2, 3), dtype=np.int64)  # tokens, and the places of two units
    sink = np.argmax(room[:cells])
    while trials > 0 and cells > target:
        draw = _next(draw)
        a, b = np.int64(draw >> np.uint64(33)) % cells, sink
        draw = _next(draw)
        if draw >> np.uint64(60) != np.uint64(0):
            b = np.int64((draw >> np.uint64(20)) & np.uint64(0x7FFFFFFF)) % cells
        trials -= 4
        if a == b or room[a] + room[b] == 0 or max(held[a], held[b]) + 2 > members.shape[1]:
            continue
        draw = _next(draw)
        first = _list_sets(lengths, members[a], held[a], sets[0], draw)
        second = _list_sets(lengths, members[b], held[b], sets[1], draw >> np.uint64(7))
        trials -= first * second
        together, best, chosen, other, ties = room[a] + room[b], min(room[a], room[b]), -1, -1, 1
        best += np.int64(-heat * np.log((np.float64(draw >> np.uint64(11)) + 1) / TWO_TO_53))
        for p in range(first):
            for q in range(second):
                left = room[a] + sets[0, p, 0] - sets[1, q, 0]
                rest = min(left, together - left)
                if 0 <= rest <= best and p + q > 0:
                    ties = ties + 1 if rest == best else 1
                    draw = _next(draw)
                    if ties == 1 or (draw >> np.uint64(20)) % np.uint64(ties) == 0:
                        best, chosen, other = rest, p, q
        if chosen < 0:
            continue
        _swap(members, held, a, b, sets[0, chosen], sets[1, other])
        moved = sets[1, other, 0] - sets[0, chosen, 0]
        room[a] -= moved
        room[b] += moved
        for c in (a, b):
            if held[c] == 0:
                cells -= 1
                members[c], held[c], room[c] = members[cells], held[cells], room[cells]
                sink = np.argmax(room[:cells])
                break
            if room[c] > room[sink]:
                sink = c
    state[0], state[1] = cells, np.int64(draw)


@called
def _next(draw: np.uint64) -> np.uint64:
    """Next number of Marsaglia's xorshift generator."""
    draw ^= draw << np.uint64(13)
    draw ^= draw >> np.uint64(7)
    return draw ^ (draw << np.uint64(17))


@called
def _list_sets(lengths: IntArray, units: IntArray, held: int, sets: IntArray, draw: np.uint64) -> int:
    """Write tokens and places of no unit, each unit and each pair of a few neighbouring places; return how many sets these are."""
    sets[0, 0], sets[0, 1], sets[0, 2] = 0, -1, -1
    count, few = 1, min(held, LOOKED_AT)
    start = np.int64((draw >> np.uint64(12)) % np.uint64(held)) if held > LOOKED_AT else 0
    for x in range(few):
        i = (start + x) % held
        one = lengths[units[i]]
        sets[count, 0], sets[count, 1], sets[count, 2] = one, i, -1
        count += 1
        for y in range(x):
            j = (start + y) % held
            sets[count, 0], sets[count, 1], sets[count, 2] = one + lengths[units[j]], i, j
            count += 1
    return count


@called
def _swap(members: IntArray, held: IntArray, a: int, b: int, out: IntArray, back: IntArray) -> None:
    """Move a set of a's units to b and one of b's to a,."""
    moving = np.empty(4, dtype=np.int64)
    for k in range(2):
        moving[k] = members[a, out[1 + k]] if out[1 + k] >= 0 else -1
        moving[2 + k] = members[b, back[1 + k]] if back[1 + k] >= 0 else -1
    for cell, places in ((a, out), (b, back)):
        for place in (max(places[1], places[2]), min(places[1], places[2])):
            if place >= 0:
                held[cell] -= 1
                members[cell, place] = members[cell, held[cell]]
    for k in range(4):
        if moving[k] >= 0:
            cell = b if k < 2 else a
            members[cell, held[cell]] = moving[k]
            held[cell] += 1
