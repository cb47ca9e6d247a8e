"""Lower bounds on the slowest shard and their recomputation in exact integers: nothing that a bound claims is believed."""

import itertools
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from routepack.certificate import placement_bounds
from routepack.cost import attention_ticks
from routepack.errors import InvalidCertificate
from routepack.instance import Instance
from routepack.plan import Placement
from routepack.window import IntArray

SCALE = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class ScoreData:
    """
    What score bounds need to know of a window, a number of rows and a placement, or any placement.

    Parameters
    ----------
    attention
        Attention ticks of each unit, summed over stages, shape (units,).
    attention_total
        Sum over stages of ``ceil(ticks of all units / D)``.
    lengths
        Tokens of the cap that each unit occupies, shape (units,).
    weights, weight_scale
        Token-slots; a row-shard's rank maxima, summed over layers, are at least the sum of ``weights / weight_scale`` over its units.
    expert_total
        Rank maxima of all row-shards, summed over layers, are at least this.
    token_cap, rows, shards, slots, parts
        Tokens C of a cell, rows R, planned shards G, slots D of a shard, physical shards that share a slot.
    """

    attention: IntArray
    attention_total: int
    lengths: IntArray
    weights: IntArray
    weight_scale: int
    expert_total: int
    token_cap: int
    rows: int
    shards: int
    slots: int
    parts: int

    @classmethod
    def of(cls, instance: Instance, placement: Placement | None, num_rows: int) -> Self:
        """
        Gather the data for a placement, or for any placement where none is given.

        Raises
        ------
        Infeasible
            A unit exceeds the cap and ``oversize`` is ``"error"``.
        """
        topology, demand = instance.topology, instance.window.demand
        totals = demand.sum(axis=0, dtype=np.int64)  # (layer, expert)
        if placement is None:
            weights = demand.sum(axis=(1, 2), dtype=np.int64)
            expert_total = int(placement_bounds(totals, topology.ep).sum())
        else:
            peaks = placement.project(totals, topology.ep)  # (layer, rank)
            expert_total = int(peaks.max(axis=1).sum())
            on_busiest = placement.rank_of_expert == peaks.argmax(axis=1)[:, None]
            weights = sum((demand[:, layer, on].sum(axis=1, dtype=np.int64) for layer, on in enumerate(on_busiest)), start=np.int64(0))
        ticks = attention_ticks(instance)
        return cls(
            attention=instance.per_unit(ticks).sum(axis=1),
            attention_total=sum(-(-int(stage) // topology.slots_per_shard) for stage in ticks.sum(axis=0)),
            lengths=instance.unit_lengths(),
            weights=instance.per_unit(weights),
            weight_scale=topology.ep if placement is None else 1,
            expert_total=expert_total,
            token_cap=instance.token_cap,
            rows=num_rows,
            shards=topology.num_shards,
            slots=topology.slots_per_shard,
            parts=topology.parts_per_slot,
        )

    def row_shards_over(self, level: int) -> int:
        """Least number of row-shards that hold a unit of at least so many attention ticks: by tokens, and by units over half the cap."""
        heavy = self.attention >= level
        lengths: list[int] = self.lengths[heavy].tolist()
        exclusive = sum(2 * t > self.token_cap for t in lengths)
        return max(-(-sum(lengths) // (self.slots * self.token_cap)), -(-exclusive // self.slots), min(1, len(lengths)))


def aggregation_value(data: ScoreData) -> int:
    """Slowest shard at least the mean: attention over D slots and the placement's rank maxima, over G shards."""
    return -(-(data.attention_total * data.parts + data.expert_total) // (data.parts * data.shards))


def cover_value(data: ScoreData) -> int:
    """
    Aggregation bound with the attention of the longest unit in each row-shard instead of its mean, where that is more.

    If at least n row-shards hold a unit of level b or more, the n-th largest of the row-shards' attention costs is at least b. Among units
    over half the cap, which exclude one another from a cell, this is every D-th largest; in general tokens are counted.
    """
    order = np.argsort(-data.attention, kind="stable")
    tokens = np.cumsum(data.lengths[order])
    exclusive = np.cumsum((2 * data.lengths[order] > data.token_cap).astype(np.int64))
    held = np.maximum(-(-tokens // (data.slots * data.token_cap)), -(-exclusive // data.slots))
    held = np.maximum(held, 1)
    fresh = np.diff(held, prepend=0)  # row-shards that must open at this unit's level
    attention = max(data.attention_total, int((fresh * data.attention[order]).sum()))
    return -(-(attention * data.parts + data.expert_total) // (data.parts * data.shards))


@dataclass(frozen=True, slots=True, eq=False)
class LevelCertificate:
    r"""
    Capacity-coupled bound: multipliers of a linear relaxation over levels of row-shards.

    A row-shard is of level k when its unit of most attention has more than ``levels[k-1]`` and at most ``levels[k]`` ticks. It then costs
    at least the smallest such ticks f_k, and admits only units of at most ``levels[k]`` and D C tokens. Shards are of two kinds: the
    *home* of the unit of most attention, which has a row-shard of the top level, and the G - 1 others. With U_k the cost of a kind,
    ``makespan >= home * U_home + other * U_others`` for ``home + (G-1) other <= 1``. Any multipliers in range give a bound, because what
    is left after relaxing capacity and covers splits into one minimum for each unit and one for each kind.

    Parameters
    ----------
    levels
        Increasing, the last at least every unit's ticks, shape (K,).
    kind_weight
        Weights of the home and of the other shards, in 1/2**30, shape (2,).
    expert_weight
        Share of the window's rank maxima, at most either kind's weight (home alone where G = 1), in 1/2**30.
    mean_weight
        Part of a kind's weight that goes to the mean over slots, the rest to the level; in 1/2**30, shape (2, K).
    token_price
        Price of a token in a kind and level, in 1/2**30 tick, shape (2, K).
    cover_price
        Reward for the row-shards that must be of at least level k, in 1/2**30 tick, shape (K,).
    home_price
        Reward for the home's row-shard of the top level, in 1/2**30 tick.
    """

    levels: tuple[int, ...]
    kind_weight: tuple[int, int]
    expert_weight: int
    mean_weight: tuple[tuple[int, ...], tuple[int, ...]]
    token_price: tuple[tuple[int, ...], tuple[int, ...]]
    cover_price: tuple[int, ...]
    home_price: int

    def value(self, data: ScoreData) -> int:
        """
        Recompute the bound.

        Raises
        ------
        InvalidCertificate
            A multiplier is out of range, or levels do not cover the units.
        """
        self._check(data)
        kinds = range(1 if data.shards == 1 else 2)
        unit = data.slots * data.weight_scale * data.parts  # of everything below, with SCALE
        attention, weights = data.attention.astype(object), data.weights.astype(object)
        lengths = data.lengths.astype(object)
        admitted_from = np.searchsorted(np.array(self.levels), data.attention, side="left")  # first level of each unit
        cheapest: NDArray[np.object_] | None = None
        for kind in kinds:
            expert = (self.kind_weight[kind] - self.expert_weight) * data.slots * weights
            for k in reversed(range(len(self.levels))):  # the top level admits every unit
                price = (
                    self.mean_weight[kind][k] * data.weight_scale * data.parts * attention
                    + expert
                    + self.token_price[kind][k] * unit * lengths
                )
                admitted = admitted_from <= k
                if cheapest is None:
                    cheapest = price
                cheapest = np.where(admitted, np.minimum(cheapest, price), cheapest)
        assert cheapest is not None
        scaled = int(cheapest.sum()) + self.expert_weight * data.expert_total * data.slots * data.weight_scale
        scaled += unit * self._row_shards(data, list(kinds))
        return max(0, -(-scaled // (unit * SCALE)))

    def _row_shards(self, data: ScoreData, kinds: list[int]) -> int:
        """Least cost of the row-shards themselves, after the rewards, in 1/2**30 tick."""
        floors = level_floors(data.attention, self.levels)
        cell_tokens = data.slots * data.token_cap
        total = sum(price * data.row_shards_over(floor) for price, floor in zip(self.cover_price, floors, strict=True))
        total += self.home_price
        top = len(self.levels) - 1
        for kind in kinds:
            count = data.rows * (1 if kind == 0 else data.shards - 1)
            reward, best = 0, None
            for k in range(len(self.levels)):
                reward += self.cover_price[k]
                level = (self.kind_weight[kind] - self.mean_weight[kind][k]) * floors[k]
                price = level - self.token_price[kind][k] * cell_tokens - reward - (self.home_price if (kind, k) == (0, top) else 0)
                best = price if best is None else min(best, price)
            assert best is not None
            total += count * best
        return total

    def _check(self, data: ScoreData) -> None:
        home, other = self.kind_weight
        size = len(self.levels)
        fault = None
        if not size or any(a >= b for a, b in zip(self.levels, self.levels[1:], strict=False)):
            fault = "levels do not rise"
        elif self.levels[-1] < int(data.attention.max()) or int(data.attention.max()) < level_floors(data.attention, self.levels)[-1]:
            fault = "the top level does not hold the unit of most attention"
        elif min(home, other) < 0 or home + (data.shards - 1) * other > SCALE:
            fault = "kind weights exceed 1"
        elif not 0 <= self.expert_weight <= (home if data.shards == 1 else min(home, other)):
            fault = "expert weight exceeds a kind's weight"
        elif any(len(row) != size for row in (*self.mean_weight, *self.token_price, self.cover_price)):
            fault = "one multiplier for each level needed"
        elif any(not 0 <= w <= weight for row, weight in zip(self.mean_weight, self.kind_weight, strict=True) for w in row):
            fault = "a mean weight exceeds its kind's weight"
        elif min(self.home_price, *self.cover_price, *self.token_price[0], *self.token_price[1]) < 0:
            fault = "a price is negative"
        if fault:
            raise InvalidCertificate(f"level certificate: {fault}; it proves nothing.")


def level_floors(attention: IntArray, levels: tuple[int, ...]) -> list[int]:
    """Fewest ticks of a unit of each level, or the level itself where it has no unit."""
    ticks = np.sort(attention)
    floors = []
    for k, level in enumerate(levels):
        first = 0 if k == 0 else int(np.searchsorted(ticks, levels[k - 1], side="right"))
        floors.append(min(level, int(ticks[first])) if first < len(ticks) else level)
    return floors


def surrogate_value(data: ScoreData) -> int:
    """
    Bound of parallel machines with cardinality limits on the units' weights ``attention / D + weights``.

    Every shard holds at least R D units and costs at least their weight. Then: the mean; the heaviest unit with the lightest that must
    join it; and for j = 1, 2, ... the j + 1 lightest of the j G + 1 heaviest units, which share a shard by pigeonhole, with the lightest
    that must join them.
    """
    unit = data.slots * data.weight_scale * data.parts
    weight = [
        int(b) * data.weight_scale * data.parts + int(w) * data.slots
        for b, w in zip(data.attention.tolist(), data.weights.tolist(), strict=True)
    ]
    weight.sort(reverse=True)
    below = list(itertools.accumulate(weight, initial=0))  # below[n] = sum of the n heaviest
    count, least = len(weight), data.rows * data.slots
    best = -(-below[-1] // data.shards)
    j = 0
    while j * data.shards < count:
        last = j * data.shards + 1
        joining = max(0, least - (j + 1))
        best = max(best, below[last] - below[last - j - 1] + below[count] - below[count - joining])
        j += 1
    return -(-best // unit)
