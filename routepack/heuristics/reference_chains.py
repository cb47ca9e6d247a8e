"""A population of chains in plain numpy: what a proposal changes, whether it is taken, and its bookkeeping; see `reference`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routepack.heuristics.acceptance import SMOOTH_REACH, Rule
from routepack.heuristics.problem import Problem
from routepack.heuristics.state import State, expert_costs
from routepack.window import IntArray

Bools = NDArray[np.bool_]


class Chains:
    """A population and what its proposals share; ``k`` numbers the chains, and every array over proposals has shape (chains,)."""

    def __init__(self, problem: Problem, population: State, rule: Rule) -> None:
        self.problem, self.state, self.rule = problem, population, rule
        self.k = np.arange(len(population.score))
        self.slack = np.zeros(len(self.k))

    def attention(self, h: IntArray, x: IntArray, y: IntArray, change: IntArray) -> IntArray:
        """Attention ticks of row-shards h once their cells x carry ``change`` more and their cells y as much less."""
        p, s = self.problem, self.state
        cells = h[:, None] * p.slots + np.arange(p.slots)
        ticks = s.attention[self.k[:, None], cells]  # (chain, slot, stage)
        ticks = ticks + np.where((cells == x[:, None])[:, :, None], change[:, None, :], 0)
        ticks = ticks - np.where((cells == y[:, None])[:, :, None], change[:, None, :], 0)
        total: IntArray = ticks.max(axis=1).sum(axis=1)
        return total

    def experts(self, load: IntArray, mass: IntArray) -> IntArray:
        """Expert ticks of row-shards with these loads, shape (chains, ranks, layers), and this much load in total."""
        return expert_costs(self.problem, load.max(axis=1).sum(axis=1, dtype=np.int64), mass)

    def smoothing(self, a: IntArray, b: IntArray, shift: IntArray) -> NDArray[np.float64]:
        """By how much the smooth potential of row-shards a and b rises when ``shift`` goes from b to a."""
        load = self.state.load
        layers = np.zeros((len(a), shift.shape[2]), dtype=np.float32)
        for p in range(shift.shape[1]):
            apart = shift[:, p] + load[self.k, a, p] - load[self.k, b, p]
            layers += shift[:, p].astype(np.float32) * apart.astype(np.float32)
        total: NDArray[np.float64] = np.add.accumulate(layers.astype(np.float64), axis=1)[:, -1]
        return total

    def scores(self, place: IntArray, cost: IntArray) -> tuple[IntArray, IntArray]:
        """Makespan and total of entity costs J at these places, (chains, row-shards) each."""
        grid = np.empty_like(cost)
        np.put_along_axis(grid, place, cost, axis=1)
        by_shard = grid.reshape(len(self.k), self.problem.shards, self.problem.rows)
        makespan = by_shard.max(axis=1).sum(axis=1) if self.problem.row_sync else by_shard.sum(axis=2).max(axis=1)
        return makespan, cost.sum(axis=1)

    def levelling(self, x: IntArray, y: IntArray, change: IntArray) -> NDArray[np.float64]:
        """By how much the potential of cells x and y rises when ``change`` goes from y to x."""
        attention, k = self.state.attention, self.k
        total = np.zeros(len(k))
        for stage in range(attention.shape[2]):
            delta = change[:, stage]
            total += delta.astype(np.float64) * (delta + attention[k, x, stage] - attention[k, y, stage]).astype(np.float64)
        return total

    def settle(self, allowed: Bools, place: IntArray, cost: IntArray, surrogate: Sequence[NDArray[np.float64]] = ()) -> Bools:
        """Decide about proposals that lead to these places and costs; store what the accepted ones change in both and in the score."""
        s = self.state
        take: Bools
        makespan, total = self.scores(place, cost)
        rise, total_rise = makespan - s.score[:, 0], total - s.score[:, 1]
        if self.rule.temperature < 0:
            level = (rise == 0) & (total_rise == 0) & (cost.max(axis=1) <= s.cost.max(axis=1))
            take = (rise < 0) | ((rise == 0) & (total_rise < 0)) | level
        else:
            left = self.slack - rise - self.rule.mean * total_rise
            take = left >= -SMOOTH_REACH * self.rule.temperature
            for part in surrogate:
                left = left - part
            take &= left >= 0
        take &= allowed
        worse = (rise > 0) | ((rise == 0) & (total_rise > 0))
        self.store_best(np.flatnonzero(take & worse & (s.best_score[:, 2] == 1)))
        better = (makespan < s.best_score[:, 0]) | ((makespan == s.best_score[:, 0]) & (total < s.best_score[:, 1]))
        k = np.flatnonzero(take & better)
        s.best_score[k] = np.stack([makespan[k], total[k], np.ones_like(k)], axis=1)
        k = np.flatnonzero(take)
        s.place[k], s.cost[k] = place[k], cost[k]
        s.entity[k[:, None], place[k]] = np.arange(place.shape[1])
        s.score[k] = np.stack([makespan[k], total[k]], axis=1)
        grid = np.take_along_axis(cost[k], s.entity[k], axis=1).reshape(len(k), self.problem.shards, self.problem.rows)
        s.shard[k], s.row[k] = grid.sum(axis=2), grid.max(axis=1)
        return take

    def store_best(self, k: IntArray) -> None:
        """Keep the layouts of these chains as their best."""
        s, slots = self.state, self.problem.slots
        cell = s.cell[k].astype(np.int64)
        s.best[k] = s.place[k[:, None], cell // slots] * slots + cell % slots
        s.best_score[k, 2] = 0

    def slot_of(self, c: IntArray) -> Any:
        """Shard and slot of these cells, as one number."""
        p = self.problem
        return self.state.place[self.k, c // p.slots] // p.rows * p.slots + c % p.slots

    def exchange(self, allowed: Bools, x: IntArray, y: IntArray, change: IntArray, shift: IntArray, heavier: IntArray) -> Bools:
        """Settle proposals after which cell x has ``change`` more ticks and its row-shard ``shift`` more load, and y less."""
        p, s, k = self.problem, self.state, self.k
        a, b = x // p.slots, y // p.slots
        cost = s.cost.copy()
        cost[k, a] = self.attention(a, x, y, change) + self.experts(s.load[k, a] + shift, s.mass[k, a] + heavier)
        apart = np.flatnonzero(a != b)
        cost[apart, b[apart]] = (self.attention(b, x, y, change) + self.experts(s.load[k, b] - shift, s.mass[k, b] - heavier))[apart]
        surrogate = (self.rule.level * self.levelling(x, y, change), self.rule.smooth * self.smoothing(a, b, shift))
        done = self.settle(allowed, s.place, cost, surrogate)
        n = np.flatnonzero(done)
        s.load[n, a[n]] += shift[n]
        s.load[n, b[n]] -= shift[n]
        s.mass[n, a[n]] += heavier[n]
        s.mass[n, b[n]] -= heavier[n]
        return done

    def take(self, n: int, i: int) -> None:
        """Take a unit out of its cell."""
        s = self.state
        c = s.cell[n, i]
        last = s.members[n, c, s.occupancy[n, c] - 1]
        s.members[n, c, s.position[n, i]] = last
        s.position[n, last] = s.position[n, i]
        self.add(n, i, c, -1)

    def put(self, n: int, i: int, c: int) -> None:
        """Put a unit into a cell."""
        s = self.state
        s.members[n, c, s.occupancy[n, c]] = i
        s.cell[n, i], s.position[n, i] = c, s.occupancy[n, c]
        self.add(n, i, c, 1)

    def add(self, n: int, i: int, c: int, sign: int) -> None:
        """Count a unit into the sums of a cell, or out of them."""
        p, s = self.problem, self.state
        s.occupancy[n, c] += sign
        s.samples[n, c] += sign * p.size[i]
        s.tokens[n, c] += sign * p.length[i]
        s.attention[n, c] += sign * p.attention[i]
