"""Exact layout and placement: a formulation, an engine, and the recomputation of whatever it says."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from routepack.bounds.dantzig_wolfe import dantzig_wolfe_bound
from routepack.budget import Budget
from routepack.cost import Score
from routepack.errors import InvalidInstance
from routepack.formulations.edp_layout import EdpLayout
from routepack.formulations.language import Encoding
from routepack.instance import Instance
from routepack.layout_problem import LayoutProblem
from routepack.plan import Placement
from routepack.row_shard_certificate import MAX_UNITS
from routepack.solvers import cp_sat, milp
from routepack.solvers.outcome import Outcome, Status
from routepack.window import IntArray

Engine = Literal["cp-sat", "milp"]


@dataclass(frozen=True, slots=True)
class Settings:
    """
    How an engine is run.

    Parameters
    ----------
    engine
        ``"cp-sat"`` or ``"milp"``.
    solver
        Solver of the MILP: ``"highs"`` or any that Pyomo knows.
    threads, seed
        Threads and random seed.
    log
        File for the engine's log.
    """

    engine: Engine = "cp-sat"
    solver: str = "highs"
    threads: int = 1
    seed: int = 0
    log: Path | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ExactOutcome:
    """
    What came out, recomputed in integers, beside what the engine claims.

    Parameters
    ----------
    cells
        Cell of each unit, never worse than the hint; ``None`` where there is no solution.
    placement
        Placement that was decided with the cells, or was given.
    score
        Recomputed score.
    passes
        The engine's outcome for each component of the score, as far as they were solved.
    contradiction
        Where recomputation contradicts the engine, what it is; the engine then proves nothing.
    """

    cells: IntArray | None
    placement: Placement | None
    score: Score | None
    passes: tuple[Outcome, ...]
    contradiction: str | None = None

    @property
    def status(self) -> Status:
        """``optimal`` when every pass is and recomputation agrees; the status of the first pass where there is no solution."""
        if self.cells is None:
            return self.passes[0].status if self.contradiction is None else Status.ERROR
        proved = len(self.passes) == len(Score._fields) and all(p.status is Status.OPTIMAL for p in self.passes)
        return Status.OPTIMAL if proved and self.contradiction is None else Status.FEASIBLE

    @property
    def bound(self) -> int | None:
        """Lower bound on the first component of the score that the engine claims for this placement and number of rows."""
        if self.contradiction is not None or not self.passes:
            return None
        return self.passes[0].bound


class Formulation(Protocol):
    """What is needed of a formulation here; an answer is a cell for each unit, or that and a placement."""

    def encode(self, engine: str, hint: Any = None) -> Encoding:
        """Build the model."""

    def decode(self, values: Any) -> Any:
        """Read the answer from the decisions' values."""


Judge = Callable[[Any], tuple[str | None, Score]]
"""Recompute an answer: which constraint it breaks, if any, and its score."""


def run_engine(encoding: Encoding, objective: Any, budget: Budget, settings: Settings) -> Outcome:
    """Minimise one expression with the engine of the settings."""
    common = {"threads": settings.threads, "seed": settings.seed, "log": settings.log}
    if settings.engine == "cp-sat":
        return cp_sat.solve(encoding.model, encoding.decisions, objective, budget, **common)  # type: ignore[arg-type]
    return milp.solve(encoding.model, encoding.decisions, objective, budget, solver=settings.solver, **common)  # type: ignore[arg-type]


def solve_exact(
    instance: Instance,
    placement: Placement,
    num_rows: int,
    hint: IntArray | None = None,
    *,
    budget: Budget | None = None,
    settings: Settings | None = None,
) -> ExactOutcome:
    """
    Lay out a window for a placement and a number of rows, to proved optimality if the budget allows.

    Parameters
    ----------
    instance, placement, num_rows
        What is laid out.
    hint
        Cell of each unit in a known layout, shape (units,); see `routepack.layout_problem.cells_of_layout`.
    budget
        Time limit, interruption and progress of all passes together.
    settings
        Engine, threads, seed and log.

    Raises
    ------
    InvalidInstance
        The hint is no layout, or the solver is not installed.
    Infeasible
        A unit exceeds the cap.
    """
    problem = LayoutProblem.of(instance, placement, num_rows)
    return replace(solve_layout(problem, hint, budget=budget, settings=settings), placement=placement)


def solve_layout(
    problem: LayoutProblem, hint: IntArray | None = None, *, budget: Budget | None = None, settings: Settings | None = None
) -> ExactOutcome:
    """Do the same for a layout problem in plain integers."""
    fault = None if hint is None else problem.fault(hint)
    if fault:
        raise InvalidInstance(f"hint is no layout: {fault}")
    certificate = dantzig_wolfe_bound(problem) if problem.num_units <= MAX_UNITS else None
    bound = 0 if certificate is None else certificate.value(problem)

    def judge(cells: IntArray) -> tuple[str | None, Score]:
        return problem.fault(cells), problem.score(cells)

    found = lexicographic(EdpLayout(problem, bound=bound), judge, hint, budget or Budget(), settings or Settings())
    return ExactOutcome(found.answer, None, found.score, found.passes, found.contradiction)


@dataclass(frozen=True, slots=True, eq=False)
class Passes:
    """Best answer of the passes over the components of the score, its recomputed score, and where the engine was contradicted."""

    answer: Any
    score: Score | None
    passes: tuple[Outcome, ...]
    contradiction: str | None


def lexicographic(formulation: Formulation, judge: Judge, hint: Any, budget: Budget, settings: Settings) -> Passes:
    """Minimise the components of the score one after the other, each under the optima of those before it."""
    best, score = hint, None if hint is None else judge(hint)[1]
    passes, contradiction = list[Outcome](), None
    for k in range(len(Score._fields)):
        encoding = formulation.encode(settings.engine, best)
        for objective, optimum in zip(encoding.objectives[:k], score or (), strict=False):
            _require(encoding, objective <= optimum)
        outcome = run_engine(encoding, encoding.objectives[k], budget, settings)
        passes.append(outcome)
        if outcome.values:
            found = formulation.decode(outcome.values)
            fault, value = judge(found)
            contradiction = _contradiction(fault, value, outcome, k)
            if fault is None and (score is None or value < score):
                best, score = found, value
        elif outcome.status is Status.INFEASIBLE and best is not None:
            contradiction = f"{outcome.message}, but a solution is known"
        if outcome.status is not Status.OPTIMAL or contradiction is not None or best is None:
            break
    return Passes(best, score, tuple(passes), contradiction)


def _contradiction(fault: str | None, score: Score, outcome: Outcome, component: int) -> str | None:
    if fault is not None:
        return f"{outcome.message}, but its solution is none: {fault}"
    if outcome.status is Status.OPTIMAL and score[component] != outcome.objective:
        return f"{outcome.message} with {Score._fields[component]} {outcome.objective}, but recomputation gives {score[component]}"
    return None


def _require(encoding: Encoding, constraint: Any) -> None:
    add: Callable[[Any], Any] = encoding.model.add if hasattr(encoding.model, "add_hint") else encoding.model.constraints.add
    add(constraint)
