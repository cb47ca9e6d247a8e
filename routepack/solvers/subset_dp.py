"""Dynamic programming over subsets of units [1]_: the cheapest way to cut a set into so many priced pieces, under three components.

References
----------
.. [1] Held, M., and R. M. Karp (1962). A dynamic programming approach to sequencing problems. *Journal of the SIAM* 10(1): 196-210.
   DOI 10.1137/0110015.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import numpy as np

from routepack.budget import Budget
from routepack.compiled import compiled
from routepack.row_patterns import Flag
from routepack.row_shard_certificate import IMPOSSIBLE
from routepack.window import IntArray

POLL_SECONDS = 0.02
T = TypeVar("T")


class Stopped(Exception):
    """The budget ended or the user interrupted."""


def watched(budget: Budget, work: Callable[[Flag], T]) -> T:
    """
    Run compiled work beside a watch that raises its flag at the end of the budget and on interruption.

    Raises
    ------
    Stopped
        It was raised; what the work returned means nothing.
    """
    stop = np.zeros(1, dtype=np.bool_)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work, stop)
        while not wait([future], POLL_SECONDS).done:
            stop[0] |= budget.used(0) >= 1
        found = future.result()
    if stop[0]:
        raise Stopped
    return found


def table(size: int, sets: IntArray, *components: IntArray) -> IntArray:
    """Three components of some sets, shape (size, 3); ``IMPOSSIBLE`` for all other sets."""
    values = np.full((size, 3), IMPOSSIBLE, dtype=np.int64)
    for k, component in enumerate(components):
        values[sets, k] = component
    return values


def chain(first: IntArray, sets_of: Callable[[int], IntArray], pieces: int, add: bool, stop: Flag) -> list[IntArray]:
    """
    Lexicographic minima over all ways to cut a set into 1, 2, ... pieces.

    Parameters
    ----------
    first
        Components of each piece, shape (sets, 3): the first is added or maximised over pieces, the second added, the third maximised.
    sets_of
        Masks to be cut into so many pieces.
    pieces
        Largest number of pieces.
    add
        Whether the first component is added.
    stop
        Flag that ends the work, shape (1,).

    Returns
    -------
    list[IntArray]
        The table for each number of pieces.
    """
    tables = [first]
    for k in range(2, pieces + 1):
        tables.append(join(first, tables[-1], sets_of(k), add, stop))
    return tables


def pieces_of(tables: list[IntArray], whole: int, add: bool) -> list[int]:
    """Masks of the pieces that give a set its components in the last of the tables."""
    found = []
    for k in range(len(tables) - 1, 0, -1):
        piece = int(cheapest(tables[0], tables[k - 1], whole, add)[3])
        found.append(piece)
        whole ^= piece
    return [*found, whole]


@compiled
def cheapest(first: IntArray, rest: IntArray, whole: int, add: bool) -> tuple[int, int, int, int]:
    """Components of a set cut in one piece, which holds its lowest unit, and a rest; and that piece."""
    low = whole & -whole
    others = whole ^ low
    a = b = c = IMPOSSIBLE
    chosen = 0
    sub = others
    while True:
        piece = sub | low
        left = whole ^ piece
        x, y = first[piece, 0], rest[left, 0]
        if x < IMPOSSIBLE and y < IMPOSSIBLE:
            value = x + y if add else max(x, y)
            if value <= a:
                second, third = first[piece, 1] + rest[left, 1], max(first[piece, 2], rest[left, 2])
                if value < a or second < b or (second == b and third < c):
                    a, b, c, chosen = value, second, third, piece
        if sub == 0:
            break
        sub = (sub - 1) & others
    return a, b, c, chosen


@compiled
def join(first: IntArray, rest: IntArray, sets: IntArray, add: bool, stop: Flag) -> IntArray:
    """Components of sets cut in one piece and a rest, shape (all sets, 3)."""
    values = np.full(first.shape, IMPOSSIBLE, dtype=np.int64)
    for whole in sets:
        a, b, c, _ = cheapest(first, rest, whole, add)
        values[whole, 0], values[whole, 1], values[whole, 2] = a, b, c
        if stop[0]:
            break
    return values
