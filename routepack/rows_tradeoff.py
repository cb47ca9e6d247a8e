"""Rows against balance: more rows than the fewest, while what they gain exceeds what they cost."""

import dataclasses
from collections.abc import Callable, Sequence

from routepack.budget import Budget, Progress
from routepack.errors import Infeasible
from routepack.plan import Plan
from routepack.result import Result, RowsTried

MOST_PROBES = 6
PROBE_SHARE = 1 / 12
PATIENCE = 2


def trade_off(
    plan: Callable[[int, Budget, Plan | None], Result], counts: Sequence[int], row_overhead: int, bound: int, budget: Budget
) -> Result:
    """
    Plan with one number of rows after another, then spend what is left on the cheapest.

    A plan costs its makespan and ``row_overhead`` for each row. Fewest rows are full rows: a shard that runs a giant sample must still fill
    the others up, and one more row would let it rest. A probe takes a twelfth of the budget; there are at most six, no more after two in
    a row that do not pay, and none that the bound shows cannot pay. The rest of the budget continues from the cheapest.

    Parameters
    ----------
    plan
        Plans with so many rows, under a budget, from a plan with as many rows if one is given.
    counts
        Numbers of rows that may be tried, rising from the fewest.
    row_overhead
        What a row costs beside its tokens, in ticks.
    bound
        No plan with any number of rows has a lower makespan, in ticks.
    budget
        Of everything together.

    Returns
    -------
    Result
        The cheapest, with ``rows_tried``; its attempts are those of all runs.

    Raises
    ------
    Infeasible
        The fewest rows cannot be planned.
    """
    begun = budget.elapsed()
    tried: list[RowsTried] = []
    best: Result | None = None
    attempts, since = 0, 0
    for count in counts[:MOST_PROBES]:
        lowest = min((row.cost for row in tried), default=None)
        if lowest is not None and (since == PATIENCE or bound + count * row_overhead >= lowest or budget.interrupted()):
            break
        try:
            result = plan(count, _part(budget, begun, attempts, count, PROBE_SHARE), None)
        except Infeasible:
            if best is None:
                raise
            break
        attempts += result.method.attempts
        tried.append(RowsTried(count, result.score.makespan, result.score.makespan + count * row_overhead))
        if lowest is None or tried[-1].cost < lowest:
            best, since = result, 0
        else:
            since += 1
    assert best is not None
    if not budget.interrupted():
        final = plan(best.rows.count, _part(budget, begun, attempts, best.rows.count), best.plan)
        attempts += final.method.attempts
        best = min(best, final, key=lambda result: result.score)
    method = dataclasses.replace(best.method, attempts=attempts)
    return dataclasses.replace(best, method=method, interrupted=budget.interrupted(), rows_tried=tuple(tried))


def _part(budget: Budget, begun: float, attempts: int, count: int, share: float | None = None) -> Budget:
    """Share of a budget that began at some second, or what is left of it after so many attempts; its reports name the number of rows."""

    def report(progress: Progress) -> None:
        phase = f"{progress.phase}, {count} rows"
        budget.report(
            dataclasses.replace(
                progress, phase=phase, seconds=budget.elapsed(), attempts=attempts + progress.attempts, score=progress.score
            )
        )

    seconds, cap = budget.seconds, budget.attempts
    if seconds is not None:
        seconds = max(0.0, seconds - budget.elapsed() if share is None else share * (seconds - begun))
    if cap is not None:
        cap = cap - attempts if share is None else int(share * cap)
    return Budget(seconds, cap, budget.interrupted, report)
