"""
Mixed-integer programming: HiGHS [1]_, driven directly so that it can be watched and stopped, and any other solver through Pyomo [2]_.

References
----------
.. [1] Huangfu, Q., and J. A. J. Hall (2018). Parallelizing the dual revised simplex method. *Mathematical
   Programming Computation* 10: 119-142.
.. [2] Bynum, M. L., et al. (2021). *Pyomo: Optimization Modeling in Python*. 3rd edition, Springer.
"""

import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from routepack.budget import Budget
from routepack.errors import InvalidInstance
from routepack.solvers.outcome import Outcome, Status, reporter, seconds_left

TOLERANCE = 1e-9
WITHIN = 0.999  # objectives are integers: a gap below one unit is no gap


def solve(
    model: Any,
    decisions: Sequence[Any],
    objective: Any,
    budget: Budget,
    *,
    solver: str = "highs",
    threads: int = 1,
    seed: int = 0,
    log: Path | None = None,
) -> Outcome:
    """
    Minimise an integer-valued expression over a ``ConcreteModel``.

    Parameters
    ----------
    model
        The model; initial values of its variables, if they have any, are the start.
    decisions
        0-1 variables whose rounded values are returned.
    objective
        Integer-valued linear expression.
    budget
        Time limit, interruption and progress.
    solver
        ``"highs"``, or the name of a solver that Pyomo knows.
    threads, seed
        Threads and random seed, for HiGHS.
    log
        File for the solver's log, for HiGHS.

    Raises
    ------
    InvalidInstance
        The solver is not installed.
    """
    import pyomo.environ as pyomo

    if hasattr(model, "objective"):
        model.del_component("objective")
    model.objective = pyomo.Objective(expr=objective)
    if solver != "highs":
        return _through_pyomo(model, decisions, budget, solver)
    return _through_highs(model, decisions, budget, threads, seed, log)


def _load_highs() -> Any:
    try:
        import highspy
    except ImportError:
        raise InvalidInstance("solver = highs is not installed; run `pip install highspy` or choose the cp-sat engine.") from None
    return highspy


def _silent_highs(highspy: Any) -> Any:
    """Return an engine that prints nothing; on construction it would print a banner."""

    def quietly(self: Any) -> None:
        self.setOptionValue("output_flag", False)
        highspy.Highs.enableCallbacks(self)

    engine: Any = type("SilentHighs", (highspy.Highs,), {"enableCallbacks": quietly})
    highs = engine()
    highs.resetGlobalScheduler(True)  # threads may differ from the last run's
    return highs


def _through_highs(model: Any, decisions: Sequence[Any], budget: Budget, threads: int, seed: int, log: Path | None) -> Outcome:
    highspy = _load_highs()
    started = time.monotonic()
    highs = _silent_highs(highspy)
    if log is not None:
        highs.setOptionValue("output_flag", True)
        highs.setOptionValue("log_to_console", False)
        highs.setOptionValue("log_file", str(log))
    columns = _read_model(highs, model)
    for name, value in (("mip_rel_gap", 0.0), ("mip_abs_gap", WITHIN), ("threads", threads), ("random_seed", seed)):
        highs.setOptionValue(name, value)
    for name in ("mip_feasibility_tolerance", "primal_feasibility_tolerance"):
        highs.setOptionValue(name, TOLERANCE)
    left = seconds_left(budget)
    if left is not None:
        highs.setOptionValue("time_limit", left)
    _start(highspy, highs, columns)
    _stream(highspy, highs, budget)
    highs.run()
    if _point_is_stale(highspy, highs):
        highs.clearSolver()
        if left is not None:
            highs.setOptionValue("time_limit", seconds_left(budget))
        highs.run()
    return _highs_outcome(highspy, highs, columns, decisions, time.monotonic() - started)


def _read_model(highs: Any, model: Any) -> list[Any]:
    """Pass the model on as an LP file and return Pyomo's variable of each column."""
    from pyomo.opt import WriterFactory

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.lp"
        with path.open("w", encoding="utf-8") as file:
            symbols = WriterFactory("lp_v2").write(model, file).symbol_map
        highs.readModel(str(path))
    variable_of = symbols.bySymbol
    return [variable_of.get(name) for name in highs.getLp().col_names_]


def _start(highspy: Any, highs: Any, columns: list[Any]) -> None:
    """Hand over the variables' initial values where all have one."""
    values = [1.0 if v is None else v.value for v in columns]  # a column of no variable is the writer's constant
    if any(v is None for v in values):
        return
    solution = highspy.HighsSolution()
    solution.col_value = [float(v) for v in values if v is not None]
    highs.setSolution(solution)


def _point_is_stale(highspy: Any, highs: Any) -> bool:
    """
    Say whether the point returned does not have the objective reported.

    HiGHS 1.16.0 may return the start in the place of the optimum when presolve solves the problem; without a start it does not.
    """
    info = highs.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return False
    lp, point = highs.getLp(), highs.getSolution().col_value
    value = lp.offset_ + math.fsum(c * x for c, x in zip(lp.col_cost_, point, strict=True))
    return bool(abs(value - info.objective_function_value) > 0.5)


def _stream(highspy: Any, highs: Any, budget: Budget) -> None:
    report = reporter(budget, "milp")

    def watch(event: Any) -> None:
        data = event.data_out
        report(data.mip_primal_bound, data.mip_dual_bound)
        if budget.used(0) >= 1:
            event.interrupt()

    highs.cbMipInterrupt += watch


def _highs_outcome(highspy: Any, highs: Any, columns: list[Any], decisions: Sequence[Any], seconds: float) -> Outcome:
    kinds = highspy.HighsModelStatus
    code = highs.getModelStatus()
    info = highs.getInfo()
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    bound = math.ceil(info.mip_dual_bound - 1e-6 * max(1.0, abs(info.mip_dual_bound) * 1e-3)) if abs(info.mip_dual_bound) < 1e15 else None
    status = {
        kinds.kOptimal: Status.OPTIMAL,
        kinds.kModelEmpty: Status.OPTIMAL,
        kinds.kInfeasible: Status.INFEASIBLE,
        kinds.kUnboundedOrInfeasible: Status.UNBOUNDED_OR_INFEASIBLE,
        kinds.kUnbounded: Status.UNBOUNDED_OR_INFEASIBLE,
    }.get(code)
    stopped = (kinds.kTimeLimit, kinds.kInterrupt, kinds.kIterationLimit, kinds.kSolutionLimit, kinds.kUnknown, kinds.kHighsInterrupt)
    if status is None:
        status = (Status.FEASIBLE if found else Status.UNKNOWN) if code in stopped else Status.ERROR
    message = f"HiGHS {highs.version()}: {highs.modelStatusToString(code)}"
    if status not in (Status.OPTIMAL, Status.FEASIBLE):
        return Outcome(status, (), None, bound if status is Status.UNKNOWN else None, seconds, message)
    position = {id(v): k for k, v in enumerate(columns)}
    point = highs.getSolution().col_value
    values = tuple(round(point[position[id(v)]]) if id(v) in position else 0 for v in decisions)
    value = round(info.objective_function_value)
    return Outcome(status, values, value, value if status is Status.OPTIMAL else bound, seconds, message)


def _through_pyomo(model: Any, decisions: Sequence[Any], budget: Budget, solver: str) -> Outcome:
    import pyomo.environ as pyomo
    from pyomo.opt import TerminationCondition as Ended

    started = time.monotonic()
    engine = pyomo.SolverFactory(solver)
    if not engine.available(exception_flag=False):
        raise InvalidInstance(f"solver = {solver!r} is unknown to Pyomo or not installed; install it and put it on the path, or use highs.")
    left = seconds_left(budget)
    limit = {} if left is None else {"timelimit": max(1, math.ceil(left))}
    message = f"{solver} through Pyomo {pyomo.version.version if hasattr(pyomo, 'version') else ''}".strip()
    try:
        answer = engine.solve(model, load_solutions=False, **limit)
    except Exception as error:  # every interface raises its own types when it has nothing to return
        return Outcome(Status.ERROR, (), None, None, time.monotonic() - started, f"{message}: {error}")
    seconds, ended = time.monotonic() - started, answer.solver.termination_condition
    message = f"{message}: {ended}"
    if ended in (Ended.infeasible,):
        return Outcome(Status.INFEASIBLE, (), None, None, seconds, message)
    if ended in (Ended.infeasibleOrUnbounded, Ended.unbounded):
        return Outcome(Status.UNBOUNDED_OR_INFEASIBLE, (), None, None, seconds, message)
    stopped = (Ended.optimal, Ended.globallyOptimal, Ended.maxTimeLimit, Ended.feasible, Ended.userInterrupt, Ended.maxIterations)
    if ended not in stopped:
        return Outcome(Status.ERROR, (), None, None, seconds, message)
    lower = answer.problem.lower_bound
    bound = math.ceil(lower - 1e-6) if isinstance(lower, int | float) and abs(lower) < 1e15 else None
    if not len(answer.solution) and not hasattr(engine, "load_vars"):
        return Outcome(Status.UNKNOWN, (), None, bound, seconds, message)
    try:
        engine.load_vars() if hasattr(engine, "load_vars") else model.solutions.load_from(answer)
    except (RuntimeError, ValueError):
        return Outcome(Status.UNKNOWN, (), None, bound, seconds, message)
    proved = ended in (Ended.optimal, Ended.globallyOptimal)
    values = tuple(round(x.value or 0) for x in decisions)
    value = round(pyomo.value(model.objective))
    return Outcome(Status.OPTIMAL if proved else Status.FEASIBLE, values, value, value if proved else bound, seconds, message)
