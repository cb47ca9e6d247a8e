"""Compiled evaluation and application of a proposal on one chain; the numpy reference in `reference` does the same for a population."""

import numpy as np
from numpy.typing import NDArray

from routepack.compiled import called, inlined
from routepack.heuristics.problem import Problem
from routepack.heuristics.state import State
from routepack.window import IntArray


@called
def expert_pair(
    load_a: NDArray[np.int32], load_b: NDArray[np.int32], minus: NDArray[np.int32], plus: NDArray[np.int32], peak: NDArray[np.int32]
) -> tuple[int, int]:
    """Sum over layers of the largest rank, for two row-shards: a gives ``minus`` and takes ``plus``; loads (P, L), scratch (2, L)."""
    ranks, layers = load_a.shape
    for layer in range(layers):
        peak[0, layer] = 0
        peak[1, layer] = 0
    for p in range(ranks):
        for layer in range(layers):
            change = np.int32(plus[p, layer] - minus[p, layer])
            peak[0, layer] = max(peak[0, layer], np.int32(load_a[p, layer] + change))
            peak[1, layer] = max(peak[1, layer], np.int32(load_b[p, layer] - change))
    sum_a = 0
    sum_b = 0
    for layer in range(layers):
        sum_a += peak[0, layer]
        sum_b += peak[1, layer]
    return sum_a, sum_b


@inlined
def expert_cost(problem: Problem, peaks: int, mass: int) -> int:
    """X from the sum over layers of the largest centred rank load, and the mass."""
    experts = (peaks + mass) // problem.load.shape[1]
    return -(-experts // problem.parts)


@called
def smoothing(
    load_a: NDArray[np.int32], load_b: NDArray[np.int32], minus: NDArray[np.int32], plus: NDArray[np.int32], room: NDArray[np.float32]
) -> float:
    """Half the change of the sum of squared centred loads when a gives ``minus`` and takes ``plus``; loads (P, L), scratch (L,)."""
    ranks, layers = load_a.shape
    for layer in range(layers):
        room[layer] = 0
    for p in range(ranks):
        for layer in range(layers):
            change = np.int32(plus[p, layer] - minus[p, layer])
            apart = np.int32(load_a[p, layer] - load_b[p, layer])
            room[layer] += np.float32(change) * np.float32(np.int32(change + apart))
    total = 0.0
    for layer in range(layers):
        total += room[layer]
    return total


@inlined
def levelling(state: State, x: int, y: int, change: IntArray) -> float:
    """Half the change of the sum of squared cell attention when cell x gains ``change`` ticks, shape (stages,), and cell y loses them."""
    total = 0.0
    for s in range(state.attention.shape[1]):
        total += np.float64(change[s]) * np.float64(change[s] + state.attention[x, s] - state.attention[y, s])
    return total


@inlined
def attention_after(problem: Problem, state: State, h: int, x: int, y: int, change: IntArray) -> int:
    """A of row-shard h when cell x gains ``change`` ticks, shape (stages,), and cell y loses them; either may lie elsewhere."""
    total = 0
    for s in range(state.attention.shape[1]):
        most = np.int64(0)
        for c in range(h * problem.slots, (h + 1) * problem.slots):
            ticks = state.attention[c, s]
            if c == x:
                ticks += change[s]
            elif c == y:
                ticks -= change[s]
            most = max(most, ticks)
        total += most
    return total


@inlined
def score_after(problem: Problem, state: State, a: int, cost_a: int, b: int, cost_b: int) -> tuple[int, int]:
    """Makespan and total when entities a and b cost so much."""
    total = state.score[1] + cost_a - state.cost[a] + cost_b - state.cost[b]
    if problem.row_sync:
        row_a, row_b = state.place[a] % problem.rows, state.place[b] % problem.rows
        makespan = state.score[0] - state.row[row_a] + row_after(problem, state, row_a, a, cost_a, b, cost_b)
        if row_b != row_a:
            makespan += row_after(problem, state, row_b, a, cost_a, b, cost_b) - state.row[row_b]
        return makespan, total
    shard_a, shard_b = state.place[a] // problem.rows, state.place[b] // problem.rows
    makespan = np.int64(0)
    for g in range(problem.shards):
        shard = state.shard[g]
        if g == shard_a:
            shard += cost_a - state.cost[a]
        if g == shard_b:
            shard += cost_b - state.cost[b]
        makespan = max(makespan, shard)
    return makespan, total


@called
def row_after(problem: Problem, state: State, row: int, a: int, cost_a: int, b: int, cost_b: int) -> int:
    """Largest J in a row when entities a and b cost so much."""
    most = np.int64(0)
    for g in range(problem.shards):
        h = state.entity[g * problem.rows + row]
        cost = state.cost[h]
        if h == a:
            cost = cost_a
        elif h == b:
            cost = cost_b
        most = max(most, cost)
    return most


@inlined
def score_after_exchange(problem: Problem, state: State, a: int, b: int) -> int:
    """Makespan when entities a and b exchange their places."""
    gain = state.cost[b] - state.cost[a]
    makespan = np.int64(0)
    if not problem.row_sync:
        shard_a, shard_b = state.place[a] // problem.rows, state.place[b] // problem.rows
        for g in range(problem.shards):
            shard = state.shard[g]
            if g == shard_a:
                shard += gain
            if g == shard_b:
                shard -= gain
            makespan = max(makespan, shard)
        return makespan
    row_a, row_b = state.place[a] % problem.rows, state.place[b] % problem.rows
    if row_a == row_b:
        return state.score[0]
    after_a = row_after(problem, state, row_a, a, state.cost[b], a, state.cost[b])
    after_b = row_after(problem, state, row_b, b, state.cost[a], b, state.cost[a])
    return state.score[0] - state.row[row_a] - state.row[row_b] + after_a + after_b


@called
def peak_after(state: State, a: int, cost_a: int, b: int, cost_b: int) -> int:
    """Largest J when entities a and b cost so much."""
    most = np.int64(0)
    for h in range(len(state.cost)):
        cost = state.cost[h]
        if h == a:
            cost = cost_a
        elif h == b:
            cost = cost_b
        most = max(most, cost)
    return most


@called
def set_costs(problem: Problem, state: State, a: int, cost_a: int, b: int, cost_b: int, makespan: int, total: int) -> None:
    """Store new costs of entities a and b and every sum that follows."""
    state.shard[state.place[a] // problem.rows] += cost_a - state.cost[a]
    if a != b:
        state.shard[state.place[b] // problem.rows] += cost_b - state.cost[b]
        state.cost[b] = cost_b
    state.cost[a] = cost_a
    row_a, row_b = state.place[a] % problem.rows, state.place[b] % problem.rows
    state.row[row_a] = row_after(problem, state, row_a, a, cost_a, a, cost_a)
    state.row[row_b] = row_after(problem, state, row_b, a, cost_a, a, cost_a)
    state.score[0] = makespan
    state.score[1] = total


@called
def put(problem: Problem, state: State, i: int, c: int, where: int) -> None:
    """Write unit i at a place in the list of cell c and add what it brings."""
    state.members[c, where] = i
    state.cell[i] = c
    state.position[i] = where
    state.occupancy[c] += 1
    state.samples[c] += problem.size[i]
    state.tokens[c] += problem.length[i]
    for s in range(state.attention.shape[1]):
        state.attention[c, s] += problem.attention[i, s]


@called
def take(problem: Problem, state: State, i: int) -> None:
    """Remove unit i from its cell, closing the gap in the list with its last unit."""
    c = state.cell[i]
    last = state.members[c, state.occupancy[c] - 1]
    state.members[c, state.position[i]] = last
    state.position[last] = state.position[i]
    state.occupancy[c] -= 1
    state.samples[c] -= problem.size[i]
    state.tokens[c] -= problem.length[i]
    for s in range(state.attention.shape[1]):
        state.attention[c, s] -= problem.attention[i, s]


@inlined
def shift_load(load_a: NDArray[np.int32], load_b: NDArray[np.int32], minus: NDArray[np.int32], plus: NDArray[np.int32]) -> None:
    """Move ``minus`` from row-shard a to b and ``plus`` from b to a; loads (P, L)."""
    for p in range(load_a.shape[0]):
        for layer in range(load_a.shape[1]):
            change = np.int32(plus[p, layer] - minus[p, layer])
            load_a[p, layer] += change
            load_b[p, layer] -= change


@called
def exchange_contents(state: State, x: int, y: int, change: IntArray) -> None:
    """Exchange the units of cells x and y; ``change`` is what x gains in attention, shape (stages,)."""
    occupancy_x, occupancy_y = state.occupancy[x], state.occupancy[y]
    for k in range(max(occupancy_x, occupancy_y)):
        state.members[x, k], state.members[y, k] = state.members[y, k], state.members[x, k]
        if k < occupancy_y:
            state.cell[state.members[x, k]] = x
        if k < occupancy_x:
            state.cell[state.members[y, k]] = y
    state.occupancy[x], state.occupancy[y] = occupancy_y, occupancy_x
    state.samples[x], state.samples[y] = state.samples[y], state.samples[x]
    state.tokens[x], state.tokens[y] = state.tokens[y], state.tokens[x]
    for s in range(len(change)):
        state.attention[x, s] += change[s]
        state.attention[y, s] -= change[s]


@inlined
def exchange_places(problem: Problem, state: State, a: int, b: int, makespan: int) -> None:
    """Let entities a and b exchange their places."""
    gain = state.cost[b] - state.cost[a]
    state.shard[state.place[a] // problem.rows] += gain
    state.shard[state.place[b] // problem.rows] -= gain
    place_a, place_b = state.place[a], state.place[b]
    state.place[a], state.place[b] = place_b, place_a
    state.entity[place_a], state.entity[place_b] = b, a
    row_a, row_b = place_a % problem.rows, place_b % problem.rows
    state.row[row_a] = row_after(problem, state, row_a, a, state.cost[a], a, state.cost[a])
    state.row[row_b] = row_after(problem, state, row_b, a, state.cost[a], a, state.cost[a])
    state.score[0] = makespan
