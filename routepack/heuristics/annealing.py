"""Population annealing of a layout, and two plain searches over the same moves to measure it against."""

import math

import numpy as np

from routepack.heuristics.resampling import Families, inverse_temperature_step, systematic
from routepack.heuristics.search import EXACT, Search
from routepack.heuristics.terms import Found

REPLACE_UNTIL = 0.95
SHARE = 0.25


class _Replacements:
    """The moments, evenly over a run, at which experts are re-placed."""

    def __init__(self, search: Search, runs: int) -> None:
        self.search, self.rounds, self.done, self.spent = search, 0, 0, 0.0
        if search.replacer is not None:
            self.rounds = search.replacer.rounds(search.expected_attempts() / runs, len(search.problems), search.problems[0])

    def due(self, progress: float) -> None:
        """Re-place if the next moment has come and, under a time limit, no more than a quarter of the time so far went into it."""
        if self.done >= self.rounds or progress < REPLACE_UNTIL * (self.done + 1) / (self.rounds + 1):
            return
        budget = self.search.budget
        started = budget.elapsed()
        if budget.seconds is not None and self.spent > SHARE * started:
            return
        self.done += 1
        self.search.replace_experts()
        self.spent += budget.elapsed() - started


def _finish(search: Search) -> None:
    """Descend by the exact tuple from where the chains are, one of them from the archive."""
    search.resume(0)
    search.run(EXACT, 1.0)


def anneal(search: Search) -> Found:
    """
    Population annealing [1]_ [2]_ with a trajectory-best archive.

    Inverse temperature rises by steps at constant culling fraction, within limits that let the schedule end with the budget; at each step
    the population is resampled systematically on sorted energies and then swept. The last share of the budget is a descent by the exact
    tuple.

    References
    ----------
    .. [1] Hukushima, K., and Y. Iba (2003). Population annealing and its application to a spin glass. *AIP Conf. Proc.* 690: 200-206.
    .. [2] Amey, C., and J. Machta (2018). Analysis and optimization of population annealing. *Phys. Rev. E* 97: 033301.
    """
    runs = search.runs()
    for run in range(runs):
        search.begin(run, runs)
        _anneal_population(search, _Replacements(search, runs))
    return search.result()


def _anneal_population(search: Search, replacements: _Replacements) -> None:
    params, diagnostics = search.params, search.diagnostics
    beta, last = 1 / (params.hot * search.start), 1 / (params.cold * search.start)
    way = math.log(last / beta)
    families = Families(len(search.problems))
    while (left := math.log(last / beta)) > 1e-9 and search.progress() < 1.0 - params.descent:
        energy = search.population.score[:, 0] + params.mean / search.problems[0].shards * search.population.score[:, 1]
        step = inverse_temperature_step(energy, beta, params.culling)
        step = min(max(step, params.shortest_step * way), params.longest_step * way, left)
        weights = np.exp(-(beta * math.expm1(step)) * (energy - energy.min()))
        diagnostics.log_partition += math.log(weights.mean()) - beta * math.expm1(step) * float(energy.min())
        families.follow(search.resample(systematic(energy, weights, float(search.rng.random()))))
        beta *= math.exp(step)
        diagnostics.steps += 1
        search.run(1 / beta, (1.0 - params.descent) * (1 - (left - step) / way))
        replacements.due(search.progress())
    families.describe(diagnostics)
    _finish(search)


def anneal_single(search: Search) -> Found:
    """
    Simulated annealing [1]_ of independent chains over the same temperatures, without resampling.

    References
    ----------
    .. [1] Kirkpatrick, S., C. Gelatt, and M. Vecchi (1983). Optimization by simulated annealing. *Science* 220: 671-680.
    """
    runs, params = search.runs(), search.params
    end = 1.0 - params.descent
    for run in range(runs):
        search.begin(run, runs)
        replacements = _Replacements(search, runs)
        while (now := search.progress()) < end:
            temperature = params.hot * search.start * (params.cold / params.hot) ** (now / end)
            search.run(temperature, min(end, now + params.shortest_step))
            replacements.due(search.progress())
        _finish(search)
    return search.result()


def multi_start(search: Search, patience: int) -> Found:
    """
    Descents by the exact tuple from one start after another.

    Parameters
    ----------
    search
        The chains; each begins anew on its own when it has not improved.
    patience
        Proposals without improvement after which a chain begins anew.
    """
    seen = search.population.score.copy()
    replacements = _Replacements(search, 1)
    while (now := search.progress()) < 1.0:
        search.run(EXACT, min(1.0, now + patience * len(search.problems) * now / max(1, search.attempts) if search.attempts else 0.01))
        for k in range(len(search.problems)):
            if (search.population.score[k] == seen[k]).all():
                search.restart(k, search.fresh(search.rng))
            seen[k] = search.population.score[k]
        replacements.due(search.progress())
    return search.result()
