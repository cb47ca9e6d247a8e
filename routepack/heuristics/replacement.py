"""Re-placement: swap experts for the rows that are laid out, not for the sum of the window."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from routepack.compiled import compiled
from routepack.errors import InvalidInstance
from routepack.heuristics.placement import members_of_ranks
from routepack.instance import placement_fault
from routepack.window import IntArray

PASS_LIMIT = 16
KICK_SWAPS = 3
WEIGHT_LEVELS = 1 << 20
MAX_COST = 1 << 61


def replace_for_rows(
    demand_of_row_shard: IntArray, weights: NDArray[np.float64], placement: IntArray, num_ranks: int, threads: int = 1, kicks: int = 0
) -> IntArray:
    """
    Swap experts between EP ranks to lower the weighted expert cost of given row-shards.

    Each layer minimises ``sum_h weights[h] * max_p W[h, p]`` by itself. For each pair of ranks, those that lead most first, the best
    swap of one expert of each is made if it gains, until a pass over all pairs gains nothing. A pair of ranks whose loads would gain
    nothing even if they were split in halves is skipped. Each kick makes a few random swaps, descends again and is kept if it costs no
    more; it retries only the ranks that it touched. The result does not depend on ``threads``.

    Parameters
    ----------
    demand_of_row_shard
        Token-slots of each row-shard, shape (H, L, E).
    weights
        How much a tick in each row-shard counts, shape (H,), finite and at least 0.
    placement
        EP rank of each expert now, shape (L, E).
    num_ranks
        EP ranks P.
    threads
        Threads that share the layers.
    kicks
        Perturbations of each layer after its descent.

    Returns
    -------
    IntArray
        EP rank of each expert, shape (L, E), never with a larger weighted cost in any layer.

    Raises
    ------
    InvalidInstance
        Weights or placement do not fit the demand.
    """
    _check(demand_of_row_shard, weights, placement, num_ranks)
    replaced = np.array(placement, dtype=np.int64)
    counted = np.flatnonzero(weights)
    if not len(counted):
        return replaced
    counts = weights[counted].astype(np.float64)
    total = int(demand_of_row_shard.sum(axis=(0, 2), dtype=np.int64).max())
    levels = min(WEIGHT_LEVELS, MAX_COST // max(1, total))
    scale = np.maximum(1, np.rint(counts / counts.max() * levels)).astype(np.int64)  # integer sums are exact in any order

    def descend(chunk: IntArray) -> None:
        layers = (int(chunk[0]), int(chunk[-1]) + 1)
        _descend_layers(demand_of_row_shard, counted, counts, scale, replaced, num_ranks, layers, kicks)

    chunks = [chunk for chunk in np.array_split(np.arange(len(replaced)), threads) if len(chunk)]
    with ThreadPoolExecutor(len(chunks)) as pool:
        list(pool.map(descend, chunks))
    return replaced


def _check(demand: IntArray, weights: NDArray[np.float64], placement: IntArray, num_ranks: int) -> None:
    """Refuse weights or a placement that do not fit demand, shape (H, L, E)."""
    shards, layers, experts = demand.shape
    fault = placement_fault("placement", placement, layers, experts, num_ranks)
    if fault:
        raise InvalidInstance(fault)
    if weights.shape != (shards,) or not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise InvalidInstance(f"weights has shape {weights.shape} or an entry below 0; give {shards} finite weights of at least 0.")


@compiled
def _descend_layers(
    demand: IntArray,
    counted: IntArray,
    weights: NDArray[np.float64],
    scale: IntArray,
    placement: IntArray,
    num_ranks: int,
    layers: tuple[int, int],
    kicks: int,
) -> None:
    """Improve the layers from ``layers[0]`` to before ``layers[1]`` of a placement, shape (L, E), in place."""
    experts = demand.shape[2]
    weighted = np.empty((experts, len(counted)), dtype=np.int64)
    for layer in range(layers[0], layers[1]):
        for h in range(len(counted)):
            for e in range(experts):
                weighted[e, h] = demand[counted[h], layer, e] * scale[h]
        members = members_of_ranks(placement[layer], num_ranks)
        load = np.zeros((num_ranks, len(counted)), dtype=np.int64)
        for e in range(experts):
            for h in range(len(counted)):
                load[placement[layer, e], h] += weighted[e, h]
        peaks = np.zeros((3, len(counted)), dtype=np.int64)
        peak_ranks = np.zeros((3, len(counted)), dtype=np.int64)
        _find_peaks(load, 0, 0, peaks, peak_ranks)
        before = _weighted_cost(peaks, weights, scale)
        _descend(weighted, members, load, peaks, peak_ranks, np.ones(num_ranks, dtype=np.int64))
        _kick(weighted, members, load, peaks, peak_ranks, kicks)
        if _weighted_cost(peaks, weights, scale) < before:
            for p in range(num_ranks):
                for i in range(members.shape[1]):
                    placement[layer, members[p, i]] = p


@compiled
def _weighted_cost(peaks: IntArray, weights: NDArray[np.float64], scale: IntArray) -> float:
    """Weighted expert cost of a layer from its scaled peaks, shape (3, H)."""
    cost = 0.0
    for h in range(len(weights)):
        cost += weights[h] * (peaks[0, h] // scale[h])
    return cost


@compiled
def _copy(source: IntArray, target: IntArray) -> None:
    """Copy a matrix element by element, which compiles ten times faster than a slice."""
    for p in range(source.shape[0]):
        for h in range(source.shape[1]):
            target[p, h] = source[p, h]


@compiled
def _kick(weighted: IntArray, members: IntArray, load: IntArray, peaks: IntArray, peak_ranks: IntArray, kicks: int) -> None:
    """Make random swaps, descend again and keep what costs no more, so many times."""
    num_ranks, held = members.shape
    kept_members, kept_load, kept_peaks, kept_ranks = members.copy(), load.copy(), peaks.copy(), peak_ranks.copy()
    best = peaks[0].sum()
    random = 1
    for _ in range(kicks):
        changed = np.zeros(num_ranks, dtype=np.int64)
        for _ in range(KICK_SWAPS):
            random = (random * 1103515245 + 12345) & 0x7FFFFFFF
            p, i = (random >> 8) % num_ranks, (random >> 16) % held
            random = (random * 1103515245 + 12345) & 0x7FFFFFFF
            q, j = (random >> 8) % num_ranks, (random >> 16) % held
            if p != q:
                _swap(weighted, members, load, p, i, q, j)
                _find_peaks(load, p, q, peaks, peak_ranks)
                changed[p], changed[q] = 1, 1
        _descend(weighted, members, load, peaks, peak_ranks, changed)
        cost = peaks[0].sum()
        if cost <= best:
            best = cost
            _copy(members, kept_members)
            _copy(load, kept_load)
            _copy(peaks, kept_peaks)
            _copy(peak_ranks, kept_ranks)
        else:
            _copy(kept_members, members)
            _copy(kept_load, load)
            _copy(kept_peaks, peaks)
            _copy(kept_ranks, peak_ranks)


@compiled
def _descend(weighted: IntArray, members: IntArray, load: IntArray, peaks: IntArray, peak_ranks: IntArray, changed: IntArray) -> None:
    """
    Swap until a pass over all pairs of ranks gains nothing.

    ``members`` (P, k), ``load`` (P, H), ``peaks`` and ``peak_ranks`` (3, H) change in place. A pair is tried when one of its ranks has
    changed, which is 1 in ``changed`` (P,) at first.
    """
    num_ranks = len(load)
    other = np.empty(load.shape[1], dtype=np.int64)
    swaps = 1
    looked = np.zeros((num_ranks, num_ranks), dtype=np.int64)  # swaps made when the pair was last tried
    for _ in range(PASS_LIMIT):
        before = swaps
        lead = np.zeros(num_ranks, dtype=np.int64)
        for h in range(load.shape[1]):
            lead[peak_ranks[0, h]] += 1 + peaks[0, h] - peaks[1, h]
        order = _by_lead(lead)
        for first in range(num_ranks):
            for second in range(num_ranks - 1, first, -1):
                p, q = order[first], order[second]
                if looked[p, q] >= max(changed[p], changed[q]):
                    continue
                now = _prepare_pair(load, peaks, peak_ranks, p, q, other)
                if now >= 0:
                    i, j, after = _best_of_pair(weighted, members[p], members[q], load[p], load[q], other, now)
                    if after < now:
                        _swap(weighted, members, load, p, i, q, j)
                        _find_peaks(load, p, q, peaks, peak_ranks)
                        swaps += 1
                        changed[p], changed[q] = swaps, swaps
                        continue
                looked[p, q], looked[q, p] = swaps, swaps
        if swaps == before:
            break


@compiled
def _by_lead(lead: IntArray) -> IntArray:
    """Ranks by falling lead, equal ones by number: an insertion sort of a few ranks, which compiles faster than numpy's."""
    order = np.arange(len(lead))
    for n in range(1, len(order)):
        p, k = order[n], n
        while k > 0 and lead[order[k - 1]] < lead[p]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = p
    return order


@compiled
def _swap(weighted: IntArray, members: IntArray, load: IntArray, p: int, i: int, q: int, j: int) -> None:
    """Exchange the i-th expert of rank p for the j-th of rank q."""
    a, b = members[p, i], members[q, j]
    members[p, i], members[q, j] = b, a
    for h in range(load.shape[1]):
        load[p, h] += weighted[b, h] - weighted[a, h]
        load[q, h] += weighted[a, h] - weighted[b, h]


@compiled
def _find_peaks(load: IntArray, p: int, q: int, peaks: IntArray, peak_ranks: IntArray) -> None:
    """Find the three largest ranks of each row-shard anew where a change of ranks p and q can have touched them."""
    for h in range(load.shape[1]):
        touched = load[p, h] >= peaks[2, h] or load[q, h] >= peaks[2, h]
        for n in range(3):
            touched = touched or peak_ranks[n, h] == p or peak_ranks[n, h] == q
        if not touched:
            continue
        for n in range(3):
            peaks[n, h], peak_ranks[n, h] = -1, -1
        for r in range(len(load)):
            value = load[r, h]
            if value <= peaks[2, h]:
                continue
            n = 2
            while n > 0 and value > peaks[n - 1, h]:
                peaks[n, h], peak_ranks[n, h] = peaks[n - 1, h], peak_ranks[n - 1, h]
                n -= 1
            peaks[n, h], peak_ranks[n, h] = value, r


@compiled
def _prepare_pair(load: IntArray, peaks: IntArray, peak_ranks: IntArray, p: int, q: int, other: IntArray) -> int:
    """Fill in the largest load outside ranks p and q of each row-shard; return the cost now, or -1 if no exchange can lower it."""
    now, least = 0, 0
    for h in range(len(other)):
        n = 0
        while n < 2 and (peak_ranks[n, h] == p or peak_ranks[n, h] == q):
            n += 1
        other[h] = peaks[n, h]
        now += peaks[0, h]
        least += max(other[h], (load[p, h] + load[q, h] + 1) // 2)
    return now if least < now else -1


@compiled
def _best_of_pair(
    weighted: IntArray, mine: IntArray, yours: IntArray, load_p: IntArray, load_q: IntArray, other: IntArray, now: int
) -> tuple[int, int, int]:
    """Best swap of an expert of ``mine`` for one of ``yours``, each shape (k,): their places and the cost after it."""
    best_i, best_j, best = 0, 0, now
    without, with_mine = np.empty_like(other), np.empty_like(other)
    for i in range(len(mine)):
        for h in range(len(other)):
            without[h] = load_p[h] - weighted[mine[i], h]
            with_mine[h] = load_q[h] + weighted[mine[i], h]
        for j in range(len(yours)):
            after = _cost_after(without, with_mine, other, weighted, yours[j])
            if after < best:
                best_i, best_j, best = i, j, after
    return best_i, best_j, best


@compiled
def _cost_after(without: IntArray, with_mine: IntArray, other: IntArray, weighted: IntArray, e: int) -> int:
    """Cost when expert e leaves the second rank for the first; a plain sum over row-shards, so that it runs in vector registers."""
    after = 0
    for h in range(len(other)):
        load = weighted[e, h]
        after += max(other[h], max(without[h] + load, with_mine[h] - load))
    return after
