"""One run of a study: plan, verify, and put down what came of it, whatever came of it."""

import platform
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from routepack import __version__
from routepack.budget import Budget, Progress
from routepack.errors import Infeasible, InvalidInstance
from routepack.heuristics.packing_greedy import first_fit_decreasing
from routepack.instance import Instance
from routepack.instances.generators import generate
from routepack.plan import Placement
from routepack.planner import METHODS, solve
from routepack.result import Result
from routepack.rows import settle
from routepack.studies.records import Key, Record, Step, limit_text
from routepack.studies.suites import Case, Question

FIXED = ":fixed"
ROW_METHODS = {
    "first-fit": "first-fit decreasing, rows only",
    "settle": "greedy packings, dual feasible functions, column generation and dives, rows only",
}
THREADS = 1  # of a run, so that methods get equal processor time
WARM_ATTEMPTS = 100_000  # enough for experts to be re-placed on the way


@dataclass(frozen=True, slots=True)
class Run:
    """
    What is to be done: window x method x limit x seed.

    Parameters
    ----------
    case, sha256
        The window, and its fingerprint when the study began; empty where it cannot be read.
    method
        Key of the planner's methods, followed by ``:fixed`` if experts are not to be re-placed for rows; or a key of `ROW_METHODS`.
    time_limit, attempts_limit
        Seconds and proposals.
    seed
        Of every random draw.
    """

    case: Case
    instance: str
    sha256: str
    method: str
    time_limit: float | None
    attempts_limit: int | None
    seed: int

    @property
    def key(self) -> Key:
        """The key that its record will have."""
        return (self.instance, self.sha256, self.method, limit_text(self.time_limit, self.attempts_limit), self.seed)

    def record(self, status: str, **values: Any) -> Record:
        """Write down what came of it."""
        return Record(
            self.case.suite,
            self.instance,
            self.sha256,
            self.method,
            self.time_limit,
            self.attempts_limit,
            self.seed,
            status,
            versions=_versions(),
            machine=platform.node(),
            **values,
        )


def check_method(name: str) -> str:
    """
    Return the name of a method of studies.

    Raises
    ------
    InvalidInstance
        It is unknown; the known ones are listed.
    """
    if name in ROW_METHODS or name.removesuffix(FIXED) in METHODS:
        return name
    known = ", ".join([*METHODS, *ROW_METHODS])
    raise InvalidInstance(f"method = {name!r} is unknown; choose from {known}; {FIXED} behind a name keeps its placement.")


@cache
def _versions() -> dict[str, str]:
    return {"routepack": __version__, "python": platform.python_version(), "numpy": np.__version__}


@cache
def _compile(method: str) -> None:
    """Compile what a method needs, or load it compiled, outside the time limit of a run."""
    tiny = generate(samples=24, token_cap=1024, seed=0, dp=4, ep=2, edp=2, layers=2, experts=8, top_k=2)
    if method in ROW_METHODS:
        settle(tiny.window.lengths, tiny.token_cap, budget=Budget(attempts=1))
    else:
        solve(tiny, method=method.removesuffix(FIXED), budget=Budget(0.5, WARM_ATTEMPTS), threads=THREADS)


def execute(run: Run) -> Record:
    """Do one run; an error becomes a record like any other."""
    try:
        question = run.case.load()
        _compile(run.method)
        return _settle(run, question) if run.method in ROW_METHODS else _plan(run, question)
    except Infeasible as fault:
        return run.record("infeasible", error=_line(fault))
    except Exception as fault:
        return run.record("failed", error=_line(fault))


def _line(fault: Exception) -> str:
    return " ".join(f"{type(fault).__name__}: {fault}".split())


def _plan(run: Run, question: Question) -> Record:
    steps: list[Step] = []

    def note(progress: Progress) -> None:
        if progress.score is not None and (not steps or progress.score < steps[-1].score):
            steps.append(Step(progress.seconds, progress.attempts, progress.score))

    fixed = run.method.endswith(FIXED) or question.placement is not None
    budget = Budget(run.time_limit, run.attempts_limit, report=note)
    result = solve(
        question.instance, method=run.method.removesuffix(FIXED), budget=budget, seed=run.seed, threads=THREADS, replace=not fixed
    )
    if not steps or result.score.makespan < steps[-1].score:
        steps.append(Step(result.method.seconds, result.method.attempts, result.score.makespan))
    bound = result.placement_bound if fixed else result.bound
    return run.record(
        result.status,
        score=result.score,
        bound=bound.value,
        gap=bound.gap(result.score.makespan),
        optimum=optimum_of(question, result),
        rows=result.rows.count,
        rows_status=result.rows.status,
        expert=int(result.cost.expert.sum()),
        largest_peak=result.cost.largest_peak,
        attention=int(result.cost.attention.sum()),
        rank_variation=rank_variation(question.instance, result.plan.placement),
        seconds=result.method.seconds,
        attempts=result.method.attempts,
        trajectory=tuple(steps),
    )


def optimum_of(question: Question, result: Result) -> int | None:
    """Give the proven optimum, if it is known for the placement of this plan."""
    if question.placement is None or question.optimum is None:
        return None
    same = np.array_equal(question.placement.rank_of_expert, result.plan.placement.rank_of_expert)
    return question.optimum.makespan if same else None


def rank_variation(instance: Instance, placement: Placement) -> float:
    """Coefficient of variation of the ranks' loads over the window: standard deviation over mean, averaged over layers with load."""
    loads = placement.project(instance.window.demand.sum(axis=0, dtype=np.int64), instance.topology.ep)  # (layer, rank)
    mean = loads.mean(axis=1)
    used = mean > 0
    return float((loads[used].std(axis=1) / mean[used]).mean()) if used.any() else 0.0


def _settle(run: Run, question: Question) -> Record:
    instance = question.instance
    lengths, cap = instance.unit_lengths(), instance.token_cap
    budget = Budget(run.time_limit, run.attempts_limit)
    if run.method == "first-fit":
        cells, needed = int(first_fit_decreasing(lengths, cap).max()) + 1, -(-int(lengths.sum()) // cap)
    else:
        found = settle(lengths, cap, instance.topology.dp, instance.row_multiple, budget)
        cells, needed = found.cells, found.needed
    rows, least = instance.rows_for(cells), instance.rows_for(needed)
    return run.record(
        "optimal" if rows == least else "feasible",
        bound=least,
        gap=(rows - least) / least,
        optimum=None if question.fewest_cells is None else instance.rows_for(question.fewest_cells),
        rows=rows,
        rows_status="proved" if rows == least else f"best known, at least {least}",
        seconds=budget.elapsed(),
    )
