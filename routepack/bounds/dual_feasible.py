"""Dual feasible functions: weights by length alone, so that what fits together never weighs more than a cell."""

from collections.abc import Iterator

import numpy as np

from routepack.window import IntArray

MAX_THRESHOLDS = 512
MAX_ROUNDS = 64

Weighing = tuple[IntArray, int]


def martello_toth(distinct: IntArray, counts: IntArray, capacity: int) -> Weighing:
    """
    Bound L2 as the best of its weighings.

    For a threshold k an item longer than ``capacity - k`` weighs a whole cell, one shorter than k nothing, and any other its length.
    Among equally good thresholds the largest is taken, which leaves fewest items to check.

    Parameters
    ----------
    distinct, counts
        Lengths that occur, rising, and how often each does, shape (K,).
    capacity
        Token cap of a cell.

    Returns
    -------
    Weighing
        Weight of each distinct length, shape (K,), and the limit.

    References
    ----------
    .. [1] Martello, S., and P. Toth (1990). Lower bounds and reduction procedures for the bin packing problem. *Discrete Applied
       Mathematics* 28(1): 59-70. https://doi.org/10.1016/0166-218X(90)90094-S
    """
    thresholds = np.concatenate([distinct[2 * distinct <= capacity], [max(1, capacity // 2)]])
    number = np.concatenate([[0], np.cumsum(counts)])
    tokens = np.concatenate([[0], np.cumsum(counts * distinct)])
    low = np.searchsorted(distinct, thresholds)
    high = np.searchsorted(distinct, capacity - thresholds, side="right")
    weight = (number[-1] - number[high]) * capacity + tokens[high] - tokens[low]
    k = int(thresholds[::-1][(-(-weight // capacity))[::-1].argmax()])
    return np.where(distinct > capacity - k, capacity, np.where(distinct < k, 0, distinct)), capacity


def carlier_clautiaux_moukrim(lengths: IntArray, capacity: int, k: int) -> Weighing:
    """
    Count steps of k below half a cell, and what is left of a cell's steps above.

    For k over a third of the capacity this is the matching bound: two items of length k or more fill a cell.

    References
    ----------
    .. [1] Carlier, J., F. Clautiaux and A. Moukrim (2007). New reduction procedures and lower bounds for the two-dimensional bin packing
       problem with fixed orientation. *Computers & Operations Research* 34(8): 2223-2250. https://doi.org/10.1016/j.cor.2005.08.012
    """
    return _mirrored(lengths, capacity, np.minimum(lengths, capacity - lengths) // k, capacity // k)


def vanderbeck(lengths: IntArray, capacity: int, k: int) -> Weighing:
    """
    Count the k-ths of a cell that an item exceeds.

    References
    ----------
    .. [1] Vanderbeck, F. (2000). Exact algorithm for minimising the number of setups in the one-dimensional cutting stock problem.
       *Operations Research* 48(6): 915-926. https://doi.org/10.1287/opre.48.6.915.12391
    """
    shorter = np.minimum(lengths, capacity - lengths)
    return _mirrored(lengths, capacity, np.maximum(0, -(-k * shorter // capacity) - 1), k - 1)


def fekete_schepers(lengths: IntArray, capacity: int, k: int) -> Weighing:
    """
    Round lengths down to multiples of ``capacity / (k + 1)``, each worth a k-th of a cell, but leave exact multiples as they are.

    References
    ----------
    .. [1] Fekete, S. P., and J. Schepers (2001). New classes of fast lower bounds for bin packing problems. *Mathematical Programming*
       91(1): 11-31. https://doi.org/10.1007/s101070100243
    """
    steps, rest = np.divmod((k + 1) * lengths, capacity)
    return steps * np.where(rest == 0, k, k + 1), k * (k + 1)


def _mirrored(lengths: IntArray, capacity: int, steps: IntArray, whole: int) -> Weighing:
    """
    Double a superadditive weighing below half a cell and complement it above.

    ``steps`` weighs the shorter of an item and its complement, ``whole`` a full cell.
    """
    above = np.where(2 * lengths > capacity, 2 * (whole - steps), 2 * steps)
    return np.where(2 * lengths == capacity, whole, above), 2 * whole


def weighings(distinct: IntArray, counts: IntArray, capacity: int) -> Iterator[Weighing]:
    """
    Yield weighings of the distinct lengths, cheap ones first.

    Thresholds are all that matter when there are at most 512, else an even selection.

    Parameters
    ----------
    distinct, counts, capacity
        As in `martello_toth`.
    """
    yield distinct, capacity
    yield martello_toth(distinct, counts, capacity)
    for k in range(2, MAX_ROUNDS):
        if capacity >= k:
            yield vanderbeck(distinct, capacity, k)
            yield fekete_schepers(distinct, capacity, k)
    for k in _thresholds(distinct, capacity):
        yield carlier_clautiaux_moukrim(distinct, capacity, k)


def _thresholds(distinct: IntArray, capacity: int) -> list[int]:
    """Steps at which the shorter of an item and its complement, or a part of it, is just counted; largest first."""
    if capacity <= 2 * MAX_THRESHOLDS:
        return list(range(capacity // 2, 0, -1))
    shorter = np.unique(np.minimum(distinct, capacity - distinct))
    steps = np.unique(np.concatenate([shorter, shorter // 2, shorter // 3]))[::-1]
    steps = steps[(steps > 0) & (2 * steps <= capacity)]
    chosen = np.linspace(0, len(steps) - 1, min(len(steps), MAX_THRESHOLDS)).astype(np.int64)
    return [int(k) for k in steps[chosen]]
