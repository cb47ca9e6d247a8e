"""New placements that move few experts away from the current one."""

import math

import numpy as np

from routepack.certificate import placement_bounds
from routepack.compiled import compiled
from routepack.errors import InvalidInstance
from routepack.heuristics.placement import apply_swap, best_swap, checked_loads, lpt_swap, members_of_ranks, rank_loads
from routepack.instance import placement_fault
from routepack.window import IntArray

NO_LIMIT = 1 << 62


def moved_experts(current: IntArray, placement: IntArray) -> IntArray:
    """Experts of each layer that change rank, shape (L,)."""
    moved: IntArray = (current != placement).sum(axis=1)
    return moved


def relabel(placement: IntArray, current: IntArray, num_ranks: int) -> IntArray:
    """
    Rename the ranks of each layer so that as few experts as possible change rank.

    Which rank holds a set of experts does not matter to the cost, so the sets go to the ranks by an assignment problem on the overlap of
    new sets and old ones, solved exactly by shortest augmenting paths [1]_.

    Parameters
    ----------
    placement
        EP rank of each expert as found, shape (L, E).
    current
        EP rank of each expert now, shape (L, E).
    num_ranks
        EP ranks P.

    Returns
    -------
    IntArray
        The placement under its new names, shape (L, E).

    References
    ----------
    .. [1] Jonker, R., and A. Volgenant (1987). A shortest augmenting path algorithm for dense and sparse linear assignment problems.
       *Computing* 38: 325-340.
    """
    renamed = np.empty_like(placement)
    for layer, (found, now) in enumerate(zip(placement, current, strict=True)):
        overlap = np.zeros((num_ranks, num_ranks), dtype=np.int64)
        np.add.at(overlap, (found, now), 1)
        renamed[layer] = _assign(-overlap)[found]
    return renamed


def place_from(
    current: IntArray, loads: IntArray, num_ranks: int, *, max_moves: int | None = None, tolerance: float | None = None
) -> IntArray:
    """
    Improve the current placement by moving few experts.

    Each layer swaps, from the current placement, an expert of its heaviest rank for one of another rank as long as that helps. `lpt_swap`
    with renamed ranks replaces the outcome where it is better and allowed. A layer that cannot be improved stays as it is.

    Parameters
    ----------
    current
        EP rank of each expert now, shape (L, E).
    loads
        Token-slots of each expert in the window, shape (L, E).
    num_ranks
        EP ranks P, a divisor of E.
    max_moves
        Experts of a layer that may change rank; a swap moves two.
    tolerance
        A layer stops (or stays) once its largest rank load is within ``1 + tolerance`` of its bound.

    Returns
    -------
    IntArray
        EP rank of each expert, shape (L, E); no layer has a larger largest rank load than now.

    Raises
    ------
    InvalidInstance
        A load is no count, the current placement is none, or a limit is negative.
    """
    loads = checked_loads(loads, num_ranks)
    fault = placement_fault("current_placement", current, loads.shape[0], loads.shape[1], num_ranks)
    if fault:
        raise InvalidInstance(fault)
    if max_moves is not None and max_moves < 0:
        raise InvalidInstance(f"max_moves = {max_moves} is negative; give the experts of a layer that may change rank, 0 or more.")
    if tolerance is not None and not (math.isfinite(tolerance) and tolerance >= 0):
        raise InvalidInstance(f"tolerance = {tolerance} is not finite and non-negative; give a fraction of the bound, such as 0.02.")
    current = np.array(current, dtype=np.int64)
    allowed = loads.shape[1] if max_moves is None else max_moves
    bounds = placement_bounds(loads, num_ranks)
    targets = bounds if tolerance is None else np.array([math.floor(b * (1 + tolerance)) for b in bounds.tolist()], dtype=np.int64)
    swapped = current.copy()
    for layer, weights in enumerate(loads):
        _swap_within(weights, swapped[layer], current[layer], num_ranks, targets[layer], allowed)
    if max_moves == 0 or (rank_loads(swapped, loads, num_ranks).max(axis=1) <= targets).all():
        return swapped
    return _better(swapped, relabel(lpt_swap(loads, num_ranks), current, num_ranks), current, loads, num_ranks, targets, allowed)


def _better(
    swapped: IntArray, fresh: IntArray, current: IntArray, loads: IntArray, num_ranks: int, targets: IntArray, allowed: int
) -> IntArray:
    """Per layer the fresh placement where it is allowed and its largest load, if still over the target, is smaller; else the swapped."""
    reached = np.maximum(rank_loads(swapped, loads, num_ranks).max(axis=1), targets)
    possible = np.maximum(rank_loads(fresh, loads, num_ranks).max(axis=1), targets)
    take = (possible < reached) & (moved_experts(current, fresh) <= allowed)
    chosen: IntArray = np.where(take[:, None], fresh, swapped)
    return chosen


def transfer_rounds_needed(current: IntArray, placement: IntArray, num_ranks: int) -> IntArray:
    """Rounds that each layer's moves take, shape (L,), when a rank sends one expert and receives one a round: its busiest rank's moves."""
    moved = current != placement
    rounds: IntArray = np.zeros(len(current), dtype=np.int64)
    for layer, leaves in enumerate(moved):
        rounds[layer] = np.bincount(current[layer][leaves], minlength=num_ranks).max()
    return rounds


def keep_unless_worth(current: IntArray, placement: IntArray, saved: IntArray, num_ranks: int, move_cost: float) -> IntArray:
    """
    Keep the current placement of each layer whose moves cost more than they save.

    Parameters
    ----------
    current, placement
        EP rank of each expert now and as found, shape (L, E).
    saved
        Ticks of the window that each layer's moves save at most, shape (L,).
    num_ranks
        EP ranks P.
    move_cost
        Ticks that one expert takes from rank to rank; in a layer, ranks send one at a time, all at once.

    Returns
    -------
    IntArray
        EP rank of each expert, shape (L, E): per layer one of the two.

    Raises
    ------
    InvalidInstance
        The cost of a move is negative or not finite.
    """
    if not (math.isfinite(move_cost) and move_cost >= 0):
        raise InvalidInstance(f"move_cost = {move_cost} is not finite and non-negative; give the ticks that moving one expert takes.")
    worth = saved > move_cost * transfer_rounds_needed(current, placement, num_ranks)
    chosen: IntArray = np.where(worth[:, None], placement, current)
    return chosen


@compiled
def _swap_within(weights: IntArray, ranks: IntArray, current: IntArray, num_ranks: int, target: int, allowed: int) -> None:
    """Swap in one layer, ``ranks`` (E,) in place, until its largest load is at most the target, no swap helps or too many would move."""
    members = members_of_ranks(ranks, num_ranks)
    total = np.zeros(num_ranks, dtype=np.int64)
    for e in range(len(ranks)):
        total[ranks[e]] += weights[e]
    moved = 0
    while total.max() > target:
        heavy = np.argmax(total)
        after, i, q, j = best_swap(weights, members, total, heavy)
        if after >= total[heavy]:
            break
        a, b = members[heavy, i], members[q, j]
        moved += int(current[a] == heavy) + int(current[b] == q) - int(current[a] == q) - int(current[b] == heavy)  # left home, came home
        if moved > allowed:
            break
        apply_swap(weights, members, total, heavy, i, q, j)
        ranks[a], ranks[b] = q, heavy


@compiled
def _assign(cost: IntArray) -> IntArray:
    """Column of each row in an assignment of least total cost, shape (P,); ties go to the lowest column."""
    size = len(cost)
    row_of = np.full(size + 1, -1, dtype=np.int64)  # row of each column; column `size` starts each path
    row_price = np.zeros(size, dtype=np.int64)
    column_price = np.zeros(size + 1, dtype=np.int64)
    for row in range(size):
        row_of[size] = row
        column = size
        slack = np.full(size, NO_LIMIT, dtype=np.int64)
        previous = np.full(size, -1, dtype=np.int64)
        visited = np.zeros(size + 1, dtype=np.bool_)
        while row_of[column] >= 0:
            visited[column] = True
            r, nearest = row_of[column], -1
            for c in range(size):
                if visited[c]:
                    continue
                reduced = cost[r, c] - row_price[r] - column_price[c]
                if reduced < slack[c]:
                    slack[c], previous[c] = reduced, column
                if nearest < 0 or slack[c] < slack[nearest]:
                    nearest = c
            step = slack[nearest]
            for c in range(size + 1):
                if visited[c]:
                    row_price[row_of[c]] += step
                    column_price[c] -= step
                elif c < size:
                    slack[c] -= step
            column = nearest
        while column != size:
            row_of[column] = row_of[previous[column]]
            column = previous[column]
    column_of = np.empty(size, dtype=np.int64)
    for c in range(size):
        column_of[row_of[c]] = c
    return column_of
