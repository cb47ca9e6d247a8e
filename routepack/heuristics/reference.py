"""
The compiled kernels once more, in plain numpy over a whole population.

All chains make the same kind of proposal at the same time and draw the same counter-based random numbers as the kernels do, so that both
walk the same trajectories. This is the kernels' test oracle, the baseline of their speed, and the search where numba is missing.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from routepack.heuristics.acceptance import Rule
from routepack.heuristics.draws import (
    CELL_SWAP,
    GUIDED_MOVE,
    GUIDED_SWAP,
    KINDS,
    LEVEL_SWAP,
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
from routepack.heuristics.reference_chains import Bools, Chains
from routepack.heuristics.state import State
from routepack.window import IntArray


def sweep(problem: Problem, population: State, kinds: NDArray[np.uint8], keys: NDArray[np.uint64], rule: Rule) -> IntArray:
    """
    Make one proposal in every chain for each entry of ``kinds``, in place.

    Parameters and result as `routepack.heuristics.kernels.sweep`, with one key and one row of the result for each chain.
    """
    chains = _Proposals(problem, population, rule)
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
        elif kind in (PAIR_SWAP, LEVEL_SWAP):
            bits = ((choice >> np.uint64(13)) & np.uint64(0x7FFFF)) << np.uint64(13)
            i = below(high, problem.units)
            j = chains.units_beside(i, low, choice >> U32) if kind == LEVEL_SWAP else below(low, problem.units)
            done = chains.try_pairs(i, j, bits)
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


class _Proposals(Chains):
    """What each kind of proposal exchanges; every array over proposals has shape (chains,)."""

    def units_beside(self, i: IntArray, bits: NDArray[np.uint64], more: NDArray[np.uint64]) -> Any:
        p, s, k = self.problem, self.state, self.k
        x = s.cell[k, i].astype(np.int64)
        slot = x % p.slots + 1 + below(bits, max(p.slots - 1, 1))
        c = x // p.slots * p.slots + slot % p.slots
        member = ((more * s.occupancy[k, c].astype(np.uint64)) >> U32).astype(np.int64)
        return s.members[k, c, member].astype(np.int64)

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
        allowed = (x != y) & (s.tokens[k, x] + longer <= p.cap) & (s.tokens[k, y] - longer <= p.cap)
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
