"""The state of one search chain: where every unit is, and what that costs."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routepack.heuristics.problem import Problem
from routepack.window import IntArray


class State(NamedTuple):
    """
    One layout with all that delta evaluation needs; a population is a `State` whose arrays have a leading replica axis.

    Row-shards are entities that can change their place: entity h stands at shard ``place[h] // rows``, row ``place[h] % rows``.

    Parameters
    ----------
    cell
        Cell of each unit, by entity: h * slots + d, shape (units,).
    position
        Where the unit stands in its cell's list, shape (units,).
    members
        Units of each cell, the first ``occupancy`` of each row, shape (cells, most units of a cell).
    occupancy, samples, tokens
        Units, samples and aligned tokens of each cell, shape (cells,).
    attention
        Ticks of each cell and stage, shape (cells, stages).
    load
        W, shape (row-shards, P, padded L).
    cost
        J of each entity, shape (row-shards,).
    place, entity
        Place of each entity and its inverse, shape (row-shards,).
    shard, row
        Sum over each shard, and maximum over each row, of J: shapes (G,), (R,).
    score
        Makespan and total of the present layout, shape (2,).
    best
        Cell of each unit, by place, in the best layout so far, shape (units,).
    best_score
        Its makespan and total, and 1 while the present layout is better than what ``best`` holds, shape (3,).
    """

    cell: NDArray[np.int32]
    position: NDArray[np.int32]
    members: NDArray[np.int32]
    occupancy: IntArray
    samples: IntArray
    tokens: IntArray
    attention: IntArray
    load: NDArray[np.int32] | IntArray
    cost: IntArray
    place: IntArray
    entity: IntArray
    shard: IntArray
    row: IntArray
    score: IntArray
    best: NDArray[np.int32]
    best_score: IntArray


def most_members(problem: Problem) -> int:
    """Most units that a cell can ever hold."""
    shortest = np.cumsum(np.sort(problem.length[: problem.units]))
    by_tokens = int(np.searchsorted(shortest, problem.cap, side="right"))
    return max(1, min(by_tokens, problem.units - problem.cells + 1))


def make_state(problem: Problem, cells: IntArray) -> State:
    """
    Build the state of a layout.

    Parameters
    ----------
    problem
        What is laid out.
    cells
        Cell of each unit, by place, shape (units,); it must respect the cap and leave no cell empty.
    """
    units, row_shards = problem.units, problem.shards * problem.rows
    members = np.zeros((problem.cells, most_members(problem)), dtype=np.int32)
    position = np.zeros(units, dtype=np.int32)
    occupancy = np.zeros(problem.cells, dtype=np.int64)
    for i, c in enumerate(cells.tolist()):
        position[i] = occupancy[c]
        members[c, occupancy[c]] = i
        occupancy[c] += 1
    samples, tokens = np.zeros_like(occupancy), np.zeros_like(occupancy)
    attention = np.zeros((problem.cells, problem.attention.shape[1]), dtype=np.int64)
    load = np.zeros((row_shards, *problem.load.shape[1:]), dtype=problem.load.dtype)
    np.add.at(samples, cells, problem.size[:units])
    np.add.at(tokens, cells, problem.length[:units])
    np.add.at(attention, cells, problem.attention[:units])
    np.add.at(load, cells // problem.slots, problem.load[:units])
    cost = row_shard_costs(problem, attention, load)
    grid = cost.reshape(problem.shards, problem.rows)
    shard, row = grid.sum(axis=1), grid.max(axis=0)
    makespan = int(row.sum()) if problem.row_sync else int(shard.max())
    place = np.arange(row_shards, dtype=np.int64)
    cell = cells.astype(np.int32)
    return State(
        cell=cell,
        position=position,
        members=members,
        occupancy=occupancy,
        samples=samples,
        tokens=tokens,
        attention=attention,
        load=load,
        cost=cost,
        place=place,
        entity=place.copy(),
        shard=shard,
        row=row,
        score=np.array([makespan, int(cost.sum())]),
        best=cell.copy(),
        best_score=np.array([makespan, int(cost.sum()), 0]),
    )


def row_shard_costs(problem: Problem, attention: IntArray, load: NDArray[np.int32] | IntArray) -> IntArray:
    """J of each row-shard from cell attention, shape (..., cells, stages), and load, shape (..., row-shards, P, padded L)."""
    by_slot = attention.reshape(*load.shape[:-2], problem.slots, attention.shape[-1])
    stages = by_slot.max(axis=-2).sum(axis=-1)
    experts = load.max(axis=-2).sum(axis=-1, dtype=np.int64)
    costs: IntArray = stages - (-experts // problem.parts)
    return costs


def stack(states: list[State]) -> State:
    """Join chains into a population."""
    return State(*(np.stack(arrays) for arrays in zip(*states, strict=True)))


def replica(population: State, k: int) -> State:
    """View one chain of a population."""
    return State(*(array[k] for array in population))


def exact_score(problem: Problem, cells: IntArray) -> tuple[int, int, int]:
    """Recomputed (makespan, total, peak) of a layout, cell of each unit by place."""
    state = make_state(problem, cells)
    return int(state.score[0]), int(state.score[1]), int(state.cost.max())
