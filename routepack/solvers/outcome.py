"""What an engine says, in our words."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from routepack.budget import Budget, Progress


class Status(StrEnum):
    """
    How a solve ended.

    ``FEASIBLE`` is a solution without a proof, ``UNKNOWN`` neither solution nor proof when a limit or an interruption came.
    """

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"
    UNBOUNDED_OR_INFEASIBLE = "unbounded_or_infeasible"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    What an engine claims; nothing in it is verified.

    Parameters
    ----------
    status
        How the solve ended.
    values
        Rounded values of the decisions; empty without a solution.
    objective
        Value of the solution, as the engine computed it.
    bound
        Largest lower bound that the engine claims; ``None`` where it has none.
    seconds
        Wall-clock time.
    message
        The engine's own status and version.
    """

    status: Status
    values: tuple[int, ...]
    objective: int | None
    bound: int | None
    seconds: float
    message: str


def seconds_left(budget: Budget) -> float | None:
    """Seconds until the budget ends, never negative; ``None`` where it has no limit."""
    return None if budget.seconds is None else max(0.0, budget.seconds - budget.elapsed())


def reporter(budget: Budget, phase: str) -> Callable[[float | None, float | None], None]:
    """Return a function that passes an incumbent's value and a bound on to the budget's progress line."""

    def report(value: float | None, bound: float | None) -> None:
        whole = [None if v is None or abs(v) >= 1e15 else round(v) for v in (value, bound)]
        budget.report(Progress(phase, budget.elapsed(), score=whole[0], bound=whole[1]))

    return report
