"""Dives: fix patterns that a relaxation uses most, relax what is left, and so on down to a packing."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from routepack.heuristics.packing import pack
from routepack.window import IntArray

QUICK_TRIALS = 200_000
FIXED_SHARE = 0.03

Relax = Callable[[IntArray, int], tuple[int, IntArray, NDArray[np.float64]] | None]


def dive(lengths: IntArray, demand: IntArray, capacity: int, target: int, relax: Relax, rng: np.random.Generator) -> IntArray | None:
    """
    Look for a packing into so many cells.

    Patterns used whole are fixed first, then those used most, about 3 % of the cells that are left. A pattern's item that is no longer
    wanted gives its place to the next shorter one that is. After each step a quick packing tries to finish.

    Parameters
    ----------
    lengths
        Length of each type, falling, shape (K,), in [1, capacity].
    demand
        Items of each type, shape (K,).
    capacity
        Token cap of a cell.
    target
        Cells wanted.
    relax
        For a demand that is left and the cells that are left: a lower bound, patterns, shape (patterns, K), and how often a relaxation
        uses each; ``None`` to give up.
    rng
        Disturbs the order of patterns by up to a tenth.

    Returns
    -------
    IntArray | None
        Items of each type in every cell, shape (cells, K); ``None`` if the dive ended above the target.

    References
    ----------
    .. [1] Sadykov, R., F. Vanderbeck, A. Pessoa, I. Tahiri and E. Uchoa (2019). Primal heuristics for branch and price: The assets of
       diving methods. *INFORMS Journal on Computing* 31(2): 251-267. https://doi.org/10.1287/ijoc.2018.0822
    """
    left = demand.copy()
    fixed: list[IntArray] = []
    while True:
        relaxed = relax(left, target - len(fixed))
        if relaxed is None or len(fixed) + relaxed[0] > target:
            return None
        _, patterns, amounts = relaxed
        for pattern in _chosen(patterns, amounts, rng):
            used = _fitted(pattern, left)
            if used.any() and len(fixed) < target:
                left -= used
                fixed.append(used)
        if not left.any():
            return np.array(fixed)
        if len(fixed) == target:
            return None
        rest = np.repeat(lengths, left)
        packed = pack(rest, capacity, target - len(fixed), QUICK_TRIALS)
        if len(fixed) + int(packed.max()) < target:
            kind = np.repeat(np.arange(len(lengths)), left)
            for c in range(int(packed.max()) + 1):
                fixed.append(np.bincount(kind[packed == c], minlength=len(lengths)))
            return np.array(fixed)


def _chosen(patterns: IntArray, amounts: NDArray[np.float64], rng: np.random.Generator) -> list[IntArray]:
    """Patterns to fix, as often as each is used whole, or the most used ones where none is."""
    whole = np.floor(amounts + 1e-6).astype(np.int64)
    chosen = [patterns[j] for j in np.flatnonzero(whole) for _ in range(int(whole[j]))]
    part = (amounts - whole) * (1 - 0.1 * rng.random(len(amounts)))
    more = max(0 if chosen else 1, int(FIXED_SHARE * amounts.sum()) - len(chosen))
    return chosen + [patterns[j] for j in np.argsort(-part, kind="stable")[:more] if part[j] > 0]


def _fitted(pattern: IntArray, left: IntArray) -> IntArray:
    """Items that a pattern packs of those that are left: its own, or for each missing one the next shorter."""
    used = np.minimum(pattern, left)
    for k in np.flatnonzero(pattern > left).tolist():
        for _ in range(int(pattern[k] - used[k])):
            shorter = k + np.flatnonzero((left - used)[k:])
            if not len(shorter):
                break
            used[shorter[0]] += 1
    return used
