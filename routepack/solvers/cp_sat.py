"""CP-SAT of OR-tools [1]_.

References
----------
.. [1] Perron, L., F. Didier, and S. Gay (2023). The CP-SAT-LP solver. *CP 2023*. DOI 10.4230/LIPIcs.CP.2023.3.
"""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from routepack.budget import Budget
from routepack.solvers.outcome import Outcome, Status, reporter, seconds_left

POLL_SECONDS = 0.05
WITHOUT_LP = (
    "no_lp",
    "quick_restart_no_lp",
)  # with few workers: relaxations of layouts are weak, and cost CP-SAT time (docs/formulations.md)


def solve(
    model: Any, decisions: Sequence[Any], objective: Any, budget: Budget, *, threads: int = 1, seed: int = 0, log: Path | None = None
) -> Outcome:
    """
    Minimise an integer expression over a ``CpModel``.

    A watchdog stops the search at the end of the budget and on interruption; the incumbent is kept.

    Parameters
    ----------
    model
        The model; its hint, if any, is the start.
    decisions
        Variables whose values are returned.
    objective
        Integer-valued expression.
    budget
        Time limit, interruption and progress.
    threads, seed
        Workers and random seed.
    log
        File to append the engine's log to.
    """
    import ortools
    from ortools.sat.python import cp_model

    started = time.monotonic()
    report = reporter(budget, "cp-sat")

    class Stream(cp_model.CpSolverSolutionCallback):  # type: ignore[misc, unused-ignore]
        def on_solution_callback(self) -> None:
            report(self.objective_value, self.best_objective_bound)

    model.minimize(objective)
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers = threads
    parameters.random_seed = seed
    if threads <= len(WITHOUT_LP):
        parameters.subsolvers.extend(WITHOUT_LP[:threads])
    parameters.relative_gap_limit = 0.0
    parameters.absolute_gap_limit = 0.0
    left = seconds_left(budget)
    if left is not None:
        parameters.max_time_in_seconds = left
    lines: list[str] = []
    if log is not None:
        parameters.log_search_progress = True
        parameters.log_to_stdout = False
        solver.log_callback = lines.append
    solver.best_bound_callback = lambda bound: report(None, bound)
    finished = threading.Event()
    watchdog = threading.Thread(target=_watch, args=(solver, budget, finished), daemon=True)
    watchdog.start()
    try:
        code = solver.solve(model, Stream())
    finally:
        finished.set()
        watchdog.join()
    if log is not None:
        with log.open("a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    return _outcome(solver, code, decisions, time.monotonic() - started, str(getattr(ortools, "__version__", "")))


def _watch(solver: Any, budget: Budget, finished: threading.Event) -> None:
    while not finished.wait(POLL_SECONDS):
        if budget.used(0) >= 1:
            solver.stop_search()


def _outcome(solver: Any, code: Any, decisions: Sequence[Any], seconds: float, version: str) -> Outcome:
    from ortools.sat.python import cp_model

    status = {
        cp_model.OPTIMAL: Status.OPTIMAL,
        cp_model.FEASIBLE: Status.FEASIBLE,
        cp_model.INFEASIBLE: Status.INFEASIBLE,
        cp_model.UNKNOWN: Status.UNKNOWN,
        cp_model.MODEL_INVALID: Status.ERROR,
    }[code]
    message = f"CP-SAT {version}: {solver.status_name(code)}"
    if status in (Status.OPTIMAL, Status.FEASIBLE):
        values = tuple(int(solver.value(x)) for x in decisions)
        return Outcome(status, values, round(solver.objective_value), round(solver.best_objective_bound), seconds, message)
    bound = round(solver.best_objective_bound) if status is Status.UNKNOWN and abs(solver.best_objective_bound) < 1e15 else None
    return Outcome(status, (), None, bound, seconds, message)
