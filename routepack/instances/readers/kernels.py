"""The loops that every routed token goes through, compiled: a vectorised look for anything odd, then a plain count or a careful one."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from routepack.compiled import compiled

DONE, OUT_OF_RANGE, PARTLY_UNKNOWN = range(3)
STATUS, ROW, LAYER, VALUE, KNOWN, UNWRITTEN, REPEATED = range(7)  # places in the facts of `count_careful`


@compiled
def all_below(ids: NDArray[Any], limit: int) -> bool:
    """Whether all ids, unsigned and flat, are below a limit; an id of minus one seen as unsigned is not."""
    top = ids[0]
    for n in range(ids.size):
        top = max(top, ids[n])
    return bool(top < limit)


@compiled
def repeats_in_words(words: NDArray[np.uint64], bits: int) -> bool:
    """
    Whether a token names an expert twice; 64 bits of ids at a time [1]_.

    Two words hold a common id in lanes that are s apart if their exclusive or, one turned by s lanes, has a lane of zeros.

    Parameters
    ----------
    words
        The k ids of a token and layer as whole words, shape (words, tokens * layers): the long axis last, for the sake of speed.
    bits
        Bits of an id: 8, 16, 32 or 64.

    References
    ----------
    .. [1] Warren, H. S. (2012). Hacker's Delight, second edition, section 6-1: find first 0-byte. Addison-Wesley.
    """
    lanes = 64 // bits
    low = np.uint64(0)
    for lane in range(lanes):
        low |= np.uint64(1) << np.uint64(lane * bits)
    high = low << np.uint64(bits - 1)
    found = np.uint64(0)
    for p in range(words.shape[0]):
        for q in range(p, words.shape[0]):
            for turn in range(1 if p == q else 0, lanes // 2 + 1 if p == q else lanes):
                left, right = np.uint64(turn * bits), np.uint64((64 - turn * bits) % 64)
                for n in range(words.shape[1]):
                    other = words[q, n]
                    apart = words[p, n] ^ ((other << left) | (other >> right))
                    found |= (apart - low) & ~apart & high
    return bool(found != 0)


@compiled
def repeats(ids: NDArray[Any], top_k: int) -> bool:
    """Whether a token names an expert twice; for ids, flat, that do not fill whole words."""
    found = False
    for start in range(0, ids.size, top_k):
        for c in range(start, start + top_k):
            for b in range(start, c):
                found |= ids[b] == ids[c]
    return bool(found)


@compiled
def repeated_rows(routes: NDArray[Any], begin: int, end: int) -> int:
    """Count the rows from begin to end, shape (rows, L, k), that equal the row before."""
    alike = 0
    for r in range(max(begin, 1), end):
        j = 0
        equal = True
        while equal and j < routes.shape[1]:
            for c in range(routes.shape[2]):
                equal &= routes[r, j, c] == routes[r - 1, j, c]
            j += 1
        alike += equal
    return alike


@compiled
def count_plain(routes: NDArray[Any], counts: NDArray[np.int32]) -> None:
    """
    Add every choice of valid routes to the counts.

    Parameters
    ----------
    routes
        Unsigned ids below E, no two alike in a token and layer, shape (rows, L, k).
    counts
        Shape (L, E).
    """
    rows, layers, top_k = routes.shape
    for r in range(rows):  # neighbouring additions go to different layers, so that none waits for the one before
        for j in range(layers):
            for c in range(top_k):
                counts[j, np.uint64(routes[r, j, c])] += np.int32(1)


@compiled
def count_careful(routes: NDArray[Any], counts: NDArray[np.int32], last: NDArray[np.int64], facts: NDArray[np.int64]) -> None:
    """
    Add the choices of any routes to the counts: a row once for each expert that it names, an unknown row not at all.

    Parameters
    ----------
    routes
        Ids of any integer type, shape (rows, L, k). A row of minus one alone is unknown; so is a row of zeros alone where k > 1, which no
        router chooses.
    counts
        Shape (L, E).
    last
        Scratch, shape (L, E): the last row that named an expert.
    facts
        Receives status, and row, MoE layer and id of the first offender; then known rows, unknown rows of zeros, and choices repeated
        within a token; shape (7,).
    """
    rows, layers, top_k = routes.shape
    experts = counts.shape[1]
    facts[:] = 0
    last[:] = -1
    for r in range(rows):
        first = np.int64(routes[r, 0, 0])
        if first == -1 or (first == 0 and top_k > 1):
            alike = True
            for j in range(layers):
                for c in range(top_k):
                    alike &= np.int64(routes[r, j, c]) == first
            if alike:
                facts[UNWRITTEN] += first == 0
                continue
        facts[KNOWN] += 1
        for j in range(layers):
            for c in range(top_k):
                expert = np.int64(routes[r, j, c])
                if expert < 0 or expert >= experts:
                    facts[STATUS] = PARTLY_UNKNOWN if expert == -1 else OUT_OF_RANGE
                    facts[ROW], facts[LAYER], facts[VALUE] = r, j, expert
                    return
                if last[j, expert] == r:
                    facts[REPEATED] += 1
                else:
                    last[j, expert] = r
                    counts[j, expert] += 1
