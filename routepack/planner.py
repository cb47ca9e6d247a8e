"""The whole road: place experts, decide and prove rows, lay samples out, re-place, verify."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from routepack.budget import Budget
from routepack.cost_model import CostModel
from routepack.errors import InvalidInstance
from routepack.fewest_rows import Rows, decide_rows
from routepack.heuristics import placement as placements
from routepack.heuristics.annealing import anneal, anneal_single, multi_start
from routepack.heuristics.baselines import first_fit_rows, karmarkar_karp, row_by_row
from routepack.heuristics.migration import place_from, relabel
from routepack.heuristics.problem import Problem, make_problem
from routepack.heuristics.rows_placement import Replacer
from routepack.heuristics.search import Found, Search, SearchParams
from routepack.heuristics.seeds import fresh_layout, seed_layouts
from routepack.instance import Instance, Options, Oversize, Sync
from routepack.plan import Layout, Placement, Plan
from routepack.result import Method, Result
from routepack.topology import Topology
from routepack.verify import recompute_bound, verify_plan, verify_rows
from routepack.window import IntArray, Window

METHODS = {
    "anneal": "population annealing from LPT + swaps, experts re-placed for the rows (default)",
    "annealing-single": "simulated annealing of one chain, otherwise the same",
    "multi-start": "descents from one random start after another, otherwise the same",
    "lpt-ffd": "LPT placement and first-fit decreasing: the paper's reorder arm",
    "identity-ffd": "identity placement and first-fit decreasing by length: the paper's baseline",
    "kk": "identity placement and Karmarkar-Karp on a length cost, as verl, slime and prime-rl balance",
}
SEARCHES = ("anneal", "annealing-single", "multi-start")
DEFAULT_SECONDS = 1.0
PATIENCE = 40_000
MOST_CHAINS = 64


def layout_of(problem: Problem, cells: IntArray, unit_of_sample: IntArray) -> Layout:
    """Layout of units at these places, shape (units,)."""
    slots: list[list[list[int]]] = [[[] for _ in range(problem.rows)] for _ in range(problem.shards * problem.slots)]
    for i, unit in enumerate(unit_of_sample.tolist()):
        row_shard, d = divmod(int(cells[unit]), problem.slots)
        shard, row = divmod(row_shard, problem.rows)
        slots[shard * problem.slots + d][row].append(i)
    return Layout.from_lists(slots)


def _search(
    instance: Instance, method: str, rows: Rows, ranks: IntArray, budget: Budget, seed: int, threads: int, compiled: bool, replace: bool
) -> Found:
    """Search for a layout, and for the placement that suits its rows if experts may be re-placed."""
    problem = make_problem(instance, ranks, rows.count)
    rng = np.random.Generator(np.random.Philox(key=[seed, 1]))
    params = SearchParams()
    chains = params.replicas if budget.seconds is None else threads  # under an attempt cap the plan must not depend on the threads
    layouts = seed_layouts(problem, rows.packed, 1 if method == "annealing-single" else min(chains, MOST_CHAINS), rng)
    search = Search(
        problem,
        ranks,
        layouts,
        seed,
        budget,
        params=params,
        threads=threads,
        fresh=lambda rng: fresh_layout(problem, rows.packed, rng),
        compiled=compiled,
        replacer=Replacer(instance, problem.rows * problem.shards) if replace else None,
    )
    if method == "multi-start":
        return multi_start(search, PATIENCE)
    return (anneal if method == "anneal" else anneal_single)(search)


def solve(
    instance: Instance,
    *,
    method: str = "anneal",
    budget: Budget | None = None,
    seed: int = 0,
    threads: int | None = None,
    backend: str = "numba",
    replace: bool = True,
    max_moves: int | None = None,
    tolerance: float | None = None,
) -> Result:
    """
    Plan an instance and verify the plan.

    Parameters
    ----------
    instance
        What is asked.
    method
        Key of `METHODS`.
    budget
        Time limit, attempt cap, interruption and progress; one second if not given. Under an attempt cap alone the same seed gives the same
        plan, whatever the number of threads.
    seed
        Seed of every random draw, in [0, 2**32).
    threads
        Threads; all cores if not given.
    backend
        ``"numba"``, or ``"numpy"`` for the readable reference.
    replace
        Re-place experts for the rows that were laid out, and lay out again.
    max_moves, tolerance
        Limits of moving from ``current_placement``: experts a layer, and excess over the layer's bound that is left as it is. Either turns
        re-placement off.

    Raises
    ------
    Infeasible
        No plan exists, or none was found; with reason and remedy.
    InvalidInstance
        An argument is wrong.
    """
    if method not in METHODS:
        raise InvalidInstance(f"method = {method!r} is unknown; choose one of {', '.join(METHODS)}.")
    if backend not in ("numba", "numpy"):
        raise InvalidInstance(f"backend = {backend!r} is unknown; choose numba or numpy.")
    if not 0 <= seed < 1 << 32:
        raise InvalidInstance(f"seed = {seed} is outside [0, 2**32); choose another.")
    budget = budget or Budget(seconds=DEFAULT_SECONDS)
    started = time.monotonic()
    rows = decide_rows(instance, budget.interrupted)
    threads = threads or os.cpu_count() or 1
    ranks = _place(instance, method, max_moves, tolerance)
    attempts = 0
    if method in SEARCHES:
        again = replace and max_moves is None and tolerance is None
        found = _search(instance, method, rows, ranks, budget, seed, threads, backend == "numba", again)
        ranks, cells, attempts = found.rank_of_expert, found.cells, found.attempts
    else:
        rows, cells = _lay_out_by_length(instance, method, rows, ranks)
    if instance.current_placement is not None and max_moves is None and method not in ("identity-ffd", "kk"):
        ranks = relabel(ranks, instance.current_placement, instance.topology.ep)
    problem = make_problem(instance, ranks, rows.count)
    plan = Plan(Placement(ranks), layout_of(problem, cells, instance.unit_of_sample))
    cost = verify_plan(instance, plan)
    return Result(
        instance.name,
        instance.sha256(),
        plan,
        cost,
        verify_rows(instance, rows.count, rows.certificate),
        recompute_bound(instance, None),
        recompute_bound(instance, plan.placement),
        Method(method, seed, attempts, time.monotonic() - started),
        budget.interrupted(),
    )


def _place(instance: Instance, method: str, max_moves: int | None, tolerance: float | None) -> IntArray:
    window, ranks = instance.window, instance.topology.ep
    loads = window.demand.sum(axis=0, dtype=np.int64)
    if method in ("identity-ffd", "kk"):
        return placements.identity(window.num_layers, window.num_experts, ranks)
    if method == "lpt-ffd":
        return placements.lpt(loads, ranks)
    if instance.current_placement is not None:
        return place_from(instance.current_placement, loads, ranks, max_moves=max_moves, tolerance=tolerance)
    if max_moves is not None or tolerance is not None:
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


def plan_window(
    lengths: ArrayLike,
    demand: ArrayLike,
    topology: Topology,
    *,
    token_cap: int,
    cost: CostModel | None = None,
    length_multiple: int = 1,
    row_multiple: int = 1,
    oversize: Oversize = "error",
    equal_samples: bool = False,
    keep_together: Sequence[Sequence[int]] = (),
    sync: Sync = "shard",
    current_placement: ArrayLike | None = None,
    sample_ids: Sequence[str] | Sequence[int] | None = None,
    top_k: int | None = None,
    time_limit: float | None = None,
    attempts: int | None = None,
    interrupted: Callable[[], bool] | None = None,
    **search: Any,
) -> Result:
    """
    Plan one window from arrays: the call for a training loop.

    Parameters
    ----------
    lengths
        Tokens of each sample, shape (N,).
    demand
        Token-slots of sample i for expert e at MoE layer l, shape (N, L, E), integers; int32 is used without a copy.
    topology
        ``Topology.of(dp, ep, edp)`` or ``Topology.from_trainer(world, tp=…, …)``.
    token_cap
        Tokens that one microbatch of one DP slot may hold.
    cost, length_multiple, row_multiple, oversize, equal_samples, keep_together, sync, current_placement, sample_ids, top_k
        As for `Instance`, `Options` and `Window`.
    time_limit, attempts
        Seconds, and proposals, to spend; one second if neither is given.
    interrupted
        Asked between sweeps; true returns the best plan so far.
    search
        ``method``, ``seed``, ``threads``, ``backend``, ``replace``, ``max_moves``, ``tolerance`` as for `solve`.

    Returns
    -------
    Result
        ``placement[l][e]`` is the EP rank of expert e and ``layout[d][r]`` the samples of row r on slot d, as plain lists.

    Raises
    ------
    InvalidInstance, Infeasible
        As `solve`.
    """
    window = Window(lengths, demand, sample_ids, top_k=top_k)  # type: ignore[arg-type]
    options = Options(oversize, equal_samples, keep_together, sync)  # type: ignore[arg-type]
    instance = Instance(
        window,
        topology,
        token_cap,
        length_multiple=length_multiple,
        row_multiple=row_multiple,
        cost=cost or CostModel(),
        options=options,
        current_placement=current_placement,  # type: ignore[arg-type]
    )
    if time_limit is None and attempts is None:
        time_limit = DEFAULT_SECONDS
    budget = Budget(time_limit, attempts, interrupted or (lambda: False))
    return solve(instance, budget=budget, **search)
