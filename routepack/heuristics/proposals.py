"""One proposal on one chain, compiled: reject early, evaluate the difference, apply it if it is taken."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routepack.compiled import called, inlined
from routepack.heuristics.acceptance import Rule, keep_best, settles
from routepack.heuristics.draws import below_scalar
from routepack.heuristics.evaluation import (
    attention_after,
    exchange_contents,
    exchange_places,
    expert_cost,
    expert_pair,
    levelling,
    put,
    score_after,
    score_after_exchange,
    set_costs,
    shift_load,
    smoothing,
    take,
)
from routepack.heuristics.picks import partner, slot_of
from routepack.heuristics.problem import Problem
from routepack.heuristics.state import State
from routepack.window import IntArray


class Scratch(NamedTuple):
    """Room for one proposal: layer maxima (2, L), loads of two cells (2, P, L), attention change (stages,), layer sums (L,)."""

    peak: NDArray[np.int32]
    sums: NDArray[np.int32]
    change: IntArray
    layer: NDArray[np.float32]


@inlined
def try_units(problem: Problem, state: State, i: int, j: int, y: int, slack: float, rule: Rule, room: Scratch) -> bool:
    """Exchange unit i with unit j of cell y; j may be the empty unit."""
    x = state.cell[i]
    moved = j == problem.units
    if x == y or (moved and state.occupancy[x] == 1):
        return False
    longer = problem.length[j] - problem.length[i]
    if state.tokens[x] + longer > problem.cap or state.tokens[y] - longer > problem.cap:
        return False
    if problem.equal_samples and problem.size[i] != problem.size[j] and slot_of(problem, state, x) != slot_of(problem, state, y):
        return False
    a, b = x // problem.slots, y // problem.slots
    for s in range(len(room.change)):
        room.change[s] = problem.attention[j, s] - problem.attention[i, s]
    heavier = problem.mass[j] - problem.mass[i]
    cost_a = attention_after(problem, state, a, x, y, room.change)
    if a == b:
        cost_a += state.cost[a] - attention_after(problem, state, a, -1, -1, room.change)
        cost_b = cost_a
        makespan, total = score_after(problem, state, a, cost_a, a, state.cost[a])
    else:
        peaks_a, peaks_b = expert_pair(state.load[a], state.load[b], problem.load[i], problem.load[j], room.peak)
        cost_a += expert_cost(problem, peaks_a, state.mass[a] + heavier)
        cost_b = attention_after(problem, state, b, x, y, room.change) + expert_cost(problem, peaks_b, state.mass[b] - heavier)
        makespan, total = score_after(problem, state, a, cost_a, b, cost_b)
    may, left = settles(problem, state, (a, cost_a, b, cost_b), makespan, total, slack, rule)
    if not may:
        return False
    if slack >= 0:
        left -= rule.level * levelling(state, x, y, room.change)
    if slack >= 0 and a != b:
        left -= rule.smooth * smoothing(state.load[a], state.load[b], problem.load[i], problem.load[j], room.layer)
    if left < 0:
        return False
    keep_best(problem, state, makespan, total)
    if a != b:
        shift_load(state.load[a], state.load[b], problem.load[i], problem.load[j])
        state.mass[a] += heavier
        state.mass[b] -= heavier
    take(problem, state, i)
    if not moved:
        take(problem, state, j)
        put(problem, state, j, x, state.occupancy[x])
    put(problem, state, i, y, state.occupancy[y])
    set_costs(problem, state, a, cost_a, b, cost_b, makespan, total)
    return True


@called
def try_sums(problem: Problem, state: State, x: int, y: int, heavier: int, slack: float, rule: Rule, room: Scratch) -> bool:
    """
    Settle an exchange between cells x and y of different row-shards, and store what it changes in row-shards.

    Cell x gives the load ``room.sums[0]`` and takes ``room.sums[1]``, and so gains ``room.change`` in attention and ``heavier`` in mass.
    """
    a, b = x // problem.slots, y // problem.slots
    peaks_a, peaks_b = expert_pair(state.load[a], state.load[b], room.sums[0], room.sums[1], room.peak)
    cost_a = attention_after(problem, state, a, x, y, room.change) + expert_cost(problem, peaks_a, state.mass[a] + heavier)
    cost_b = attention_after(problem, state, b, x, y, room.change) + expert_cost(problem, peaks_b, state.mass[b] - heavier)
    makespan, total = score_after(problem, state, a, cost_a, b, cost_b)
    may, left = settles(problem, state, (a, cost_a, b, cost_b), makespan, total, slack, rule)
    if not may:
        return False
    if slack >= 0:
        left -= rule.level * levelling(state, x, y, room.change)
        left -= rule.smooth * smoothing(state.load[a], state.load[b], room.sums[0], room.sums[1], room.layer)
    if left < 0:
        return False
    keep_best(problem, state, makespan, total)
    shift_load(state.load[a], state.load[b], room.sums[0], room.sums[1])
    state.mass[a] += heavier
    state.mass[b] -= heavier
    set_costs(problem, state, a, cost_a, b, cost_b, makespan, total)
    return True


@called
def try_level(problem: Problem, state: State, x: int, y: int, slack: float, rule: Rule, room: Scratch) -> bool:
    """Settle an exchange between two cells of one row-shard after which x has ``room.change`` more attention and y less."""
    a = x // problem.slots
    cost = state.cost[a] + attention_after(problem, state, a, x, y, room.change) - attention_after(problem, state, a, -1, -1, room.change)
    makespan, total = score_after(problem, state, a, cost, a, state.cost[a])
    may, left = settles(problem, state, (a, cost, a, cost), makespan, total, slack, rule)
    if slack >= 0:
        left -= rule.level * levelling(state, x, y, room.change)
    if not may or left < 0:
        return False
    keep_best(problem, state, makespan, total)
    set_costs(problem, state, a, cost, a, cost, makespan, total)
    return True


@called
def exchange_units(problem: Problem, state: State, gives: tuple[int, int], takes: tuple[int, int], x: int, y: int) -> None:
    """Move two units from cell x to y and two from y to x; any may be the empty unit."""
    for unit in (gives[0], gives[1], takes[0], takes[1]):
        if unit != problem.units:
            take(problem, state, unit)
    for unit in gives:
        if unit != problem.units:
            put(problem, state, unit, y, state.occupancy[y])
    for unit in takes:
        if unit != problem.units:
            put(problem, state, unit, x, state.occupancy[x])


@called
def try_pairs(problem: Problem, state: State, i: int, j: int, bits: np.uint64, slack: float, rule: Rule, room: Scratch) -> bool:
    """Exchange unit i and perhaps another of its cell with unit j and the one of j's cell that balances the tokens best."""
    x, y = state.cell[i], state.cell[j]
    if x == y:
        return False
    k = below_scalar(bits, state.occupancy[x])
    also_i = problem.units if state.members[x, k] == i else state.members[x, k]
    also_j = partner(problem, state, y, j, problem.length[i] + problem.length[also_i] - problem.length[j])
    longer = problem.length[j] + problem.length[also_j] - problem.length[i] - problem.length[also_i]
    if state.tokens[x] + longer > problem.cap or state.tokens[y] - longer > problem.cap:
        return False
    sizes = problem.size[j] + problem.size[also_j] - problem.size[i] - problem.size[also_i]
    if problem.equal_samples and sizes != 0 and slot_of(problem, state, x) != slot_of(problem, state, y):
        return False
    for s in range(len(room.change)):
        room.change[s] = problem.attention[j, s] + problem.attention[also_j, s] - problem.attention[i, s] - problem.attention[also_i, s]
    if x // problem.slots == y // problem.slots:
        done = try_level(problem, state, x, y, slack, rule, room)
    else:
        for p in range(room.sums.shape[1]):
            for layer in range(room.sums.shape[2]):
                room.sums[0, p, layer] = problem.load[i, p, layer] + problem.load[also_i, p, layer]
                room.sums[1, p, layer] = problem.load[j, p, layer] + problem.load[also_j, p, layer]
        heavier = problem.mass[j] + problem.mass[also_j] - problem.mass[i] - problem.mass[also_i]
        done = try_sums(problem, state, x, y, heavier, slack, rule, room)
    if done:
        exchange_units(problem, state, (i, also_i), (j, also_j), x, y)
    return done


@inlined
def cell_load(problem: Problem, state: State, c: int, out: NDArray[np.int32]) -> int:
    """Sum the load of a cell's units into ``out``, (P, L), and return their mass."""
    mass = np.int64(0)
    for p in range(out.shape[0]):
        for layer in range(out.shape[1]):
            out[p, layer] = 0
    for k in range(state.occupancy[c]):
        i = state.members[c, k]
        mass += problem.mass[i]
        for p in range(out.shape[0]):
            for layer in range(out.shape[1]):
                out[p, layer] += problem.load[i, p, layer]
    return mass


@called
def try_cells(problem: Problem, state: State, x: int, y: int, slack: float, rule: Rule, room: Scratch) -> bool:
    """Exchange the contents of two cells of different row-shards."""
    a, b = x // problem.slots, y // problem.slots
    if a == b:
        return False
    if problem.equal_samples and state.samples[x] != state.samples[y] and slot_of(problem, state, x) != slot_of(problem, state, y):
        return False
    heavier = cell_load(problem, state, y, room.sums[1]) - cell_load(problem, state, x, room.sums[0])
    for s in range(len(room.change)):
        room.change[s] = state.attention[y, s] - state.attention[x, s]
    if not try_sums(problem, state, x, y, heavier, slack, rule, room):
        return False
    exchange_contents(state, x, y, room.change)
    return True


@called
def try_row_shards(problem: Problem, state: State, a: int, b: int, slack: float, rule: Rule) -> bool:
    """Exchange the places of two row-shards."""
    same_shard = state.place[a] // problem.rows == state.place[b] // problem.rows
    if a == b or (same_shard and not problem.row_sync):
        return False
    if problem.equal_samples and not same_shard:
        for d in range(problem.slots):
            if state.samples[a * problem.slots + d] != state.samples[b * problem.slots + d]:
                return False
    makespan = score_after_exchange(problem, state, a, b)
    may, left = settles(problem, state, (a, state.cost[a], b, state.cost[b]), makespan, state.score[1], slack, rule)
    if not may or left < 0:
        return False
    keep_best(problem, state, makespan, state.score[1])
    exchange_places(problem, state, a, b, makespan)
    return True
