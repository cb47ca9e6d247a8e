"""Sets of units that may share a row-shard in a plan no slower than a limit, with their exact cost: for windows of at most 20 units."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from routepack.compiled import called, compiled
from routepack.layout_problem import LayoutProblem
from routepack.row_shard_certificate import IMPOSSIBLE, PRICE_SCALE, RowShardCertificate, reduced_costs, subset_costs, subset_sums
from routepack.window import IntArray

Flag = NDArray[np.bool_]
ASK_EVERY = 4095  # nodes between two looks at the flag, less one


@dataclass(frozen=True, slots=True, eq=False)
class RowPatterns:
    """
    Sets of units, as bit masks, of all row-shards that a plan within a limit can have.

    Parameters
    ----------
    sets, costs
        Masks and exact costs J in ticks, shape (patterns,).
    limit
        Every plan whose makespan is at most this is made of these sets.
    """

    sets: IntArray
    costs: IntArray
    limit: int


class PatternSource:
    """
    Lists patterns by reduced cost.

    The row-shards of a plan cost at most G times its makespan. At prices of the units they cost at least the Lagrangian bound
    (`RowShardCertificate`), and a set whose reduced cost exceeds the least by more than what is left between the two is in none of them.

    Parameters
    ----------
    problem
        At most 20 units.
    certificate
        Prices of the units.

    Raises
    ------
    InvalidCertificate
        There are more than 20 units, or costs of 2**50 ticks.
    """

    def __init__(self, problem: LayoutProblem, certificate: RowShardCertificate) -> None:
        self.problem, self.prices = problem, certificate.prices
        self.floor = subset_costs(problem)
        reduced = reduced_costs(self.floor, self.prices)
        self.least = int(reduced.min())
        self.above: IntArray = reduced - self.least
        self.bound = int(self.prices.sum()) + problem.num_row_shards * self.least

    @property
    def most(self) -> int:
        """Makespan that no plan exceeds."""
        return int(self.problem.attention.sum() + self.problem.loads.sum())

    def candidates(self, limit: int) -> IntArray:
        """Masks that pass at their cost from below, shape (candidates,)."""
        masks: IntArray = np.flatnonzero((self.floor < IMPOSSIBLE) & (self.above <= self._room(limit)))
        return masks

    def price(self, limit: int, stop: Flag) -> RowPatterns:
        """Patterns of plans whose makespan is at most a limit; meaningless where the flag ``stop``, shape (1,), was set on the way."""
        problem, masks = self.problem, self.candidates(limit)
        most = self.floor[masks] + (self._room(limit) - self.above[masks]) // PRICE_SCALE
        costs = exact_costs(masks, most, *_terms(problem), problem.token_cap, problem.slots, problem.parts, stop)
        held = costs < IMPOSSIBLE
        return RowPatterns(masks[held], costs[held], limit)

    def within(self, masks: IntArray, row_shards: int, shards: int, limit: int) -> IntArray:
        """Those masks that so many row-shards can share, and where whole shards are meant, that these and the others can each afford."""
        problem = self.problem
        others, room = problem.num_row_shards - row_shards, problem.slots * problem.token_cap
        tokens = subset_sums(problem.lengths)[masks]
        units = subset_sums(np.ones(problem.num_units, np.int64))[masks]
        fits = (tokens <= row_shards * room) & (int(problem.lengths.sum()) - tokens <= others * room)
        fits &= (units >= row_shards * problem.slots) & (problem.num_units - units >= others * problem.slots)
        if shards:
            price = subset_sums(self.prices)[masks]
            fits &= price + row_shards * self.least <= shards * limit * PRICE_SCALE
            fits &= int(self.prices.sum()) - price + others * self.least <= (problem.shards - shards) * limit * PRICE_SCALE
        chosen: IntArray = masks[fits]
        return chosen

    def _room(self, limit: int) -> int:
        return self.problem.shards * limit * PRICE_SCALE - self.bound


def slots_of_set(problem: LayoutProblem, mask: int, cost: int) -> dict[int, int]:
    """Slot of each unit of a set in a row-shard of that cost."""
    order, loads, attention, lengths = _terms(problem)
    members = np.array([i for i in order.tolist() if mask >> i & 1], dtype=np.int64)
    most = cost - expert_cost(members, loads, problem.parts)
    slots = np.zeros(len(members), dtype=np.int64)
    split(members, attention, lengths, problem.token_cap, problem.slots, most, np.zeros(1, np.bool_), slots)
    return dict(zip(members.tolist(), slots.tolist(), strict=True))


def _terms(problem: LayoutProblem) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Units by descending attention, and what they cost."""
    order: IntArray = np.argsort(-problem.attention.sum(axis=1), kind="stable")
    return order, np.ascontiguousarray(problem.loads), np.ascontiguousarray(problem.attention), problem.lengths


@compiled
def expert_cost(members: IntArray, loads: IntArray, parts: int) -> int:
    """Rank maxima of the layers of a set, summed and shared among the parts."""
    total = 0
    for layer in range(loads.shape[1]):
        peak = 0
        for p in range(loads.shape[2]):
            load = 0
            for i in members:
                load += loads[i, layer, p]
            peak = max(peak, load)
        total += peak
    return (total + parts - 1) // parts


@called
def level(work: IntArray, totals: IntArray) -> int:
    """Attention cost from below: per stage the largest cell so far, or the mean over all cells in the end."""
    slots = len(work)
    value = 0
    for s in range(work.shape[1]):
        most = (totals[s] + slots - 1) // slots
        for d in range(slots):
            most = max(most, work[d, s])
        value += most
    return value


@called
def next_slot(work: IntArray, tokens: IntArray, held: IntArray, tried: int, length: int, cap: int) -> int:
    """Of the cells not tried that have room, of empty ones only the first, the one with least work; -1 where there is none."""
    chosen, least = -1, 0
    for d in range(len(tokens)):
        if tried >> d & 1 == 0 and tokens[d] + length <= cap:
            total = work[d].sum()
            if chosen < 0 or total < least:
                chosen, least = d, total
        if held[d] == 0:
            break
    return chosen


@compiled
def split(
    members: IntArray, attention: IntArray, lengths: IntArray, cap: int, slots: int, most: int, stop: Flag, best_slots: IntArray
) -> int:
    """
    Least attention cost of a set over the cells of a row-shard, by depth-first search; ``IMPOSSIBLE`` where it is over ``most``.

    Cells open in order, and the search ends at a cost that no split can beat.
    """
    count, stages = len(members), attention.shape[1]
    work = np.zeros((slots, stages), dtype=np.int64)
    tokens, held = np.zeros(slots, dtype=np.int64), np.zeros(slots, dtype=np.int64)
    tried, slot_at = np.zeros(count + 1, dtype=np.int64), np.full(count + 1, -1, dtype=np.int64)
    totals = np.zeros(stages, dtype=np.int64)
    for i in members:
        totals += attention[i]
    ideal, best, opened, depth, nodes = level(work, totals), IMPOSSIBLE, 0, 0, 0
    while depth >= 0:
        nodes += 1
        if nodes & ASK_EVERY == 0 and stop[0]:
            break
        i = members[depth]
        d = slot_at[depth]
        if d >= 0:  # taken back on return
            slot_at[depth] = -1
            work[d] -= attention[i]
            tokens[d] -= lengths[i]
            held[d] -= 1
            opened -= held[d] == 0
        d = -1 if count - depth < slots - opened else next_slot(work, tokens, held, tried[depth], lengths[i], cap)
        if d < 0:
            tried[depth] = 0
            depth -= 1
            continue
        tried[depth] |= 1 << d
        slot_at[depth] = d
        work[d] += attention[i]
        tokens[d] += lengths[i]
        opened += held[d] == 0
        held[d] += 1
        value = level(work, totals)
        if value > most or value >= best:
            continue
        if depth + 1 < count:
            depth += 1
        elif opened == slots:
            best = value
            best_slots[:] = slot_at[:count]
            if value == ideal:
                break
    return best


@compiled
def exact_costs(
    masks: IntArray,
    most: IntArray,
    order: IntArray,
    loads: IntArray,
    attention: IntArray,
    lengths: IntArray,
    cap: int,
    slots: int,
    parts: int,
    stop: Flag,
) -> IntArray:
    """Exact cost of each set, ``IMPOSSIBLE`` where it is over its limit, shape (sets,)."""
    costs = np.full(len(masks), IMPOSSIBLE, dtype=np.int64)
    members, slot_of = np.zeros(len(order), dtype=np.int64), np.zeros(len(order), dtype=np.int64)
    for k in range(len(masks)):
        count = 0
        for i in order:
            if masks[k] >> i & 1:
                members[count] = i
                count += 1
        expert = expert_cost(members[:count], loads, parts)
        attend = split(members[:count], attention, lengths, cap, slots, most[k] - expert, stop, slot_of[:count])
        if attend < IMPOSSIBLE:
            costs[k] = attend + expert
        if stop[0]:
            break
    return costs
