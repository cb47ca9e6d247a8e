"""Cells that some best packing has, found by exchange arguments before any search."""

from bisect import bisect_right

import numpy as np

from routepack.window import IntArray


def forced_cells(lengths: IntArray, capacity: int) -> tuple[list[list[int]], IntArray]:
    """
    Fix cells that can be exchanged into any best packing.

    A unit lies alone where no other fits beside it. It takes the longest unit that fits where that fills the cell, or where no two units
    fit beside it: whatever a best packing has in these places can trade places with that unit.

    Parameters
    ----------
    lengths
        Tokens of each unit, shape (N,), in [1, capacity].
    capacity
        Token cap of a cell.

    Returns
    -------
    tuple[list[list[int]], IntArray]
        Units of each fixed cell, and the units that are left, longest first.

    References
    ----------
    .. [1] Martello, S., and P. Toth (1990). Lower bounds and reduction procedures for the bin packing problem. *Discrete Applied
       Mathematics* 28(1): 59-70. https://doi.org/10.1016/0166-218X(90)90094-S
    """
    units = np.argsort(lengths, kind="stable").tolist()  # shortest first
    tokens = lengths[units].tolist()
    cells: list[list[int]] = []
    before = -1
    while before < len(cells):
        before, k = len(cells), len(units) - 1
        while k >= 0:
            mate = _forced_mate(tokens, k, capacity)
            if mate is not None:
                places = sorted({k, mate}, reverse=True)
                cells.append([units[place] for place in places])
                for place in places:
                    del units[place], tokens[place]
                k -= mate < k
            k -= 1
    return cells, np.array(units[::-1], dtype=np.int64)


def _forced_mate(tokens: list[int], k: int, capacity: int) -> int | None:
    """Place of the unit that shares a cell with unit k, k itself if none does, ``None`` if that is open; ``tokens`` rise."""
    room = capacity - tokens[k]
    longest = bisect_right(tokens, room) - 1
    longest -= longest == k
    if longest < 0:
        return k
    shortest = [tokens[j] for j in range(min(3, len(tokens))) if j != k][:2]
    only_one = len(shortest) < 2 or sum(shortest) > room
    return longest if only_one or tokens[longest] == room else None
