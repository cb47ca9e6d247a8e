"""When a proposal is taken, and what of a chain is kept; compiled."""

from typing import NamedTuple

from routepack.compiled import called, inlined
from routepack.heuristics.evaluation import peak_after
from routepack.heuristics.problem import Problem
from routepack.heuristics.state import State

SMOOTH_REACH = 4.0


class Rule(NamedTuple):
    """
    When a proposal is taken.

    Parameters
    ----------
    temperature
        In ticks; negative accepts by the exact tuple, never uphill.
    mean
        Weight of the total in the chain's energy, beside 1 for the makespan.
    smooth
        Weight of half the sum of squared centred loads.
    level
        Weight of half the sum of squared cell attention.
    """

    temperature: float
    mean: float
    smooth: float
    level: float


@inlined
def settles(
    problem: Problem, state: State, change: tuple[int, int, int, int], makespan: int, total: int, slack: float, rule: Rule
) -> tuple[bool, float]:
    """
    Whether a proposal may be taken as far as its score decides, and the slack that smoothing has left.

    ``change`` is (a, J of a, b, J of b); a negative slack asks for the exact tuple not to rise.
    """
    makespan_rise, total_rise = makespan - state.score[0], total - state.score[1]
    if slack >= 0:
        left = slack - makespan_rise - rule.mean * total_rise
        return left >= -SMOOTH_REACH * rule.temperature, left
    if makespan_rise or total_rise:
        return makespan_rise < 0 or (makespan_rise == 0 and total_rise < 0), 0.0
    a, cost_a, b, cost_b = change
    return peak_after(state, a, cost_a, b, cost_b) <= peak_after(state, a, state.cost[a], b, state.cost[b]), 0.0


@inlined
def keep_best(problem: Problem, state: State, makespan: int, total: int) -> None:
    """Before the present layout is left for another score, store it if it is the best so far; then note whether the next one is better."""
    if state.best_score[2] and (makespan > state.score[0] or (makespan == state.score[0] and total > state.score[1])):
        store_best(problem, state)
    if makespan < state.best_score[0] or (makespan == state.best_score[0] and total < state.best_score[1]):
        state.best_score[0] = makespan
        state.best_score[1] = total
        state.best_score[2] = 1


@called
def store_best(problem: Problem, state: State) -> None:
    """Write the present layout to ``best``, by place."""
    for i in range(problem.units):
        c = state.cell[i]
        state.best[i] = state.place[c // problem.slots] * problem.slots + c % problem.slots
    state.best_score[2] = 0
