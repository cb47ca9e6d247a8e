"""Layouts to start from: different fillings of the cells, and one way to arrange cells over row-shards."""

import numpy as np
from numpy.typing import NDArray

from routepack.compiled import compiled
from routepack.heuristics.packing import open_cells
from routepack.heuristics.problem import Problem
from routepack.heuristics.state import exact_score
from routepack.window import IntArray

LEAST_SEEDS = 4


def arrange(problem: Problem, cell_of_unit: IntArray) -> IntArray:
    """
    Give cells their places, so that cells of like attention share a row-shard and shards are even.

    Cells are taken by falling attention, D at a time; the row-shards that result are dealt to shards longest first, R to each, or, where
    shards meet in every row, to one row after another.

    Parameters
    ----------
    problem
        What is laid out.
    cell_of_unit
        Cell of each unit in any numbering, shape (units,).

    Returns
    -------
    IntArray
        Cell of each unit by place, shape (units,).
    """
    ticks = np.zeros(problem.cells, dtype=np.int64)
    np.add.at(ticks, cell_of_unit, problem.attention[: problem.units].sum(axis=1))
    by_ticks = np.argsort(-ticks, kind="stable")
    heaviest = ticks[by_ticks].reshape(-1, problem.slots)[:, 0]
    places: list[int] = []
    room, total = [problem.rows] * problem.shards, [0] * problem.shards
    for n, cost in enumerate(heaviest.tolist()):
        g = n % problem.shards if problem.row_sync else min((g for g in range(problem.shards) if room[g]), key=lambda g: total[g])
        places.append(g * problem.rows + problem.rows - room[g])
        room[g] -= 1
        total[g] += cost
    place_of_cell = np.empty(problem.cells, dtype=np.int64)
    place_of_cell[by_ticks] = (np.array(places)[:, None] * problem.slots + np.arange(problem.slots)).ravel()
    return place_of_cell[cell_of_unit]


@compiled
def _fill(order: IntArray, lengths: IntArray, cap: int, cells: int, choice: IntArray) -> IntArray:
    """Put each unit into the cell whose tokens rank ``choice[n]`` (0 fullest, at most 2) among those with room; -1 if none has."""
    tokens = np.zeros(cells, dtype=np.int64)
    cell_of_unit = np.full(len(lengths), -1, dtype=np.int64)
    top = np.empty(3, dtype=np.int64)
    for n in range(len(order)):
        i = order[n]
        found = 0
        for c in range(cells):
            if tokens[c] + lengths[i] > cap:
                continue
            k = min(found, 3)
            while k > 0 and tokens[top[k - 1]] < tokens[c]:
                if k < 3:
                    top[k] = top[k - 1]
                k -= 1
            if k < 3:
                top[k] = c
                found += 1
            if tokens[c] == 0:
                break
        if found == 0:
            return cell_of_unit
        c = top[min(choice[n], min(found, 3) - 1)]
        cell_of_unit[i] = c
        tokens[c] += lengths[i]
    return cell_of_unit


def window_shuffle(problem: Problem, rng: np.random.Generator) -> IntArray | None:
    """Best fit in an order of falling length that is disturbed by up to a fifth; ``None`` if the cells do not suffice."""
    lengths = problem.length[: problem.units]
    order = np.argsort(-lengths * rng.uniform(0.8, 1.0, problem.units), kind="stable")
    return _opened(problem, _fill(order, lengths, problem.cap, problem.cells, np.zeros_like(order)))


def randomized_best_fit(problem: Problem, rng: np.random.Generator) -> IntArray | None:
    """Fit by falling length into the fullest cell with room, the next or the one after; ``None`` if the cells do not suffice."""
    lengths = problem.length[: problem.units]
    choice = rng.choice(3, size=problem.units, p=[0.6, 0.25, 0.15])
    return _opened(problem, _fill(np.argsort(-lengths, kind="stable"), lengths, problem.cap, problem.cells, choice))


def _opened(problem: Problem, cell_of_unit: IntArray) -> IntArray | None:
    if (cell_of_unit < 0).any():
        return None
    used = np.unique(cell_of_unit, return_inverse=True)[1].astype(np.int64)
    return arrange(problem, open_cells(problem.length[: problem.units], used, problem.cells))


@compiled
def _pair(order: IntArray, problem: Problem, jitter: NDArray[np.float64]) -> IntArray:
    """Put each unit where attention and layer-wise rank peaks of its row-shard rise least; -1 from the first unit without room."""
    row_shards = problem.shards * problem.rows
    cells = row_shards * problem.slots
    tokens = np.zeros(cells, dtype=np.int64)
    ticks = np.zeros((cells, problem.attention.shape[1]), dtype=np.int64)
    load = np.zeros((row_shards, problem.load.shape[1], problem.load.shape[2]), dtype=np.int64)
    cost = np.zeros(row_shards, dtype=np.int64)
    cell_of_unit = np.full(problem.units, -1, dtype=np.int64)
    for n in range(len(order)):
        i = order[n]
        best, best_rise, best_cost = -1, np.inf, np.int64(0)
        for h in range(row_shards):
            c = -1
            for other in range(h * problem.slots, (h + 1) * problem.slots):
                if tokens[other] + problem.length[i] <= problem.cap and (c < 0 or ticks[other].sum() < ticks[c].sum()):
                    c = other
            if c < 0:
                continue
            experts = np.int64(0)
            for layer in range(load.shape[2]):
                most = np.int64(0)
                for p in range(load.shape[1]):
                    most = max(most, load[h, p, layer] + problem.load[i, p, layer])
                experts += most
            after = experts // problem.parts
            for s in range(ticks.shape[1]):
                most = ticks[c, s] + problem.attention[i, s]
                for other in range(h * problem.slots, (h + 1) * problem.slots):
                    most = max(most, ticks[other, s])
                after += most
            rise = (after - cost[h]) * jitter[n] + 1e-3 * after
            if rise < best_rise:
                best, best_rise, best_cost = c, rise, after
        if best < 0:
            return cell_of_unit
        cell_of_unit[i] = best
        tokens[best] += problem.length[i]
        cost[best // problem.slots] = best_cost
        for s in range(ticks.shape[1]):
            ticks[best, s] += problem.attention[i, s]
        for p in range(load.shape[1]):
            for layer in range(load.shape[2]):
                load[best // problem.slots, p, layer] += problem.load[i, p, layer]
    return cell_of_unit


def edp_aware_pairing(problem: Problem, rng: np.random.Generator) -> IntArray | None:
    """Greedy by falling length into the row-shard whose cost rises least; ``None`` if a unit finds no room or a cell stays empty."""
    order = np.argsort(-problem.length[: problem.units], kind="stable")
    cells: IntArray = _pair(order, problem, rng.uniform(0.9, 1.1, problem.units))
    if (cells < 0).any() or (np.bincount(cells, minlength=problem.cells) == 0).any():
        return None
    return cells


def fresh_layout(problem: Problem, packed: IntArray, rng: np.random.Generator) -> IntArray:
    """One random start: randomised best fit, or the given packing where that finds no room."""
    layout = None if problem.equal_samples else randomized_best_fit(problem, rng)
    if layout is not None:
        return layout
    return packed if problem.equal_samples else arrange(problem, packed)


def seed_layouts(problem: Problem, packed: IntArray, count: int, rng: np.random.Generator) -> list[IntArray]:
    """
    Start layouts for a population.

    The first is the given packing arranged in rows of like length. The others alternate between window shuffle, randomised best fit and
    EDP-aware pairing [1]_; where one of them finds no room under the cap, the first takes its place. With equal sample counts, which these
    do not keep, all are the given one. Of at least four, those that score best are taken, best first.

    Parameters
    ----------
    problem
        What is laid out.
    packed
        Cell of each unit in a packing that fills exactly the layout's cells, shape (units,); by place under equal sample counts.
    count
        Layouts wanted.
    rng
        Source of disturbance.

    References
    ----------
    .. [1] RoutePack (2026), arXiv 2608.12146.
    """
    if problem.equal_samples:
        return [packed] * count
    first = arrange(problem, packed)
    layouts = [first]
    while len(layouts) < max(count, LEAST_SEEDS):
        seed = (edp_aware_pairing, window_shuffle, randomized_best_fit)[len(layouts) % 3 - 1]
        layout = seed(problem, rng)
        layouts.append(first if layout is None else layout)
    return sorted(layouts, key=lambda cells: exact_score(problem, cells))[:count]
