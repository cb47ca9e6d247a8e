"""
Large-neighbourhood search [1]_: free two or three row-shards, lay them out exactly under the rest, keep what is better.

References
----------
.. [1] Shaw, P. (1998). Using constraint programming and local search methods to solve vehicle routing problems. *CP 98*: 417-431.
"""

from dataclasses import replace

import numpy as np

from routepack.budget import Budget
from routepack.cost import Score
from routepack.exact import Settings, lexicographic
from routepack.formulations.edp_layout import EdpLayout
from routepack.layout_problem import LayoutProblem
from routepack.window import IntArray

SLICE_SECONDS = 3.0
MAX_DECISIONS = 6000


def improve_by_lns(
    problem: LayoutProblem,
    cells: IntArray,
    *,
    budget: Budget,
    seed: int = 0,
    settings: Settings | None = None,
    slice_seconds: float = SLICE_SECONDS,
) -> IntArray:
    """
    Re-solve neighbourhoods of row-shards until the budget ends; ``budget.attempts`` counts neighbourhoods.

    A neighbourhood is a row-shard of the slowest shard (or the costliest of a row, where shards meet in every row), drawn by its cost, and
    one or two others drawn at random.

    Parameters
    ----------
    problem
        What is laid out.
    cells
        Cell of each unit in a layout, shape (units,).
    budget
        Time limit, cap on neighbourhoods, interruption.
    seed
        Of the draws; results also depend on how far an engine comes in its time.
    settings
        Engine, threads and log.
    slice_seconds
        Time limit of one neighbourhood.

    Returns
    -------
    IntArray
        A layout whose score is not worse, shape (units,).
    """
    rng, settings = np.random.default_rng(seed), settings or Settings()
    best, score = cells, problem.score(cells)
    attempts = 0
    while problem.num_row_shards > 1 and budget.used(attempts) < 1:
        chosen = _choose(problem, best, rng)
        left = slice_seconds if budget.seconds is None else min(slice_seconds, budget.seconds - budget.elapsed())
        slice_ = Budget(seconds=max(0.0, left), interrupted=budget.interrupted)
        found = _resolve(problem, best, chosen, slice_, settings)
        value = problem.score(found)
        if value < score and problem.fault(found) is None:
            best, score = found, value
        attempts += 1
    return best


def _choose(problem: LayoutProblem, cells: IntArray, rng: np.random.Generator) -> list[int]:
    costs = problem.row_shards(cells).T.ravel()  # by h = g * R + r
    shard = np.arange(problem.num_row_shards) // problem.rows
    row = np.arange(problem.num_row_shards) % problem.rows
    if problem.sync == "shard":
        critical = np.flatnonzero(shard == np.bincount(shard, costs).argmax())
    else:
        critical = np.array([max(np.flatnonzero(row == r), key=lambda h: int(costs[h])) for r in range(problem.rows)])
    weight = costs[critical].astype(np.float64) + 1.0
    first = int(rng.choice(critical, p=weight / weight.sum()))
    others = np.delete(np.arange(problem.num_row_shards), first)
    units = np.bincount(cells // problem.slots, minlength=problem.num_row_shards)
    chosen = [first]
    for h in rng.permutation(others)[:2].tolist():
        wider = [*chosen, h]
        if len(chosen) == 1 or int(units[wider].sum()) * len(wider) * problem.slots <= MAX_DECISIONS:
            chosen = wider
    return sorted(chosen)


def _resolve(problem: LayoutProblem, cells: IntArray, chosen: list[int], budget: Budget, settings: Settings) -> IntArray:
    """Lay out the units of some row-shards again, under the costs of the others."""
    units = np.flatnonzero(np.isin(cells // problem.slots, chosen))
    fixed = problem.row_shards(cells)
    for h in chosen:
        fixed[h % problem.rows, h // problem.rows] = -1
    part = replace(
        problem, loads=problem.loads[units], attention=problem.attention[units], lengths=problem.lengths[units], sizes=problem.sizes[units]
    )
    of_slot = cells[units] // (problem.rows * problem.slots) * problem.slots + cells[units] % problem.slots
    samples = np.bincount(of_slot, problem.sizes[units], problem.shards * problem.slots).astype(np.int64)

    def whole(some: IntArray) -> IntArray:
        merged = cells.copy()
        merged[units] = some
        return merged

    def judge(some: IntArray) -> tuple[str | None, Score]:
        return problem.fault(whole(some)), problem.score(whole(some))

    formulation = EdpLayout(part, fixed=fixed, samples_of_slot=samples)
    found = lexicographic(formulation, judge, cells[units], budget, settings)
    return whole(found.answer)
