"""Exact methods on top of a plan that is already there: proofs for small windows, neighbourhoods for large ones."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from routepack.budget import Budget
from routepack.errors import InvalidInstance
from routepack.exact import ExactOutcome, Settings, solve_exact
from routepack.exact_placement import solve_joint
from routepack.exact_subsets import solve_by_subsets
from routepack.instance import Instance
from routepack.layout_problem import LayoutProblem
from routepack.neighbourhood import improve_by_lns
from routepack.plan import Placement
from routepack.solvers.outcome import Status
from routepack.verify import SolverClaim
from routepack.window import IntArray

EXACT = ("cp-sat", "milp", "subset-dp")
NEIGHBOURHOODS = ("lns", "anneal+lns")
JOINT_UNITS, JOINT_EXPERTS = 12, 32
SLICES = 20
ONES = np.ones(2, dtype=np.int64)
SMALLEST = LayoutProblem(ONES[:, None, None], ONES[:, None], ONES, ONES, token_cap=1, rows=2, shards=1, slots=1)
MAX_TERMS = 100_000  # of loads in a model: larger ones take longer to build than a time limit allows


@dataclass(frozen=True, slots=True)
class Refined:
    """A placement, shape (L, E), the cell of each unit by place, shape (units,), and what an engine claims about them."""

    rank_of_expert: IntArray
    cells: IntArray
    claim: SolverClaim | None = None


def load_engine(method: str) -> None:
    """Import or compile what a method solves with: it takes seconds, which a time limit should not pay for."""
    modules = {"milp": ("pyomo.environ", "highspy"), "subset-dp": ()}.get(method, ("ortools.sat.python.cp_model",))
    for module in modules if method in (*EXACT, *NEIGHBOURHOODS) else ():
        import_module(module)
    if method == "subset-dp":
        solve_by_subsets(SMALLEST)


def refine(
    instance: Instance,
    method: str,
    start: Refined,
    num_rows: int,
    budget: Budget,
    *,
    seed: int,
    threads: int,
    replace: bool,
    solver: str = "highs",
    log: Path | None = None,
) -> Refined:
    """
    Improve a plan until it is proved optimal by an engine, or the budget ends; the result is never worse.

    Tiny windows, of at most 12 units and 32 experts over all layers, are placed and laid out together if experts may move; for others the
    placement stays and the engine speaks of layouts under it.

    Parameters
    ----------
    instance, num_rows
        What is planned.
    method
        ``cp-sat``, ``milp``, ``subset-dp``, ``lns`` or ``anneal+lns``.
    start
        The plan to begin with.
    budget
        Time limit, interruption and progress. Without a time limit neighbourhood search makes 20 steps.
    seed, threads
        Of the engine.
    replace
        Whether experts may change their ranks.
    solver
        Solver of ``milp``: ``highs`` or any that Pyomo knows.
    log
        File for the engine's log.

    Raises
    ------
    InvalidInstance
        The solver is not installed, or the window is too large to be modelled whole.
    """
    settings = Settings("milp" if method == "milp" else "cp-sat", solver, threads, seed, log)
    placement = Placement(start.rank_of_expert)
    if method in NEIGHBOURHOODS:
        problem = LayoutProblem.of(instance, placement, num_rows)
        limit = Budget(budget.seconds, SLICES if budget.seconds is None else None, budget.interrupted, budget.report, budget.started)
        return Refined(start.rank_of_expert, improve_by_lns(problem, start.cells, budget=limit, seed=seed, settings=settings))
    if method == "subset-dp":
        outcome = solve_by_subsets(LayoutProblem.of(instance, placement, num_rows), start.cells, budget=budget)
        assert outcome.cells is not None
        return Refined(start.rank_of_expert, outcome.cells, _claim(outcome, joint=False))
    window, topology = instance.window, instance.topology
    terms = len(start.cells) * num_rows * topology.num_shards * window.num_layers * topology.ep
    if terms > MAX_TERMS:
        raise InvalidInstance(f"method = {method!r} builds {terms:,} terms for this window, over {MAX_TERMS:,}; use anneal or anneal+lns.")
    joint = replace and len(start.cells) <= JOINT_UNITS and window.num_layers * window.num_experts <= JOINT_EXPERTS
    if joint:
        outcome = solve_joint(instance, num_rows, (start.cells, placement), budget=budget, settings=settings)
    else:
        outcome = solve_exact(instance, placement, num_rows, start.cells, budget=budget, settings=settings)
    assert outcome.cells is not None
    ranks = start.rank_of_expert if outcome.placement is None else outcome.placement.rank_of_expert
    return Refined(ranks, outcome.cells, _claim(outcome, joint=joint))


def _claim(outcome: ExactOutcome, *, joint: bool) -> SolverClaim:
    optimal = outcome.status is Status.OPTIMAL
    by = outcome.contradiction or outcome.passes[-1].message
    return SolverClaim(by, "optimal" if optimal else "feasible", outcome.bound, "any placement" if joint else "this placement")
