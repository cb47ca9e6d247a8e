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
        W in the scale of the problem's loads, shape (row-shards, P, padded L).
    mass
        Load of each row-shard summed over ranks and layers, shape (row-shards,).
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
    mass: IntArray
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
    order = np.argsort(cells, kind="stable")
    occupancy = np.bincount(cells, minlength=problem.cells)
    first = np.cumsum(occupancy) - occupancy
    position = np.empty(units, dtype=np.int32)
    position[order] = np.arange(units) - first[cells[order]]
    members = np.zeros((problem.cells, most_members(problem)), dtype=np.int32)
    members[cells, position] = np.arange(units)
    samples = np.add.reduceat(problem.size[order], first)
    tokens = np.add.reduceat(problem.length[order], first)
    attention = np.add.reduceat(problem.attention[order], first)
    load = np.add.reduceat(problem.load[order], first[:: problem.slots], dtype=problem.load.dtype)
    mass = np.zeros(row_shards, dtype=np.int64)
    np.add.at(mass, cells // problem.slots, problem.mass[:units])
    cost = row_shard_costs(problem, attention, load, mass)
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
        mass=mass,
        cost=cost,
        place=place,
        entity=place.copy(),
        shard=shard,
        row=row,
        score=np.array([makespan, int(cost.sum())]),
        best=cell.copy(),
        best_score=np.array([makespan, int(cost.sum()), 0]),
    )


def row_shard_costs(problem: Problem, attention: IntArray, load: NDArray[np.int32] | IntArray, mass: IntArray) -> IntArray:
    """J of each row-shard from attention (cells, stages), load (row-shards, P, padded L) and mass (row-shards,)."""
    stages = attention.reshape(len(load), problem.slots, -1).max(axis=1).sum(axis=1)
    costs: IntArray = stages + expert_costs(problem, load.max(axis=1).sum(axis=1, dtype=np.int64), mass)
    return costs


def expert_costs(problem: Problem, peaks: IntArray, mass: IntArray) -> IntArray:
    """X from the sum over layers of the largest centred rank load, and the mass, elementwise."""
    experts = (peaks + mass) // problem.load.shape[1]
    costs: IntArray = -(-experts // problem.parts)
    return costs


def stack(states: list[State]) -> State:
    """Join chains into a population."""
    return State._make(np.stack(arrays) for arrays in zip(*states, strict=True))


def replica(population: State, k: int) -> State:
    """View one chain of a population."""
    return State._make(array[k] for array in population)


def one_replica(population: State, k: int) -> State:
    """View one chain as a population of one."""
    return State._make(array[k : k + 1] for array in population)


def exact_score(problem: Problem, cells: IntArray) -> tuple[int, int, int]:
    """Recomputed (makespan, total, peak) of a layout, cell of each unit by place."""
    state = make_state(problem, cells)
    return int(state.score[0]), int(state.score[1]), int(state.cost.max())
