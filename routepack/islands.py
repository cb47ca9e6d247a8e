"""
Islands [1]_: independent searches of one window, on processes or machines, that pass on the best plan now and then.

References
----------
.. [1] Whitley, D., S. Rana, and R. Heckendorn (1999). The island model genetic algorithm: on separability, population size and convergence.
   *Journal of Computing and Information Technology* 7(1): 33-47.
"""

import dataclasses
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from routepack.budget import Budget, Progress
from routepack.cost import Score
from routepack.errors import InvalidInstance
from routepack.plan import Plan
from routepack.result import Result

ROUNDS = 4


class Planner(Protocol):
    """Plans a window; can be pickled."""

    def __call__(self, *, budget: Budget, seed: int, start: Plan | None, span: tuple[float, float]) -> Result:
        """Plan under a budget, from a plan if one is given, over a part of the way from hot to cold."""


def run_islands(
    plan: Planner, islands: int, budget: Budget, seed: int, *, start: Plan | None = None, backend: str = "loky", jobs: int = 1
) -> Result:
    """
    Search on several islands in four rounds, which divide the way from hot to cold among them.

    After a round the better half of the islands go on from what they have, and the others from the best of all. Under an attempt cap the
    result is the same on every backend, whatever the number of jobs.

    Parameters
    ----------
    plan
        The search of one island and round.
    islands
        How many, at least 1.
    budget
        Of all islands together: the attempt cap is divided among them; the time limit is the wall clock's. Interruption ends the search
        after the round.
    seed
        Each island and round has a seed of its own, which follows from this one.
    start
        Plan to begin with.
    backend
        Of joblib: ``loky`` for processes, ``threading``, ``dask`` for the cluster of the present client, ``ray``, or one that is
        registered.
    jobs
        Islands that work at the same time.

    Returns
    -------
    Result
        The best of all; its attempts are those of all islands.

    Raises
    ------
    InvalidInstance
        joblib or the backend is not installed.
    """
    held: list[Result] = []
    starts: list[Plan | None] = [start] * islands
    attempts = 0
    with _pool(backend, jobs) as run:
        for done in range(ROUNDS):
            seconds, cap = _part(budget, islands, jobs, done)
            seeds = [int(np.random.SeedSequence((seed, done, k)).generate_state(1)[0]) for k in range(islands)]
            span = (done / ROUNDS, (done + 1) / ROUNDS)
            found = run([(plan, os.getpid(), seconds, cap, seeds[k], starts[k], span) for k in range(islands)])
            attempts += sum(result.method.attempts for result in found)
            held = [min(pair, key=_score) for pair in zip(held, found, strict=True)] if held else found
            order = sorted(range(islands), key=lambda k: (held[k].score, k))
            best = held[order[0]]
            for place, k in enumerate(order):
                starts[k] = held[k].plan if 2 * place < islands else best.plan
            budget.report(Progress(f"round {done + 1} of {ROUNDS}", budget.elapsed(), attempts, best.score.makespan))
            if budget.used(attempts) >= 1:
                break
    method = dataclasses.replace(best.method, seed=seed, attempts=attempts)
    return dataclasses.replace(best, method=method, interrupted=budget.interrupted())


def _score(result: Result) -> Score:
    return result.score


def _part(budget: Budget, islands: int, jobs: int, done: int) -> tuple[float | None, int | None]:
    """Seconds and attempts of an island in the next round."""
    seconds = budget.seconds
    if seconds is not None:
        waves = -(-islands // jobs)
        seconds = max(0.0, seconds - budget.elapsed()) / ((ROUNDS - done) * waves)
    return seconds, None if budget.attempts is None else budget.attempts // (islands * ROUNDS)


def _island(
    plan: Planner, parent: int, seconds: float | None, attempts: int | None, seed: int, start: Plan | None, span: tuple[float, float]
) -> Result:
    if os.getpid() != parent and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C goes to every process; the parent decides
    return plan(budget=Budget(seconds, attempts), seed=seed, start=start, span=span)


@contextmanager
def _pool(backend: str, jobs: int) -> Iterator[Callable[[list[tuple[Any, ...]]], list[Result]]]:
    """Yield what runs `_island` once for each tuple of arguments, in order."""
    try:
        from joblib import Parallel, delayed, parallel_config
    except ImportError:
        raise InvalidInstance("islands need joblib, which is not installed; pip install 'routepack[islands]'.") from None
    with ExitStack() as stack:
        try:
            if backend == "ray":
                import_module("ray.util.joblib").register_ray()
            stack.enter_context(parallel_config(backend=backend, n_jobs=jobs))
            pool = stack.enter_context(Parallel())
        except (ImportError, ValueError) as fault:
            reason = " ".join(str(fault).split()).rstrip(".")
            raise InvalidInstance(f"island_backend = {backend!r} cannot be used: {reason}; choose loky or set it up.") from None
        yield lambda tasks: list(pool(delayed(_island)(*task) for task in tasks))
