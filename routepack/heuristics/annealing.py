"""Population annealing of a layout, and two plain searches over the same moves to measure it against."""

import math
from collections.abc import Callable

import numpy as np

from routepack.heuristics.resampling import Families, inverse_temperature_step, systematic
from routepack.heuristics.search import EXACT, Found, Search
from routepack.window import IntArray

REPLACE_FROM, REPLACE_UNTIL = 0.05, 0.9
SHARE = 0.25


class _Replacements:
    """The moments, evenly over a part of the run, at which experts are re-placed."""

    def __init__(self, search: Search) -> None:
        self.search = search
        budget = search.budget
        cost = 100 + 1.2 * search.problems[0].load[0].size  # nanoseconds of a proposal, roughly
        expected = [math.inf if budget.attempts is None else float(budget.attempts)]
        if budget.seconds is not None:
            expected.append((budget.seconds - budget.elapsed()) * 1e9 * min(search.threads, len(search.problems)) / cost)
        chains = len(search.problems)
        self.rounds = 0 if search.replacer is None else search.replacer.rounds(min(expected), chains, search.problems[0])
        self.done = 0
        self.spent = 0.0

    def due(self, progress: float) -> None:
        """Re-place if the next moment has come and, under a time limit, no more than a quarter of the time so far went into it."""
        moment = REPLACE_FROM + (REPLACE_UNTIL - REPLACE_FROM) * self.done / max(1, self.rounds - 1)
        if self.done >= self.rounds or progress < moment:
            return
        budget = self.search.budget
        started = budget.elapsed()
        if budget.seconds is not None and self.spent > SHARE * started:
            return
        self.done += 1
        self.search.replace_experts()
        self.spent += budget.elapsed() - started


def _finish(search: Search) -> Found:
    """Descend by the exact tuple from where the chains are, one of them from the archive."""
    search.resume(0)
    search.run(EXACT, 1.0)
    return search.result()


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
    params, diagnostics = search.params, search.diagnostics
    beta, last = 1 / (params.hot * search.start), 1 / (params.cold * search.start)
    way = math.log(last / beta)
    families, replacements = Families(len(search.problems)), _Replacements(search)
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
    return _finish(search)


def anneal_single(search: Search) -> Found:
    """
    Simulated annealing [1]_ of independent chains over the same temperatures, without resampling.

    References
    ----------
    .. [1] Kirkpatrick, S., C. Gelatt, and M. Vecchi (1983). Optimization by simulated annealing. *Science* 220: 671-680.
    """
    params, replacements = search.params, _Replacements(search)
    end = 1.0 - params.descent
    while (now := search.progress()) < end:
        temperature = params.hot * search.start * (params.cold / params.hot) ** (now / end)
        search.run(temperature, min(end, now + params.shortest_step))
        replacements.due(search.progress())
    return _finish(search)


def multi_start(search: Search, fresh: Callable[[np.random.Generator], IntArray], patience: int) -> Found:
    """
    Descents by the exact tuple from one start after another.

    Parameters
    ----------
    search
        The chains; each begins anew on its own when it has not improved.
    fresh
        Draws a new start layout.
    patience
        Proposals without improvement after which a chain begins anew.
    """
    seen = search.population.score.copy()
    replacements = _Replacements(search)
    while (now := search.progress()) < 1.0:
        search.run(EXACT, min(1.0, now + patience * len(search.problems) * now / max(1, search.attempts) if search.attempts else 0.01))
        for k in range(len(search.problems)):
            if (search.population.score[k] == seen[k]).all():
                search.restart(k, fresh(search.rng))
            seen[k] = search.population.score[k]
        replacements.due(search.progress())
    return search.result()
