"""What is proved, and the one checker: nothing is believed that is not recomputed here in integers."""

import math
from dataclasses import dataclass

import numpy as np

from routepack.errors import InvalidCertificate
from routepack.window import IntArray

MAX_WORK = 1 << 36
MAX_WEIGHT = 1 << 31


@dataclass(frozen=True, slots=True, eq=False)
class WeightCertificate:
    """
    Proof of a number of cells by integer weights.

    If every set of items that fits in a cell weighs at most ``limit``, then at least ``ceil(sum(weights) / limit)`` cells are needed: the
    cells of any packing share the total weight among them.

    Parameters
    ----------
    weights
        Weight of each item, shape (items,), each in [0, 2**31).
    limit
        Largest weight of a cell, at least 1.
    """

    weights: IntArray
    limit: int

    @property
    def cells(self) -> int:
        """Cells that are needed if the certificate checks."""
        return -(-int(self.weights.sum()) // self.limit)


def heaviest_fill(lengths: IntArray, weights: IntArray, capacity: int) -> int:
    """
    Weight of the heaviest set of items that fits, by an exact integer knapsack.

    Items over half the capacity exclude one another, so at most one of them joins a set of smaller ones; only the smaller ones need a
    table, which lists for each capacity the largest weight of a set of them.

    Parameters
    ----------
    lengths, weights
        Integers, shape (items,); lengths in [1, capacity].
    capacity
        Token cap.

    Raises
    ------
    InvalidCertificate
        The table would take more than 2**36 steps.
    """
    shrink = math.gcd(capacity, int(np.gcd.reduce(lengths)))
    lengths, capacity = lengths // shrink, capacity // shrink
    useful = weights > 0
    large = useful & (2 * lengths > capacity)
    small = np.flatnonzero(useful & ~large)
    if len(small) * capacity > MAX_WORK:
        raise InvalidCertificate(
            f"checking {len(small)} items under a cap of {capacity} takes more than 2**36 steps; "
            "coarsen lengths and cap to a common multiple."
        )
    best = np.zeros(capacity + 1, dtype=np.int64)
    filled = 0
    for i in small[np.argsort(lengths[small], kind="stable")].tolist():
        t, w = int(lengths[i]), int(weights[i])
        filled = min(capacity, filled + t)
        np.maximum(best[t : filled + 1], best[: filled + 1 - t] + w, out=best[t : filled + 1])
    best = np.maximum.accumulate(best)
    alone = int(best[capacity])
    if not large.any():
        return alone
    return max(alone, int((weights[large] + best[capacity - lengths[large]]).max()))


def check_weights(certificate: WeightCertificate, lengths: IntArray, capacity: int) -> int:
    """
    Check a weight certificate and return the number of cells that it proves.

    Parameters
    ----------
    certificate
        The claim; nothing in it is trusted.
    lengths
        Item lengths, shape (items,), in [1, capacity].
    capacity
        Token cap.

    Raises
    ------
    InvalidCertificate
        A weight is missing, out of range, or a fitting set is heavier than the limit.
    """
    weights, limit = certificate.weights, certificate.limit
    if weights.shape != lengths.shape:
        raise InvalidCertificate(f"certificate has {weights.size} weights for {lengths.size} items; one for each needed.")
    if limit < 1 or (weights < 0).any() or (weights >= MAX_WEIGHT).any():
        raise InvalidCertificate(
            f"certificate has limit {limit} or a weight outside [0, 2**31); give non-negative weights and a limit >= 1."
        )
    in_proportion = bool((weights * capacity <= limit * lengths).all()) if limit < MAX_WEIGHT else False
    if not in_proportion:
        heaviest = heaviest_fill(lengths, weights, capacity)
        if heaviest > limit:
            raise InvalidCertificate(f"certificate is wrong: a set of items that fits weighs {heaviest}, over its limit of {limit}.")
    return certificate.cells


@dataclass(frozen=True, slots=True)
class RowProof:
    """
    How many rows a plan has, and what is proved about fewer.

    Parameters
    ----------
    count
        Rows R of the plan.
    cells_lower_bound
        Cells that any plan needs, by the certificate.
    needed
        Rows that so many cells need.
    certificate
        The proof of ``cells_lower_bound``.
    """

    count: int
    cells_lower_bound: int
    needed: int
    certificate: WeightCertificate

    @property
    def status(self) -> str:
        """``proved`` when no plan has fewer rows, else ``best known, at least n``."""
        return "proved" if self.count == self.needed else f"best known, at least {self.needed}"


def placement_bounds(loads: IntArray, num_ranks: int) -> IntArray:
    """
    Lower bound on the largest rank load of each layer, over all placements with E/P experts a rank.

    With loads w sorted downwards and k = E/P: the mean; the heaviest expert with the k-1 lightest; and for j = 1..k-1 the pigeonhole term
    of the j P + 1 heaviest experts, j + 1 of which share a rank, so that it carries at least the lightest j + 1 of these and the
    k - j - 1 lightest of all.

    Parameters
    ----------
    loads
        Token-slots of each expert, shape (L, E).
    num_ranks
        EP ranks P, a divisor of E.

    Returns
    -------
    IntArray
        Shape (L,).
    """
    experts = loads.shape[1]
    held = experts // num_ranks
    down = -np.sort(-loads, axis=1)
    below = np.cumsum(np.concatenate([np.zeros_like(down[:, :1]), down], axis=1), axis=1)  # below[:, n] = sum of the n heaviest
    bound = -(-below[:, -1] // num_ranks)
    for j in range(held):
        last = j * num_ranks + 1
        together = below[:, last] - below[:, last - j - 1]
        lightest = below[:, experts] - below[:, experts - (held - j - 1)]
        bound = np.maximum(bound, together + lightest)
    return bound


def aggregation_bound(attention: IntArray, rank_peaks: IntArray, slots: int, shards: int, parts: int) -> int:
    """
    Lower bound on the slowest shard from sums over the window.

    Row-shard maxima are at least means, so attention over all shards is at least its total over D slots in each stage, expert cost at least
    the largest rank's total in each layer, and the slowest of G shards at least the mean.

    Parameters
    ----------
    attention
        Total attention ticks of each stage, shape (stages,).
    rank_peaks
        Largest rank total of each layer, or a lower bound on it, shape (L,).
    slots, shards, parts
        Slots D of a shard, planned shards G, physical shards that share a slot.
    """
    stages = int((-(-attention // slots)).sum())
    numerator = stages * parts + int(rank_peaks.sum())
    return -(-numerator // (parts * shards))
