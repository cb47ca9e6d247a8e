"""Which units a proposal is about; compiled."""

import numpy as np

from routepack.compiled import called, inlined
from routepack.heuristics.draws import NEAR, U32, below_scalar
from routepack.heuristics.problem import Problem
from routepack.heuristics.state import State


@inlined
def slot_of(problem: Problem, state: State, c: int) -> int:
    """DP slot on which a cell stands."""
    return state.place[c // problem.slots] // problem.rows * problem.slots + c % problem.slots


@called
def guided_unit(problem: Problem, state: State, bits: np.uint64, choice: np.uint64) -> int:
    """Pick a unit where it hurts: a random row of the slowest shard, its slot with the most attention or, half of the time, any slot."""
    row = below_scalar(choice >> U32, problem.rows)
    if problem.row_sync:
        h = state.entity[row]
        for g in range(1, problem.shards):
            other = state.entity[g * problem.rows + row]
            if state.cost[other] > state.cost[h]:
                h = other
    else:
        slowest = 0
        for g in range(1, problem.shards):
            if state.shard[g] > state.shard[slowest]:
                slowest = g
        h = state.entity[slowest * problem.rows + row]
    c = h * problem.slots + below_scalar(((choice >> np.uint64(13)) & np.uint64(0x7FFFF)) << np.uint64(13), problem.slots)
    if choice & np.uint64(4096):
        most = np.int64(-1)
        for other in range(h * problem.slots, (h + 1) * problem.slots):
            ticks = np.int64(0)
            for s in range(state.attention.shape[1]):
                ticks += state.attention[other, s]
            if ticks > most:
                most = ticks
                c = other
    return state.members[c, below_scalar(bits, state.occupancy[c])]


@inlined
def near_unit(problem: Problem, i: int, bits: np.uint64) -> int:
    """Pick a unit whose length ranks at most `NEAR` above or below that of unit i."""
    rank = problem.rank[i] - NEAR + below_scalar(bits, 2 * NEAR + 1)
    return problem.by_length[min(max(rank, 0), problem.units - 1)]


@inlined
def unit_beside(problem: Problem, state: State, i: int, bits: np.uint64, more: np.uint64) -> int:
    """Pick a unit of another cell of the row-shard in which unit i lies; of its own where there is one slot."""
    x = state.cell[i]
    slot = x % problem.slots + 1 + below_scalar(bits, max(problem.slots - 1, 1))
    c = x // problem.slots * problem.slots + slot % problem.slots
    return state.members[c, below_scalar(more, state.occupancy[c])]


@inlined
def partner(problem: Problem, state: State, y: int, j: int, wanted: int) -> int:
    """Pick the unit of cell y, other than j, whose length is nearest to the wanted one; the empty unit counts as length 0."""
    best, apart = problem.units, abs(wanted)
    for k in range(state.occupancy[y]):
        unit = state.members[y, k]
        if unit != j and abs(wanted - problem.length[unit]) < apart:
            best, apart = unit, abs(wanted - problem.length[unit])
    return best
