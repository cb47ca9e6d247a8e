"""The whole road: place experts, decide and prove rows, lay samples out, re-place, verify."""

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from numpy.typing import ArrayLike

from routepack.bounds.score import best_cheap_bound
from routepack.budget import Budget
from routepack.cost_model import CostModel
from routepack.errors import InvalidInstance
from routepack.fewest_rows import Rows, decide_rows, with_count
from routepack.instance import Instance, Options, Oversize, Sync
from routepack.islands import run_islands
from routepack.layout_problem import cells_of_layout
from routepack.methods import METHODS, SEARCHES, START_SHARE, How, run
from routepack.net_gain import settle_moves
from routepack.plan import Plan
from routepack.refinement import load_engine
from routepack.result import Result
from routepack.rows_tradeoff import trade_off
from routepack.topology import Topology, positive
from routepack.verify import recompute_bound, verify_plan
from routepack.window import Window

__all__ = ["METHODS", "plan_window", "solve"]

DEFAULT_SECONDS = 1.0
CLOSE = 0.02  # a gap to closed forms that is left as it is
RowChoice = Literal["min", "auto"]


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
    move_cost: float | None = None,
    solver: str = "highs",
    log: Path | None = None,
    rows: int | RowChoice = "min",
    row_overhead: int = 0,
    islands: int = 1,
    island_backend: str = "loky",
    start: Plan | None = None,
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
    move_cost
        Ticks that one expert takes from rank to rank; a layer whose moves cost more than they save keeps its current placement.
    solver, log
        For exact methods: the solver of ``milp``, and a file for the engine's log.
    rows, row_overhead
        ``"min"`` for the fewest rows, a number, or ``"auto"``: as many as pay when each costs ``row_overhead`` ticks beside its tokens.
    islands, island_backend
        Independent searches that exchange the best, and the joblib backend that runs them; see `routepack.islands`.
    start
        A plan to begin with; its number of rows is kept.

    Raises
    ------
    Infeasible
        No plan exists, or none was found; with reason and remedy.
    InvalidInstance
        An argument is wrong.
    InvalidPlan
        The start is no plan of this instance.
    """
    budget = budget or Budget(seconds=DEFAULT_SECONDS)
    _check(method, backend, seed, rows, row_overhead, islands, start, budget)
    began = time.monotonic()
    fewest = decide_rows(instance, budget.interrupted)
    threads = threads or os.cpu_count() or 1
    jobs = min(islands, threads)
    how = How(method, seed, threads // jobs, backend == "numba", replace, max_moves, tolerance, solver, log)

    def plan(count: int, budget: Budget, start: Plan | None) -> Result:
        start = start if method in SEARCHES or method in START_SHARE else None
        chosen = with_count(instance, fewest, count) if start is None else _rows_of(instance, start, fewest)
        if islands == 1:
            return run(instance, chosen, how, budget=budget, seed=seed, start=start)
        search = partial(run, instance, chosen, how)
        return run_islands(search, islands, budget, seed, start=start, backend=island_backend, jobs=jobs)

    if rows == "auto":
        counts = range(fewest.count, len(instance.unit_lengths()) // instance.topology.dp + 1, instance.row_multiple)
        result = trade_off(plan, counts, row_overhead, recompute_bound(instance, None).value, budget)
    else:
        count = fewest.count if rows == "min" else positive("rows", rows)
        if start is not None:
            verify_plan(instance, start)
            if rows not in ("min", start.layout.num_rows):
                raise InvalidInstance(f"rows = {rows} but start has {start.layout.num_rows}; give the same number, or min.")
        result = plan(count, budget, start)
    if move_cost is not None:
        result = settle_moves(instance, result, move_cost)
    if not result.interrupted:
        result = _with_proofs(instance, result)
    return dataclasses.replace(result, method=dataclasses.replace(result.method, seconds=time.monotonic() - began))


def _with_proofs(instance: Instance, result: Result) -> Result:
    """Hold the score against stronger bounds where closed forms leave a gap."""
    bound = result.bound
    if (result.gap or 0.0) > CLOSE:
        bound = best_cheap_bound(instance, bound, result.rows.count)
    return dataclasses.replace(result, bound=bound, placement_bound=max(result.placement_bound, bound, key=lambda proof: proof.value))


def _check(
    method: str,
    backend: str,
    seed: int,
    rows: int | RowChoice,
    row_overhead: int,
    islands: int,
    start: Plan | None,
    budget: Budget,
) -> None:
    if method not in METHODS:
        raise InvalidInstance(f"method = {method!r} is unknown; choose one of {', '.join(METHODS)}.")
    if backend not in ("numba", "numpy"):
        raise InvalidInstance(f"backend = {backend!r} is unknown; choose numba or numpy.")
    if not 0 <= seed < 1 << 32:
        raise InvalidInstance(f"seed = {seed} is outside [0, 2**32); choose another.")
    if isinstance(rows, str):
        if rows not in get_args(RowChoice):
            raise InvalidInstance(f"rows = {rows!r} is no number; give one, min or auto.")
    else:
        positive("rows", rows)
    if row_overhead:
        positive("row_overhead", row_overhead)
    positive("islands", islands)
    if (islands > 1 or start is not None) and method not in SEARCHES and method not in START_SHARE:
        raise InvalidInstance(f"method = {method!r} does not search; islands and start are for methods that do.")
    if start is not None and rows == "auto":
        raise InvalidInstance("rows = auto and start are both given; a start keeps its number of rows.")
    if (islands > 1 or rows == "auto") and budget.seconds is None and budget.attempts is None:
        raise InvalidInstance("islands and rows = auto divide the budget; give a time limit or an attempt cap.")


def _rows_of(instance: Instance, start: Plan, fewest: Rows) -> Rows:
    return Rows(start.layout.num_rows, cells_of_layout(instance, start.layout), fewest.certificate)


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
        ``method``, ``seed``, ``threads``, ``backend``, ``replace``, ``max_moves``, ``tolerance``, ``solver``, ``log``, ``rows``,
        ``row_overhead``, ``islands``, ``start`` as for `solve`.

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
    load_engine(search.get("method", ""))
    budget = Budget(time_limit, attempts, interrupted or (lambda: False))
    return solve(instance, budget=budget, **search)
