"""The fewest cells for a handful of units, by dynamic programming over subsets."""

import numpy as np

from routepack.compiled import compiled
from routepack.window import IntArray

MAX_UNITS = 16


def fewest_cells(lengths: IntArray, capacity: int) -> IntArray:
    """
    Pack at most 16 units into the fewest cells.

    A set of units is worth the pair (cells closed or open, tokens in the open cell), least first; a set without its last unit is worth no
    more, so each set extends a best smaller one.

    Parameters
    ----------
    lengths
        Tokens of each unit, shape (N,), in [1, capacity], N <= 16.
    capacity
        Token cap of a cell.

    Returns
    -------
    IntArray
        Cell of each unit, shape (N,), numbered from 0 without holes.

    Raises
    ------
    ValueError
        More than 16 units.
    """
    if len(lengths) > MAX_UNITS:
        raise ValueError(f"lengths has {len(lengths)} units, over {MAX_UNITS}; use pack.")
    worth, last = _subsets(lengths, capacity)
    cell_of_unit = np.zeros(len(lengths), dtype=np.int64)
    chosen = (1 << len(lengths)) - 1
    while chosen:
        cell_of_unit[last[chosen]] = worth[chosen] // (capacity + 1)
        chosen ^= 1 << int(last[chosen])
    return cell_of_unit


@compiled
def _subsets(lengths: IntArray, capacity: int) -> tuple[IntArray, IntArray]:
    """Worth of each set as open cell times (capacity + 1) plus its tokens, and its last unit, shapes (2**N,)."""
    base = capacity + 1
    worth = np.zeros(1 << len(lengths), dtype=np.int64)
    last = np.zeros(1 << len(lengths), dtype=np.int64)
    for chosen in range(1, len(worth)):
        least = np.int64(len(lengths)) * base
        for i in range(len(lengths)):
            if chosen >> i & 1:
                before = worth[chosen ^ (1 << i)]
                after = before + lengths[i]
                if before % base + lengths[i] > capacity:
                    after = (before // base + 1) * base + lengths[i]
                if after < least:
                    least = after
                    last[chosen] = i
        worth[chosen] = least
    return worth, last
