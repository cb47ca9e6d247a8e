"""Heaviest patterns of items that fit in a cell, by the exact integer knapsack; many different ones from one table."""

import numpy as np

from routepack.compiled import compiled
from routepack.window import IntArray

MAX_TABLE = 1 << 28


def table_bytes(lengths: IntArray, demand: IntArray, capacity: int) -> int:
    """Memory that `heaviest_patterns` needs at most."""
    return int(np.ceil(np.log2(np.minimum(demand, capacity // lengths) + 1)).sum()) * (capacity + 1)


def heaviest_patterns(lengths: IntArray, weights: IntArray, demand: IntArray, capacity: int, wanted: int) -> tuple[int, IntArray]:
    """
    Find the weight of the heaviest pattern, and heavy patterns that differ in their shortest item.

    Items are split into chunks of 1, 2, 4, ... of a type, longest types first; the table tells, for each chunk and load, whether the best
    set of the chunks so far takes it. Every chunk that may be the last one of a pattern gives one candidate.

    Parameters
    ----------
    lengths
        Length of each type, falling, shape (K,), in [1, capacity].
    weights
        Weight of an item of each type, shape (K,), in [0, 2**31).
    demand
        Items of each type, shape (K,), at least 0.
    capacity
        Room of a cell.
    wanted
        Patterns wanted, at most.

    Returns
    -------
    tuple[int, IntArray]
        The largest weight, and patterns by falling weight as items of each type, shape (patterns, K).
    """
    types, sizes = chunks(weights, np.minimum(demand, capacity // lengths))
    if not len(types):
        return 0, np.zeros((0, len(lengths)), dtype=np.int64)
    tokens = lengths[types] * sizes
    ends, taken = _fill_table(tokens, weights[types] * sizes, capacity)
    last = np.argsort(-ends, kind="stable")[:wanted]
    patterns = _read_table(taken, tokens, types, sizes, last, capacity, len(lengths))
    return int(ends.max()), np.unique(patterns, axis=0)[::-1] if len(last) > 1 else patterns


def chunks(weights: IntArray, limits: IntArray) -> tuple[IntArray, IntArray]:
    """Split each type's items into chunks of 1, 2, 4, ... and the rest: type and size of each chunk; weightless types have none."""
    types: list[int] = []
    sizes: list[int] = []
    for k in np.flatnonzero((weights > 0) & (limits > 0)).tolist():
        left, size = int(limits[k]), 1
        while left > 0:
            types.append(k)
            sizes.append(min(size, left))
            left -= size
            size *= 2
    return np.array(types, dtype=np.int64), np.array(sizes, dtype=np.int64)


@compiled
def _fill_table(tokens: IntArray, weights: IntArray, capacity: int) -> tuple[IntArray, np.ndarray]:
    """Largest weight of a pattern whose last chunk is each one, and whether the best set of the first chunks takes each, by load."""
    best = np.zeros(capacity + 1, dtype=np.int64)
    after = np.zeros(capacity + 1, dtype=np.int64)
    taken = np.zeros((len(tokens), capacity + 1), dtype=np.uint8)
    ends = np.zeros(len(tokens), dtype=np.int64)
    for k in range(len(tokens)):
        t, w = tokens[k], weights[k]
        ends[k] = best[capacity - t] + w
        row = taken[k]
        for load in range(t):
            after[load] = best[load]
        for load in range(t, capacity + 1):
            with_it = best[load - t] + w
            row[load] = with_it > best[load]
            after[load] = max(best[load], with_it)
        best, after = after, best
    return ends, taken


@compiled
def _read_table(
    taken: np.ndarray, tokens: IntArray, types: IntArray, sizes: IntArray, last: IntArray, capacity: int, num_types: int
) -> IntArray:
    patterns = np.zeros((len(last), num_types), dtype=np.int64)
    for n in range(len(last)):
        load, k = capacity, last[n]
        patterns[n, types[k]] += sizes[k]
        load -= tokens[k]
        for j in range(k - 1, -1, -1):
            if taken[j, load]:
                patterns[n, types[j]] += sizes[j]
                load -= tokens[j]
    return patterns
