"""
The compiled kernels once more, in plain numpy over a whole population.

All chains make the same kind of proposal at the same time and draw the same counter-based random numbers as the kernels do, so that both
walk the same trajectories. This is the kernels' test oracle, the baseline of their speed, and the search where numba is missing.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routepack.heuristics.acceptance import SMOOTH_REACH, Rule
from routepack.heuristics.draws import (
    CELL_SWAP,
    GUIDED_MOVE,
    GUIDED_SWAP,
    KINDS,
    LEVELS,
    LOW,
    NEAR,
    NEAR_SWAP,
    PAIR_SWAP,
    ROW_SHARD_SWAP,
    SWAP,
    U32,
    UPHILL,
    below,
    mix,
)
from routepack.heuristics.problem import Problem
from routepack.heuristics.state import State, expert_costs
from routepack.window import IntArray

Bools = NDArray[np.bool_]


def sweep(problem: Problem, population: State, kinds: NDArray[np.uint8], keys: NDArray[np.uint64], rule: Rule) -> IntArray:
    """
    Make one proposal in every chain for each entry of ``kinds``, in place.

    Parameters and result as `routepack.heuristics.kernels.sweep`, with one key and one row of the result for each chain.
    """
    chains = _Chains(problem, population, rule)
    accepted = np.zeros((len(keys), len(KINDS)), dtype=np.int64)
    for n, kind in enumerate(kinds.tolist()):
        first, choice = (mix(keys, np.array([2 * n + draw], dtype=np.uint64)) for draw in (1, 2))
        high, low = first >> U32, first & LOW
        chains.slack = rule.temperature * UPHILL[(choice & np.uint64(LEVELS - 1)).astype(np.int64)]
        if kind == CELL_SWAP:
            done = chains.try_cells(below(high, problem.cells), below(low, problem.cells))
        elif kind == ROW_SHARD_SWAP:
            row_shards = problem.shards * problem.rows
            done = chains.try_row_shards(below(high, row_shards), below(low, row_shards))
        elif kind == PAIR_SWAP:
            bits = ((choice >> np.uint64(13)) & np.uint64(0x7FFFF)) << np.uint64(13)
            done = chains.try_pairs(below(high, problem.units), below(low, problem.units), bits)
        else:
            guided = kind in (GUIDED_MOVE, GUIDED_SWAP)
            i = chains.guided_units(high, choice) if guided else below(high, problem.units)
            if kind in (SWAP, GUIDED_SWAP):
                j = below(low, problem.units)
                y = population.cell[chains.k, j].astype(np.int64)
            elif kind == NEAR_SWAP:
                rank = problem.rank[i] - NEAR + below(low, 2 * NEAR + 1)
                j = problem.by_length[rank.clip(0, problem.units - 1)]
                y = population.cell[chains.k, j].astype(np.int64)
            else:
                j, y = np.full(len(keys), problem.units), below(low, problem.cells)
            done = chains.try_units(i, j, y)
        accepted[:, kind] += done
    for k in np.flatnonzero(population.best_score[:, 2]):
        chains.store_best(np.array([k]))
    return accepted


class _Chains:
    """A population and what its proposals share; ``k`` numbers the chains, and every array over proposals has shape (chains,)."""

    def __init__(self, problem: Problem, population: State, rule: Rule) -> None:
        self.problem, self.state, self.rule = problem, population, rule
        self.k = np.arange(len(population.score))
        self.slack = np.zeros(len(self.k))

    def guided_units(self, bits: NDArray[np.uint64], choice: NDArray[np.uint64]) -> Any:
        p, s, k = self.problem, self.state, self.k
        row = below(choice >> U32, p.rows)
        if p.row_sync:
            in_row = s.entity[k[:, None], np.arange(p.shards) * p.rows + row[:, None]]
            h = in_row[k, np.argmax(s.cost[k[:, None], in_row], axis=1)]
        else:
            h = s.entity[k, np.argmax(s.shard, axis=1) * p.rows + row]
        slot = below(((choice >> np.uint64(13)) & np.uint64(0x7FFFF)) << np.uint64(13), p.slots)
        cells = h[:, None] * p.slots + np.arange(p.slots)
        most = np.argmax(s.attention[k[:, None], cells].sum(axis=2), axis=1)
        c = h * p.slots + np.where(choice & np.uint64(4096), most, slot)
        member = ((bits * s.occupancy[k, c].astype(np.uint64)) >> U32).astype(np.int64)
        return s.members[k, c, member].astype(np.int64)

    def attention(self, h: IntArray, x: IntArray, y: IntArray, change: IntArray) -> IntArray:
        p, s = self.problem, self.state
        cells = h[:, None] * p.slots + np.arange(p.slots)
        ticks = s.attention[self.k[:, None], cells]  # (chain, slot, stage)
        ticks = ticks + np.where((cells == x[:, None])[:, :, None], change[:, None, :], 0)
        ticks = ticks - np.where((cells == y[:, None])[:, :, None], change[:, None, :], 0)
        total: IntArray = ticks.max(axis=1).sum(axis=1)
        return total

    def experts(self, load: IntArray, mass: IntArray) -> IntArray:
        return expert_costs(self.problem, load.max(axis=1).sum(axis=1, dtype=np.int64), mass)

    def smoothing(self, a: IntArray, b: IntArray, shift: IntArray) -> NDArray[np.float64]:
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
        s, slots = self.state, self.problem.slots
        cell = s.cell[k].astype(np.int64)
        s.best[k] = s.place[k[:, None], cell // slots] * slots + cell % slots
        s.best_score[k, 2] = 0

    def slot_of(self, c: IntArray) -> Any:
        p = self.problem
        return self.state.place[self.k, c // p.slots] // p.rows * p.slots + c % p.slots

    def try_units(self, i: IntArray, j: IntArray, y: IntArray) -> Bools:
        p, s, k = self.problem, self.state, self.k
        x = s.cell[k, i].astype(np.int64)
        moved = j == p.units
        longer = p.length[j] - p.length[i]
        allowed = (x != y) & ~(moved & (s.occupancy[k, x] == 1))
        allowed &= (s.tokens[k, x] + longer <= p.cap) & (s.tokens[k, y] - longer <= p.cap)
        if p.equal_samples:
            allowed &= (p.size[i] == p.size[j]) | (self.slot_of(x) == self.slot_of(y))
        a, b = x // p.slots, y // p.slots
        apart = a != b
        shift = (p.load[j] - p.load[i]) * apart[:, None, None]
        done = self.exchange(allowed, x, y, p.attention[j] - p.attention[i], shift, (p.mass[j] - p.mass[i]) * apart)
        for n in np.flatnonzero(done).tolist():
            self.take(n, int(i[n]))
            if not moved[n]:
                self.take(n, int(j[n]))
                self.put(n, int(j[n]), int(x[n]))
            self.put(n, int(i[n]), int(y[n]))
        return done

    def partner(self, n: int, y: int, j: int, wanted: int) -> int:
        p, s = self.problem, self.state
        units = s.members[n, y, : s.occupancy[n, y]]
        units = np.concatenate([[p.units], units[units != j]])
        return int(units[np.argmin(np.abs(wanted - p.length[units]))])

    def try_pairs(self, i: IntArray, j: IntArray, bits: NDArray[np.uint64]) -> Bools:
        p, s, k = self.problem, self.state, self.k
        x, y = s.cell[k, i].astype(np.int64), s.cell[k, j].astype(np.int64)
        other = s.members[k, x, ((bits * s.occupancy[k, x].astype(np.uint64)) >> U32).astype(np.int64)]
        also_i = np.where(other == i, p.units, other)
        wanted = p.length[i] + p.length[also_i] - p.length[j]
        also_j = np.array([self.partner(n, int(y[n]), int(j[n]), int(wanted[n])) for n in k.tolist()])
        gives, takes = np.stack([i, also_i]), np.stack([j, also_j])  # (2, chain)

        def more(values: NDArray[Any]) -> Any:
            return values[takes].sum(axis=0, dtype=values.dtype) - values[gives].sum(axis=0, dtype=values.dtype)

        longer, apart = more(p.length), x // p.slots != y // p.slots
        allowed = apart & (s.tokens[k, x] + longer <= p.cap) & (s.tokens[k, y] - longer <= p.cap)
        if p.equal_samples:
            allowed &= (more(p.size) == 0) | (self.slot_of(x) == self.slot_of(y))
        done = self.exchange(allowed, x, y, more(p.attention), more(p.load) * apart[:, None, None], more(p.mass) * apart)
        for n in np.flatnonzero(done).tolist():
            for unit in (*gives[:, n].tolist(), *takes[:, n].tolist()):
                if unit != p.units:
                    self.take(n, unit)
            for units, c in ((gives, y), (takes, x)):
                for unit in units[:, n].tolist():
                    if unit != p.units:
                        self.put(n, unit, int(c[n]))
        return done

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
        s = self.state
        c = s.cell[n, i]
        last = s.members[n, c, s.occupancy[n, c] - 1]
        s.members[n, c, s.position[n, i]] = last
        s.position[n, last] = s.position[n, i]
        self.add(n, i, c, -1)

    def put(self, n: int, i: int, c: int) -> None:
        s = self.state
        s.members[n, c, s.occupancy[n, c]] = i
        s.cell[n, i], s.position[n, i] = c, s.occupancy[n, c]
        self.add(n, i, c, 1)

    def add(self, n: int, i: int, c: int, sign: int) -> None:
        p, s = self.problem, self.state
        s.occupancy[n, c] += sign
        s.samples[n, c] += sign * p.size[i]
        s.tokens[n, c] += sign * p.length[i]
        s.attention[n, c] += sign * p.attention[i]

    def try_cells(self, x: IntArray, y: IntArray) -> Bools:
        p, s, k = self.problem, self.state, self.k
        allowed = x // p.slots != y // p.slots
        if p.equal_samples:
            allowed &= (s.samples[k, x] == s.samples[k, y]) | (self.slot_of(x) == self.slot_of(y))
        change = s.attention[k, y] - s.attention[k, x]
        apart = x // p.slots != y // p.slots
        shift = np.stack([self.cell_sum(p.load, n, y[n]) - self.cell_sum(p.load, n, x[n]) for n in k.tolist()]) * apart[:, None, None]
        heavier = np.stack([self.cell_sum(p.mass, n, y[n]) - self.cell_sum(p.mass, n, x[n]) for n in k.tolist()]) * apart
        done = self.exchange(allowed, x, y, change, shift, heavier)
        n = np.flatnonzero(done)
        xs, ys = x[n], y[n]
        for values in (s.members, s.occupancy, s.samples, s.tokens, s.attention):
            values[n, xs], values[n, ys] = values[n, ys], values[n, xs]
        for row, c in ((n, xs), (n, ys)):
            for chain, cell in zip(row.tolist(), c.tolist(), strict=True):
                s.cell[chain, s.members[chain, cell, : s.occupancy[chain, cell]]] = cell
        return done

    def cell_sum(self, values: NDArray[Any], n: int, c: int) -> Any:
        return values[self.state.members[n, c, : self.state.occupancy[n, c]]].sum(axis=0, dtype=values.dtype)

    def try_row_shards(self, a: IntArray, b: IntArray) -> Bools:
        p, s, k = self.problem, self.state, self.k
        same = s.place[k, a] // p.rows == s.place[k, b] // p.rows
        allowed = (a != b) & ~(same & (not p.row_sync))
        if p.equal_samples:
            by_slot = s.samples.reshape(len(k), -1, p.slots)
            allowed &= same | (by_slot[k, a] == by_slot[k, b]).all(axis=1)
        place = s.place.copy()
        place[k, a], place[k, b] = s.place[k, b], s.place[k, a]
        return self.settle(allowed, place, s.cost)
