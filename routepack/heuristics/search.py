"""A population of chains on one window: their clock, their archive, and the re-placement of experts on the way."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from routepack.budget import Budget, Progress
from routepack.heuristics import reference
from routepack.heuristics.acceptance import Rule
from routepack.heuristics.draws import KINDS, mix, schedule
from routepack.heuristics.kernels import finish, sweep
from routepack.heuristics.problem import Problem, nanoseconds
from routepack.heuristics.rows_placement import Replacer
from routepack.heuristics.state import exact_score, make_state, one_replica, replica, stack
from routepack.heuristics.terms import Diagnostics, Found, SearchParams
from routepack.window import IntArray

T = TypeVar("T")

CHUNK = 10_000
RUN_PER_UNIT = 30_000
MOST_RUNS = 32
FIRST_CHUNK = 2_000
EXACT = -1.0


class Search:
    """
    A population of chains on one window, their archive and their clock.

    Every chain has its own placement of the experts, and so its own loads; where a `Replacer` is given, experts are re-placed for the rows
    of a chain now and then.

    Parameters
    ----------
    problem
        What is laid out, under the placement that all chains begin with.
    rank_of_expert
        That placement, shape (L, E).
    layouts
        Start of each chain, cell of each unit by place.
    seed
        Seed of every draw; results do not depend on the number of threads.
    budget
        Limits.
    params
        How proposals are spent.
    threads
        Chains that run at the same time.
    fresh
        Draws a new start layout.
    compiled
        Use the compiled kernels; the numpy reference otherwise.
    replacer
        Re-places experts for rows; ``None`` keeps the placement.
    """

    def __init__(
        self,
        problem: Problem,
        rank_of_expert: IntArray,
        layouts: list[IntArray],
        seed: int,
        budget: Budget,
        *,
        params: SearchParams,
        threads: int = 1,
        fresh: Callable[[np.random.Generator], IntArray],
        compiled: bool = True,
        replacer: Replacer | None = None,
    ) -> None:
        self.problems = [problem] * len(layouts)
        self.ranks = [rank_of_expert] * len(layouts)
        self.population = stack([make_state(problem, cells) for cells in layouts])
        self.params, self.budget, self.seed, self.threads = params, budget, seed, threads
        self.fresh, self.compiled, self.replacer = fresh, compiled, replacer
        self.rng = np.random.Generator(np.random.Philox(key=seed))
        self.attempts, self.sweeps = 0, 0
        self.pool = ThreadPoolExecutor(threads)
        self.first = (problem, rank_of_expert)
        self.begun = budget.used(0)
        self.span = (0.0, 1.0)
        self.diagnostics = Diagnostics()
        self.score = (math.inf, math.inf)
        self.keep()
        self.start = float(self.score[0]) or 1.0

    def progress(self) -> float:
        """Share of the present run's part of the budget that is used up."""
        used = self.budget.used(self.attempts)
        if used >= 1.0 or (self.budget.attempts is not None and self.budget.attempts - self.attempts < len(self.problems)):
            return 1.0
        start, end = self.span
        return min(1.0, ((used - self.begun) / (1.0 - self.begun) - start) / (end - start))

    def expected_attempts(self) -> float:
        """Proposals that the budget allows for, under a time limit by a rough count of operations."""
        allowed = [math.inf if self.budget.attempts is None else float(self.budget.attempts)]
        if self.budget.seconds is not None:
            busy = min(self.threads, len(self.problems))
            allowed.append((self.budget.seconds - self.budget.elapsed()) * 1e9 * busy / nanoseconds(self.problems[0]))
        return min(allowed)

    def runs(self) -> int:
        """Runs that the budget is divided into: small windows are annealed several times from new starts."""
        return int(min(max(1.0, self.expected_attempts() / (RUN_PER_UNIT * self.problems[0].units)), MOST_RUNS))

    def begin(self, run: int, runs: int) -> None:
        """Begin one of the runs; from the second on with new layouts, and, where experts may move, from shaken placements."""
        self.span = (run / runs, (run + 1) / runs)
        if run == 0:
            return
        for k in range(len(self.problems)):
            self.problems[k], self.ranks[k] = self.first
            if self.replacer is not None:
                self.problems[k], self.ranks[k] = self.replacer.shake(*self.first, self.rng)
            self.restart(k, self.fresh(self.rng))

    def rule(self, temperature: float) -> Rule:
        """Acceptance at a temperature, in ticks; negative for a descent by the exact tuple."""
        problem, params = self.problems[0], self.params
        ranks = problem.load.shape[1]
        cooled = math.sqrt(max(temperature, 0.0) / (params.hot * self.start))
        smooth = params.smooth * cooled / (ranks * problem.mean_load)
        largest = float(problem.attention.sum(axis=1).max())
        level = params.level * cooled * max(0.0, 1.0 - largest / problem.mean_attention) / problem.mean_attention
        return Rule(temperature, params.mean / problem.shards, smooth, level)

    def run(self, temperature: float, until: float) -> None:
        """Sweep the whole population at one temperature until a share of progress."""
        chains = len(self.problems)
        rule = self.rule(temperature)
        while (now := self.progress()) < until:
            done = self.span[0] + now * (self.span[1] - self.span[0])
            left = (until - now) * (self.span[1] - self.span[0])
            expected = self.attempts * left / done if self.attempts and done > 0 else FIRST_CHUNK * chains
            count = int(min(max(1, math.ceil(expected / chains)), CHUNK if self.attempts else FIRST_CHUNK))
            if self.budget.attempts is not None:
                count = min(count, (self.budget.attempts - self.attempts) // chains)
            self.sweep(count, rule)

    def sweep(self, count: int, rule: Rule) -> None:
        """Make so many proposals in every chain."""
        chains = len(self.problems)
        kinds = schedule(self.params.kinds, count, self.rng)
        stream = mix(np.array([self.seed], dtype=np.uint64), np.array([self.sweeps + 1], dtype=np.uint64))
        keys = mix(stream, np.arange(1, chains + 1, dtype=np.uint64))
        one_problem = all(problem is self.problems[0] for problem in self.problems)
        if not self.compiled and one_problem:
            accepted = reference.sweep(self.problems[0], self.population, kinds, keys, rule)
        else:
            accepted = np.stack(self.each(partial(self._chain, kinds, keys, rule)))
        self.sweeps += 1
        self.attempts += count * chains
        self.diagnostics.proposed += np.bincount(kinds, minlength=len(KINDS)) * chains
        self.diagnostics.accepted += accepted.sum(axis=0)
        self.keep()
        self.budget.report(
            Progress("lay out", self.budget.elapsed(), self.attempts, int(self.score[0]), None, max(rule.temperature, 0.0)),
        )

    def _chain(self, kinds: NDArray[np.uint8], keys: NDArray[np.uint64], rule: Rule, k: int) -> IntArray:
        problem = self.problems[k]
        accepted: IntArray
        if self.compiled and problem.fits_kernels:
            state = replica(self.population, k)
            accepted = sweep(problem, state, kinds, keys[k], rule)
            finish(problem, state)
        else:
            alone = one_replica(self.population, k)
            accepted = reference.sweep(problem, alone, kinds, keys[k : k + 1], rule)[0]
        return accepted

    def each(self, work: Callable[[int], T]) -> list[T]:
        """Do the work of every chain, on as many threads as there are."""
        chains = range(len(self.problems))
        if self.threads == 1 or len(chains) == 1:
            return [work(k) for k in chains]
        return list(self.pool.map(work, chains))

    def keep(self) -> None:
        """Archive the best layout that any chain has seen."""
        scores = self.population.best_score
        k = int(np.lexsort((scores[:, 1], scores[:, 0]))[0])
        if (score := (int(scores[k, 0]), int(scores[k, 1]))) <= self.score:
            present = (self.population.score[k] == scores[k, :2]).all()
            self.best = self.cells(k) if present else self.population.best[k].astype(np.int64)
            self.best_problem, self.best_ranks, self.score = self.problems[k], self.ranks[k], score

    def cells(self, k: int) -> IntArray:
        """Present layout of chain k, cell of each unit by place, shape (units,)."""
        state, slots = replica(self.population, k), self.problems[k].slots
        cells: IntArray = state.place[state.cell // slots] * slots + state.cell % slots
        return cells

    def restart(self, k: int, cells: IntArray) -> None:
        """Begin chain k anew from a layout."""
        for mine, new in zip(self.population, make_state(self.problems[k], cells), strict=True):
            mine[k] = new

    def resume(self, k: int) -> None:
        """Let chain k go on from the archive."""
        self.problems[k], self.ranks[k] = self.best_problem, self.best_ranks
        self.restart(k, self.best)

    def resample(self, copies: IntArray) -> IntArray:
        """Overwrite chains that get no copy by those that get several, and return the source of every chain."""
        source = np.arange(len(copies))
        source[copies == 0] = np.repeat(source, np.maximum(copies - 1, 0))
        gone = np.flatnonzero(copies == 0)
        for array in self.population:
            array[gone] = array[source[gone]]
        self.problems = [self.problems[k] for k in source]
        self.ranks = [self.ranks[k] for k in source]
        return source

    def replace_experts(self) -> None:
        """Re-place the experts of every chain for its present rows."""
        if self.replacer is None:
            return
        replacer = self.replacer

        def chain(k: int) -> tuple[Problem, IntArray, IntArray]:
            cells = self.cells(k)
            return *replacer.replace(self.problems[k], self.ranks[k], cells), cells

        for k, (problem, ranks, cells) in enumerate(self.each(chain)):
            self.problems[k], self.ranks[k] = problem, ranks
            self.restart(k, cells)
        self.diagnostics.replacements += len(self.problems)
        self.keep()

    def result(self) -> Found:
        """Return the archived answer."""
        score = exact_score(self.best_problem, self.best)
        return Found(self.best_ranks, self.best, score, self.attempts, self.diagnostics)
