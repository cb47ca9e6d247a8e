"""One chain of proposals, compiled: draw a kind and what it is about, and propose."""

import numpy as np
from numpy.typing import NDArray

from routepack.compiled import compiled
from routepack.heuristics.acceptance import Rule, store_best
from routepack.heuristics.draws import (
    CELL_SWAP,
    GUIDED_MOVE,
    GUIDED_SWAP,
    KINDS,
    LEVEL_SWAP,
    LEVELS,
    LOW,
    NEAR_SWAP,
    PAIR_SWAP,
    ROW_SHARD_SWAP,
    SWAP,
    U32,
    UPHILL,
    below_scalar,
    mix_scalar,
)
from routepack.heuristics.picks import guided_unit, near_unit, unit_beside
from routepack.heuristics.problem import Problem
from routepack.heuristics.proposals import Scratch, try_cells, try_pairs, try_row_shards, try_units
from routepack.heuristics.state import State
from routepack.window import IntArray


@compiled
def sweep(problem: Problem, state: State, kinds: NDArray[np.uint8], key: np.uint64, rule: Rule) -> IntArray:
    """
    Make one proposal for each entry of ``kinds``, in place.

    Parameters
    ----------
    problem, state
        What is laid out, and the chain.
    kinds
        Kinds of the proposals.
    key
        Stream of random numbers; each sweep of each chain has its own.
    rule
        When a proposal is taken.

    Returns
    -------
    IntArray
        Accepted proposals of each kind, shape (kinds,).
    """
    accepted = np.zeros(len(KINDS), dtype=np.int64)
    ranks, layers = problem.load.shape[1:]
    room = Scratch(
        np.zeros((2, layers), dtype=np.int32),
        np.zeros((2, ranks, layers), dtype=np.int32),
        np.zeros(problem.attention.shape[1], dtype=np.int64),
        np.zeros(layers, dtype=np.float32),
    )
    cells = len(state.occupancy)
    for n in range(len(kinds)):
        kind = kinds[n]
        first = mix_scalar(key, np.uint64(2 * n + 1))
        choice = mix_scalar(key, np.uint64(2 * n + 2))
        high, low = first >> U32, first & LOW
        slack = rule.temperature * UPHILL[choice & np.uint64(LEVELS - 1)] if rule.temperature >= 0 else -1.0
        if kind == CELL_SWAP:
            done = try_cells(problem, state, below_scalar(high, cells), below_scalar(low, cells), slack, rule, room)
        elif kind == ROW_SHARD_SWAP:
            done = try_row_shards(problem, state, below_scalar(high, len(state.cost)), below_scalar(low, len(state.cost)), slack, rule)
        elif kind in (PAIR_SWAP, LEVEL_SWAP):
            bits = ((choice >> np.uint64(13)) & np.uint64(0x7FFFF)) << np.uint64(13)
            i = below_scalar(high, problem.units)
            j = unit_beside(problem, state, i, low, choice >> U32) if kind == LEVEL_SWAP else below_scalar(low, problem.units)
            done = try_pairs(problem, state, i, j, bits, slack, rule, room)
        else:
            guided = kind in (GUIDED_MOVE, GUIDED_SWAP)
            i = guided_unit(problem, state, high, choice) if guided else below_scalar(high, problem.units)
            if kind in (SWAP, GUIDED_SWAP):
                j = below_scalar(low, problem.units)
                y = state.cell[j]
            elif kind == NEAR_SWAP:
                j = near_unit(problem, i, low)
                y = state.cell[j]
            else:
                j = problem.units
                y = below_scalar(low, cells)
            done = try_units(problem, state, i, j, y, slack, rule, room)
        if done:
            accepted[kind] += 1
    return accepted


@compiled
def finish(problem: Problem, state: State) -> None:
    """Store the present layout if it is the best so far."""
    if state.best_score[2]:
        store_best(problem, state)
