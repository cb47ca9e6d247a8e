"""How long a method may work, and how it reports on the way."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from routepack.errors import InvalidInstance


@dataclass(frozen=True, slots=True)
class Progress:
    """
    One report from a running method.

    Parameters
    ----------
    phase
        What is being done, in words.
    seconds
        Since the budget was started.
    attempts
        Proposals made so far.
    score
        First component of the best score so far, in ticks.
    bound
        Best lower bound known to the method, in ticks.
    temperature
        Current temperature in ticks, for methods that have one.
    """

    phase: str
    seconds: float
    attempts: int = 0
    score: int | None = None
    bound: int | None = None
    temperature: float | None = None


def _ignore(_: Progress) -> None:
    """Drop a report."""


def _never() -> bool:
    return False


@dataclass(slots=True)
class Budget:
    """
    A time limit, an attempt cap and a way to interrupt, shared by the stages of one run.

    Parameters
    ----------
    seconds
        Wall-clock limit, counted from construction; ``None`` for no limit.
    attempts
        Cap on proposals; a run under a cap alone is reproducible. ``None`` for no cap.
    interrupted
        Asked between sweeps; true makes a method return the best it has.
    report
        Called with a `Progress` now and then.

    Raises
    ------
    InvalidInstance
        A limit is negative or not a number.
    """

    seconds: float | None = None
    attempts: int | None = None
    interrupted: Callable[[], bool] = _never
    report: Callable[[Progress], None] = _ignore
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if self.seconds is not None and not self.seconds >= 0:
            raise InvalidInstance(f"time limit = {self.seconds} is negative; give seconds >= 0.")
        if self.attempts is not None and not self.attempts >= 0:
            raise InvalidInstance(f"attempts = {self.attempts} is negative; give a count >= 0.")

    def elapsed(self) -> float:
        """Seconds since the budget was started."""
        return time.monotonic() - self.started

    def used(self, attempts: int) -> float:
        """Share of the budget that is used up, in [0, 1], after so many proposals."""
        if self.interrupted():
            return 1.0
        shares = [0.0]
        if self.seconds is not None:
            shares.append(self.elapsed() / self.seconds if self.seconds else 1.0)
        if self.attempts is not None:
            shares.append(attempts / self.attempts if self.attempts else 1.0)
        return min(1.0, max(shares))
