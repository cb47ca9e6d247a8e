"""The methods of planning, and one run of one of them: place, lay out in a given number of rows, re-place, verify."""

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from routepack.budget import Budget
from routepack.errors import InvalidInstance
from routepack.fewest_rows import Rows
from routepack.heuristics import placement as placements
from routepack.heuristics.annealing import anneal, anneal_single, multi_start
from routepack.heuristics.baselines import first_fit_rows, karmarkar_karp, row_by_row
from routepack.heuristics.migration import place_from, relabel
from routepack.heuristics.problem import Problem, make_problem
from routepack.heuristics.rows_placement import Replacer
from routepack.heuristics.search import Search
from routepack.heuristics.seeds import fresh_layout, seed_layouts
from routepack.heuristics.terms import Found, SearchParams
from routepack.instance import Instance
from routepack.layout_problem import cells_of_layout, layout_of_cells
from routepack.plan import Placement, Plan
from routepack.refinement import EXACT, Refined, refine
from routepack.result import Method, Result
from routepack.verify import recompute_bound, verify_plan, verify_rows
from routepack.window import IntArray

METHODS = {
    "anneal": "population annealing from LPT + swaps, experts re-placed for the rows (default)",
    "annealing-single": "simulated annealing of one chain, otherwise the same",
    "multi-start": "descents from one random start after another, otherwise the same",
    "anneal+lns": "anneal, then exact re-solves of two or three row-shards by CP-SAT",
    "lns": "exact re-solves of two or three row-shards by CP-SAT, from the packing",
    "cp-sat": "a short anneal, then CP-SAT to an optimum that it claims; for small windows",
    "milp": "a short anneal, then a MILP solver to an optimum that it claims; for small windows",
    "subset-dp": "a short anneal, then the optimal layout under its placement by dynamic programming; at most 20 units",
    "lpt-ffd": "LPT placement and first-fit decreasing: the paper's reorder arm",
    "identity-ffd": "identity placement and first-fit decreasing by length: the paper's baseline",
    "kk": "identity placement and Karmarkar-Karp on a length cost, as verl, slime and prime-rl balance",
}
SEARCHES = ("anneal", "annealing-single", "multi-start")
START_SHARE = {"anneal+lns": 0.5, "lns": 0.0, "cp-sat": 0.2, "milp": 0.2, "subset-dp": 0.2}
MOST_START = 2.0
PATIENCE = 40_000
MOST_CHAINS = 64
FADING = ("smooth", "level")  # weights of a search that fall as the root of the temperature


@dataclass(frozen=True, slots=True)
class How:
    """Arguments of `routepack.planner.solve` that the stages of a run share."""

    method: str
    seed: int
    threads: int
    compiled: bool
    replace: bool
    max_moves: int | None
    tolerance: float | None
    solver: str
    log: Path | None
    start: IntArray | None = None  # cell of each unit by place, to begin with
    span: tuple[float, float] = (0.0, 1.0)  # part of the way from hot to cold that is annealed

    @property
    def may_replace(self) -> bool:
        """Whether experts may be re-placed for rows: not when moving is limited."""
        return self.replace and self.max_moves is None and self.tolerance is None


def _seeds(problem: Problem, rows: Rows, count: int, rng: np.random.Generator, how: How) -> list[IntArray]:
    """Start layouts; all are the given one where annealing goes on from a colder temperature."""
    if how.start is not None and how.span[0] > 0:
        return [how.start] * count
    layouts = seed_layouts(problem, rows.packed, count, rng)
    return layouts if how.start is None else [how.start, *layouts[1:]]


def _params(span: tuple[float, float]) -> SearchParams:
    """Parameters of a search over a part of the way from hot to cold, on the logarithmic scale."""
    params = SearchParams()
    if span == (0.0, 1.0):
        return params
    ratio = params.cold / params.hot
    first, last = (params.hot * ratio**share for share in span)
    cooled = (first / params.hot) ** 0.5
    faded = {field.name: getattr(params, field.name) * cooled for field in dataclasses.fields(params) if field.name in FADING}
    return dataclasses.replace(params, hot=first, cold=last, **faded)


def _search(instance: Instance, rows: Rows, ranks: IntArray, budget: Budget, how: How) -> Found:
    """Search for a layout, and for the placement that suits its rows if experts may be re-placed."""
    problem = make_problem(instance, ranks, rows.count)
    rng = np.random.Generator(np.random.Philox(key=[how.seed, 1]))
    params = _params(how.span)
    chains = params.replicas if budget.seconds is None else how.threads  # under an attempt cap the plan must not depend on the threads
    single = how.method == "annealing-single"
    search = Search(
        problem,
        ranks,
        _seeds(problem, rows, 1 if single else min(chains, MOST_CHAINS), rng, how),
        how.seed,
        budget,
        params=params,
        threads=how.threads,
        fresh=lambda rng: _seeds(problem, rows, 1, rng, how)[0] if how.span[0] > 0 else fresh_layout(problem, rows.packed, rng),
        compiled=how.compiled,
        replacer=Replacer(instance, problem.rows * problem.shards) if how.may_replace else None,
    )
    if how.method == "multi-start":
        return multi_start(search, PATIENCE)
    return (anneal_single if single else anneal)(search)


def _refine(instance: Instance, rows: Rows, ranks: IntArray, budget: Budget, how: How) -> tuple[Refined, int]:
    """Anneal for a part of the time, then let an exact method go on; return what it found and the proposals made."""
    first = START_SHARE[how.method]
    started = budget
    if budget.seconds is not None:
        limit = budget.elapsed() + first * (budget.seconds - budget.elapsed())
        started = dataclasses.replace(budget, seconds=min(limit, budget.elapsed() + MOST_START) if how.method in EXACT else limit)
    attempts = 0
    if first:
        found = _search(instance, rows, ranks, started, how)
        start, attempts = Refined(found.rank_of_expert, found.cells), found.attempts
    else:
        problem = make_problem(instance, ranks, rows.count)
        start = Refined(ranks, _seeds(problem, rows, 1, np.random.default_rng(how.seed), how)[0])
    refined = refine(
        instance,
        how.method,
        start,
        rows.count,
        budget,
        seed=how.seed,
        threads=how.threads,
        replace=how.may_replace,
        solver=how.solver,
        log=how.log,
    )
    return refined, attempts


def run(
    instance: Instance, rows: Rows, how: How, *, budget: Budget, seed: int, start: Plan | None, span: tuple[float, float] = (0.0, 1.0)
) -> Result:
    """Plan once with so many rows, from a start if one is given, over a part of the way from hot to cold."""
    began = time.monotonic()
    how = dataclasses.replace(how, seed=seed, start=None if start is None else cells_of_layout(instance, start.layout), span=span)
    method = how.method
    ranks = _place(instance, how) if start is None else start.placement.rank_of_expert
    attempts, claim = 0, None
    if method in SEARCHES:
        found = _search(instance, rows, ranks, budget, how)
        ranks, cells, attempts = found.rank_of_expert, found.cells, found.attempts
    elif method in START_SHARE:
        refined, attempts = _refine(instance, rows, ranks, budget, how)
        ranks, cells, claim = refined.rank_of_expert, refined.cells, refined.claim
    else:
        rows, cells = _lay_out_by_length(instance, method, rows, ranks)
    if instance.current_placement is not None and how.max_moves is None and method not in ("identity-ffd", "kk"):
        ranks = relabel(ranks, instance.current_placement, instance.topology.ep)
    plan = Plan(Placement(ranks), layout_of_cells(instance, rows.count, cells))
    cost = verify_plan(instance, plan)
    return Result(
        instance.name,
        instance.sha256(),
        plan,
        cost,
        verify_rows(instance, rows.count, rows.certificate),
        recompute_bound(instance, None, rows.count),
        recompute_bound(instance, plan.placement, rows.count),
        Method(method, seed, attempts, time.monotonic() - began),
        budget.interrupted(),
        claim,
    )


def _place(instance: Instance, how: How) -> IntArray:
    window, ranks = instance.window, instance.topology.ep
    loads = window.demand.sum(axis=0, dtype=np.int64)
    if how.method in ("identity-ffd", "kk"):
        return placements.identity(window.num_layers, window.num_experts, ranks)
    if how.method == "lpt-ffd":
        return placements.lpt(loads, ranks)
    if instance.current_placement is not None:
        return place_from(instance.current_placement, loads, ranks, max_moves=how.max_moves, tolerance=how.tolerance)
    if how.max_moves is not None or how.tolerance is not None:
        raise InvalidInstance("max_moves and tolerance need current_placement; give the placement that experts would move from.")
    return placements.lpt_swap(loads, ranks)


def _lay_out_by_length(instance: Instance, method: str, rows: Rows, ranks: IntArray) -> tuple[Rows, IntArray]:
    problem = make_problem(instance, ranks, rows.count)
    if method != "kk" or instance.options.equal_samples:
        return rows, first_fit_rows(problem, rows.packed)
    slots = instance.topology.dp
    cells = karmarkar_karp(problem.length[: problem.units], problem.cap, rows.count * slots, instance.row_multiple * slots)
    rows = Rows((int(cells.max()) + 1) // slots, cells, rows.certificate)
    return rows, row_by_row(problem._replace(rows=rows.count), cells)
