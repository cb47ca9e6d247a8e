"""Population annealing of a layout, and two plain searches over the same moves to measure it against."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from routepack.budget import Budget, Progress
from routepack.heuristics import reference
from routepack.heuristics.draws import KINDS, mix, schedule
from routepack.heuristics.problem import Problem
from routepack.heuristics.resampling import Families, inverse_temperature_step, systematic
from routepack.heuristics.state import exact_score, make_state, replica, stack
from routepack.window import IntArray

CHUNK = 20_000
FIRST_CHUNK = 2_000
EXACT = -1.0


@dataclass(frozen=True, slots=True)
class AnnealingParams:
    """
    How a search spends its proposals.

    Parameters
    ----------
    replicas
        Chains of the population.
    hot, cold
        First and last temperature, as shares of the start's makespan.
    culling
        Share of the population that an inverse-temperature step gives up.
    longest_step, shortest_step
        Limits of a step, as shares of the whole way from hot to cold on the logarithmic scale.
    mean
        Weight of the mean shard in a chain's energy, beside 1 for the slowest.
    descent
        Share of the budget for the last descent by the exact tuple.
    kinds
        Relative frequency of the move kinds, in the order of `routepack.heuristics.draws.KINDS`.
    """

    replicas: int = 4
    hot: float = 1e-3
    cold: float = 2e-5
    culling: float = 0.14
    longest_step: float = 0.04
    shortest_step: float = 0.005
    mean: float = 0.3
    descent: float = 0.07
    kinds: tuple[float, ...] = (1.0, 2.0, 0.5, 0.5, 1.0, 0.1, 0.05)


@dataclass(slots=True)
class Diagnostics:
    """
    What happened during a search.

    Parameters
    ----------
    proposed, accepted
        Proposals of each kind, shape (kinds,).
    steps
        Inverse-temperature steps.
    families, entropy, rho
        Families left at the end, their entropy, and the mean square family size.
    collapses
        Times that fewer than two effective families were left and all chains began new ones.
    log_partition
        Sum of the logarithms of the mean resampling weights: the change of the free energy times -beta.
    """

    proposed: IntArray = field(default_factory=lambda: np.zeros(len(KINDS), dtype=np.int64))
    accepted: IntArray = field(default_factory=lambda: np.zeros(len(KINDS), dtype=np.int64))
    steps: int = 0
    families: int = 0
    entropy: float = 0.0
    rho: float = 1.0
    collapses: int = 0
    log_partition: float = 0.0


@dataclass(frozen=True, slots=True)
class Found:
    """The best layout of a search: cell of each unit by place, its (makespan, total, peak), proposals made, and diagnostics."""

    cells: IntArray
    score: tuple[int, int, int]
    attempts: int
    diagnostics: Diagnostics


class Search:
    """
    A population of chains on one problem, their archive and their clock.

    Parameters
    ----------
    problem
        What is laid out.
    layouts
        Start of each chain, cell of each unit by place.
    seed
        Seed of every draw; results do not depend on the number of threads.
    budget
        Limits, counted together with ``spent`` proposals of earlier stages.
    until
        Share of the budget at which this search ends.
    threads
        Chains that run at the same time.
    compiled
        Use the compiled kernels; the numpy reference otherwise.
    """

    def __init__(
        self,
        problem: Problem,
        layouts: list[IntArray],
        seed: int,
        budget: Budget,
        *,
        params: AnnealingParams,
        until: float = 1.0,
        spent: int = 0,
        threads: int = 1,
        compiled: bool = True,
    ) -> None:
        self.problem, self.params, self.budget = problem, params, budget
        self.population = stack([make_state(problem, cells) for cells in layouts])
        self.rng = np.random.Generator(np.random.Philox(key=seed))
        self.seed, self.until, self.spent, self.threads = seed, until, spent, threads
        self.compiled = compiled and problem.fits_kernels
        self.attempts, self.sweeps = 0, 0
        self.begun = budget.used(spent)
        self.rate = FIRST_CHUNK
        self.diagnostics = Diagnostics()
        self.best = layouts[0]
        self.score = exact_score(problem, layouts[0])
        self.keep()

    @property
    def mean(self) -> float:
        """Weight of the total in the energy."""
        return self.params.mean / self.problem.shards

    def progress(self) -> float:
        """Share of this search's part of the budget that is used up."""
        used = self.budget.used(self.spent + self.attempts)
        if used >= self.until or used >= 1.0:
            return 1.0
        return (used - self.begun) / (self.until - self.begun)

    def run(self, temperature: float, until: float) -> None:
        """Sweep the whole population at one temperature (ticks; negative for a descent by the exact tuple) until a share of progress."""
        chains = len(self.population.score)
        while (now := self.progress()) < until:
            done = now * (self.until - self.begun)
            expected = self.attempts * (until - now) / now if self.attempts and done > 0 else FIRST_CHUNK * chains
            count = int(min(max(1, math.ceil(expected / chains)), CHUNK if self.attempts else FIRST_CHUNK))
            self.sweep(count, temperature)

    def sweep(self, count: int, temperature: float) -> None:
        """Make so many proposals in every chain."""
        chains = len(self.population.score)
        kinds = schedule(self.params.kinds, count, self.rng)
        stream = mix(np.array([self.seed], dtype=np.uint64), np.uint64(self.sweeps + 1))
        keys = mix(stream, np.arange(1, chains + 1, dtype=np.uint64))
        if self.compiled:
            accepted = self._sweep_compiled(kinds, keys, temperature)
        else:
            accepted = reference.sweep(self.problem, self.population, kinds, keys, temperature, self.mean)
        self.sweeps += 1
        self.attempts += count * chains
        self.diagnostics.proposed += np.bincount(kinds, minlength=len(KINDS)) * chains
        self.diagnostics.accepted += accepted.sum(axis=0)
        self.keep()
        self.budget.report(
            Progress("lay out", self.budget.elapsed(), self.spent + self.attempts, self.score[0], None, max(temperature, 0.0))
        )

    def _sweep_compiled(self, kinds: NDArray[np.uint8], keys: NDArray[np.uint64], temperature: float) -> IntArray:
        from routepack.heuristics import kernels

        def chain(k: int) -> IntArray:
            state = replica(self.population, k)
            accepted: IntArray = kernels.sweep(self.problem, state, kinds, keys[k], temperature, self.mean)
            kernels.finish(self.problem, state)
            return accepted

        if self.threads == 1 or len(keys) == 1:
            return np.stack([chain(k) for k in range(len(keys))])
        with ThreadPoolExecutor(min(self.threads, len(keys))) as pool:
            return np.stack(list(pool.map(chain, range(len(keys)))))

    def keep(self) -> None:
        """Archive the best layout that any chain has seen."""
        scores = self.population.best_score
        for k in np.lexsort((scores[:, 1], scores[:, 0]))[:1].tolist():
            if tuple(scores[k, :2].tolist()) <= self.score[:2]:
                cells = self.population.best[k].astype(np.int64)
                score = exact_score(self.problem, cells)
                if score < self.score:
                    self.best, self.score = cells, score

    def restart(self, k: int, cells: IntArray) -> None:
        """Begin chain k anew from a layout."""
        for mine, new in zip(self.population, make_state(self.problem, cells), strict=True):
            mine[k] = new

    def result(self) -> Found:
        """Return the archived layout."""
        return Found(self.best, self.score, self.attempts, self.diagnostics)


def anneal(search: Search) -> Found:
    """
    Population annealing [1]_ [2]_ with a trajectory-best archive.

    Inverse temperature rises by steps at constant culling fraction, within limits that let the schedule end with the budget; at each step
    the population is resampled systematically on sorted energies and then swept. The last share of the budget is a descent of all chains,
    one of which goes on from the archive, by the exact tuple.

    References
    ----------
    .. [1] Hukushima, K., and Y. Iba (2003). Population annealing and its application to a spin glass. *AIP Conf. Proc.* 690: 200-206.
    .. [2] Amey, C., and J. Machta (2018). Analysis and optimization of population annealing. *Phys. Rev. E* 97: 033301.
    """
    params = search.params
    start = float(search.score[0]) or 1.0
    beta, last = 1 / (params.hot * start), 1 / (params.cold * start)
    way = math.log(last / beta)
    families = Families(len(search.population.score))
    while (left := math.log(last / beta)) > 1e-9 and search.progress() < 1.0 - params.descent:
        energy = search.population.score[:, 0] + search.mean * search.population.score[:, 1]
        step = inverse_temperature_step(energy, beta, params.culling)
        step = min(max(step, params.shortest_step * way), params.longest_step * way, left)
        weights = np.exp(-(beta * math.expm1(step)) * (energy - energy.min()))
        search.diagnostics.log_partition += math.log(weights.mean()) - beta * math.expm1(step) * float(energy.min())
        copies = systematic(energy, weights, float(search.rng.random()))
        families.resample(search.population, copies)
        beta *= math.exp(step)
        search.diagnostics.steps += 1
        search.run(1 / beta, (1.0 - params.descent) * (1 - (left - step) / way))
    families.describe(search.diagnostics)
    search.restart(0, search.best)
    search.run(EXACT, 1.0)
    return search.result()


def anneal_single(search: Search) -> Found:
    """Simulated annealing [1]_ of independent chains on the same schedule, without resampling; one chain unless more layouts are given.

    References
    ----------
    .. [1] Kirkpatrick, S., C. Gelatt, and M. Vecchi (1983). Optimization by simulated annealing. *Science* 220: 671-680.
    """
    params = search.params
    start = float(search.score[0]) or 1.0
    while (now := search.progress()) < 1.0 - params.descent:
        temperature = params.hot * start * (params.cold / params.hot) ** (now / (1.0 - params.descent))
        search.run(temperature, now + params.shortest_step)
    search.restart(0, search.best)
    search.run(EXACT, 1.0)
    return search.result()


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
    chains = len(search.population.score)
    seen = search.population.score.copy()
    sweep = partial(search.sweep, patience, EXACT)
    while search.progress() < 1.0:
        sweep()
        for k in range(chains):
            if (search.population.score[k] == seen[k]).all():
                search.restart(k, fresh(search.rng))
            seen[k] = search.population.score[k]
    return search.result()
