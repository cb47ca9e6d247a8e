"""Which EP rank holds which expert, from the loads of the whole window: identity, cardinality LPT, LPT with swaps."""

from collections.abc import Callable

import numpy as np

from routepack.certificate import placement_bounds
from routepack.compiled import compiled
from routepack.errors import InvalidInstance
from routepack.topology import positive
from routepack.window import IntArray, integer_array

MAX_LOAD = 1 << 50
KICK_LIMIT = 64
EVALUATION_LIMIT = 200_000
CLOSE = 1 << 13


def checked_loads(loads: IntArray, num_ranks: int) -> IntArray:
    """
    Return loads, shape (L, E), as 64-bit integers that P ranks can share.

    Raises
    ------
    InvalidInstance
        A load is negative, fractional or above 2**50, or P does not divide E.
    """
    loads = integer_array("loads", loads, np.int64, 2, 0, MAX_LOAD)
    ranks, experts = positive("num_ranks", num_ranks), loads.shape[1]
    if experts == 0 or experts % ranks:
        raise InvalidInstance(
            f"loads has {experts} experts, which {ranks} EP ranks do not divide; every rank holds E/P experts, choose P among the divisors."
        )
    return loads


def identity(num_layers: int, num_experts: int, num_ranks: int) -> IntArray:
    """
    Contiguous blocks of E/P experts, as a trainer without placement has them.

    Parameters
    ----------
    num_layers, num_experts, num_ranks
        MoE layers L, experts E of a layer, EP ranks P.

    Returns
    -------
    IntArray
        EP rank of each expert, shape (L, E).

    Raises
    ------
    InvalidInstance
        P does not divide E.
    """
    checked_loads(np.zeros((1, num_experts), dtype=np.int64), num_ranks)
    return np.tile(np.arange(num_experts, dtype=np.int64) // (num_experts // num_ranks), (num_layers, 1))


def rank_loads(placement: IntArray, loads: IntArray, num_ranks: int) -> IntArray:
    """
    Load of each EP rank, shape (L, P), in the unit of ``loads``.

    Parameters
    ----------
    placement
        EP rank of each expert, shape (L, E).
    loads
        Token-slots of each expert, shape (L, E).
    num_ranks
        EP ranks P.
    """
    total = np.zeros((loads.shape[0], num_ranks), dtype=np.int64)
    np.add.at(total, (np.arange(loads.shape[0])[:, None], placement), loads)
    return total


def lpt(loads: IntArray, num_ranks: int) -> IntArray:
    """
    Longest processing time first with E/P experts a rank: the heaviest expert left goes to the lightest rank that has room.

    Equal experts go in the order of their ids, equal ranks likewise. The rank loads are those of EPLB's packing without replicas [2]_.

    Parameters
    ----------
    loads
        Token-slots of each expert, shape (L, E).
    num_ranks
        EP ranks P, a divisor of E.

    Returns
    -------
    IntArray
        EP rank of each expert, shape (L, E).

    Raises
    ------
    InvalidInstance
        A load is no count, or P does not divide E.

    References
    ----------
    .. [1] Graham, R. L. (1969). Bounds on multiprocessing timing anomalies. *SIAM Journal on Applied Mathematics* 17(2): 416-429.
    .. [2] DeepSeek-AI (2024). DeepSeek-V3 technical report. arXiv:2412.19437.
    """
    loads = checked_loads(loads, num_ranks)
    placement = np.empty_like(loads)
    for layer, weights in enumerate(loads):
        order = np.argsort(-weights, kind="stable")
        placement[layer, order] = _cardinality_lpt(weights[order], num_ranks)
    return placement


def lpt_swap(loads: IntArray, num_ranks: int) -> IntArray:
    """
    Cardinality LPT, then swaps of two experts until the largest rank load of a layer cannot be lowered by one.

    Each swap takes an expert of the heaviest rank and a lighter one of another rank such that the heavier of the two ranks ends as light
    as possible. A layer that stops above its bound is kicked by random swaps and descends again, within a fixed effort. A layer whose
    contiguous blocks are better starts from these too. So the result is never worse than LPT nor than `identity`, in any layer.

    Parameters
    ----------
    loads
        Token-slots of each expert, shape (L, E).
    num_ranks
        EP ranks P, a divisor of E.

    Returns
    -------
    IntArray
        EP rank of each expert, shape (L, E).

    Raises
    ------
    InvalidInstance
        A load is no count, or P does not divide E.
    """
    loads = checked_loads(loads, num_ranks)
    placement = np.empty_like(loads)
    blocks = identity(1, loads.shape[1], num_ranks)[0]
    for layer, weights in enumerate(loads):
        order = np.argsort(-weights, kind="stable")
        down = weights[order] // max(1, int(np.gcd.reduce(weights)))  # a common factor of all loads cannot change the plan
        bound = int(placement_bounds(down[None], num_ranks)[0])
        start = _cardinality_lpt(down, num_ranks)
        ranks, largest = _search(down, start, num_ranks, bound, KICK_LIMIT, EVALUATION_LIMIT)
        if np.bincount(blocks[order], down, num_ranks).max() < largest:
            ranks, _ = _search(down, blocks[order], num_ranks, bound, KICK_LIMIT, EVALUATION_LIMIT)
        placement[layer, order] = ranks
    return placement


def _identity_for(loads: IntArray, num_ranks: int) -> IntArray:
    """Contiguous blocks for loads of this shape, shape (L, E)."""
    layers, experts = checked_loads(loads, num_ranks).shape
    return identity(layers, experts, num_ranks)


PLACEMENTS: dict[str, Callable[[IntArray, int], IntArray]] = {"identity": _identity_for, "lpt": lpt, "lpt-swap": lpt_swap}


@compiled
def _cardinality_lpt(down: IntArray, num_ranks: int) -> IntArray:
    """Give experts in the order of their falling loads, shape (E,), to the lightest rank that has room."""
    held = len(down) // num_ranks
    ranks = np.empty(len(down), dtype=np.int64)
    total = np.zeros(num_ranks, dtype=np.int64)
    count = np.zeros(num_ranks, dtype=np.int64)
    for e in range(len(down)):
        best = -1
        for p in range(num_ranks):
            if count[p] < held and (best < 0 or total[p] < total[best]):
                best = p
        ranks[e] = best
        total[best] += down[e]
        count[best] += 1
    return ranks


@compiled
def best_swap(weights: IntArray, members: IntArray, total: IntArray, heavy: int) -> tuple[int, int, int, int]:
    """
    Swap of an expert of one rank that leaves the heavier of the two ranks lightest.

    Parameters
    ----------
    weights
        Load of each expert, shape (E,).
    members
        Experts of each rank, shape (P, k).
    total
        Load of each rank, shape (P,).
    heavy
        The rank that must become lighter.

    Returns
    -------
    tuple
        Load of the heavier of the two ranks after the swap, the place in ``members[heavy]``, the other rank, the place there; the first is
        ``total[heavy]`` where no swap helps.
    """
    held = members.shape[1]
    best, best_i, best_q, best_j = total[heavy], -1, -1, -1
    for q in range(len(total)):
        room = total[heavy] - total[q]
        if total[heavy] - room // 2 >= best:
            continue
        for i in range(held):
            mine = weights[members[heavy, i]]
            for j in range(held):
                shift = mine - weights[members[q, j]]
                after = max(total[heavy] - shift, total[q] + shift)
                if after < best:
                    best, best_i, best_q, best_j = after, i, q, j
    return best, best_i, best_q, best_j


@compiled
def apply_swap(weights: IntArray, members: IntArray, total: IntArray, p: int, i: int, q: int, j: int) -> None:
    """Exchange the i-th expert of rank p for the j-th of rank q."""
    a, b = members[p, i], members[q, j]
    members[p, i], members[q, j] = b, a
    total[p] += weights[b] - weights[a]
    total[q] += weights[a] - weights[b]


@compiled
def members_of_ranks(ranks: IntArray, num_ranks: int) -> IntArray:
    """Experts of each rank in rising order, shape (P, k)."""
    members = np.empty((num_ranks, len(ranks) // num_ranks), dtype=np.int64)
    count = np.zeros(num_ranks, dtype=np.int64)
    for e in range(len(ranks)):
        members[ranks[e], count[ranks[e]]] = e
        count[ranks[e]] += 1
    return members


@compiled
def _copy(members: IntArray, total: IntArray, to_members: IntArray, to_total: IntArray) -> None:
    """Copy experts and loads of all ranks; element by element, which compiles ten times faster than slices."""
    for p in range(len(total)):
        to_total[p] = total[p]
        for i in range(members.shape[1]):
            to_members[p, i] = members[p, i]


@compiled
def _search(down: IntArray, start: IntArray, num_ranks: int, bound: int, kicks: int, evaluations: int) -> tuple[IntArray, int]:
    """Descend by swaps; above the bound kick, descend and keep what is not worse. Return ranks, shape (E,), and the largest load."""
    members = members_of_ranks(start, num_ranks)
    held = members.shape[1]
    total = np.zeros(num_ranks, dtype=np.int64)
    for e in range(len(down)):
        total[start[e]] += down[e]
    kept, kept_total = members.copy(), total.copy()
    largest = total.max()
    random = 1
    kick = 0
    while True:
        while True:
            heavy = np.argmax(total)
            after, i, q, j = best_swap(down, members, total, heavy)
            evaluations -= len(down) * held
            if after >= total[heavy]:
                break
            apply_swap(down, members, total, heavy, i, q, j)
        if total.max() <= largest:
            largest = total.max()
            _copy(members, total, kept, kept_total)
        else:
            _copy(kept, kept_total, members, total)
        if (largest - bound) * CLOSE <= bound or held == 1 or num_ranks == 1 or kick == kicks or evaluations < 0:
            break
        kick += 1
        p = np.argmax(total)
        for _ in range(2):
            random = (random * 1103515245 + 12345) & 0x7FFFFFFF
            q = (p + 1 + (random >> 8) % (num_ranks - 1)) % num_ranks
            random = (random * 1103515245 + 12345) & 0x7FFFFFFF
            i, j = (random >> 8) % held, (random >> 16) % held
            apply_swap(down, members, total, p, i, q, j)
            p = q
    ranks = np.empty(len(down), dtype=np.int64)
    for rank in range(num_ranks):
        for i in range(held):
            ranks[kept[rank, i]] = rank
    return ranks, largest
