"""
Dynamic programming over subsets: it agrees with listing and with every proven optimum, and keeps to its budget.

Mutations that these tests catch: a limit one tick too low, a set left out by reduced cost, splits that ignore the cap or leave a cell
empty, a maximum in the place of a sum, rows and shards swapped on the way back.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_windows import best_by_listing, random_window

from routepack.bounds.dantzig_wolfe import dantzig_wolfe_bound
from routepack.budget import Budget
from routepack.errors import InvalidInstance
from routepack.exact_subsets import solve_by_subsets
from routepack.instances.library.small import load_small
from routepack.layout_problem import LayoutProblem, cells_of_layout
from routepack.row_patterns import PatternSource, slots_of_set
from routepack.row_shard_certificate import IMPOSSIBLE, RowShardCertificate
from routepack.solvers.outcome import Status

CASES = [case for case in load_small() if not case.instance.options.equal_samples]


def problem_of(case) -> LayoutProblem:
    return LayoutProblem.of(case.instance, case.plan.placement, case.rows)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.instance.name)
def test_every_proven_optimum_is_found_without_a_start(case):
    problem = problem_of(case)
    outcome = solve_by_subsets(problem)
    assert outcome.status is Status.OPTIMAL
    assert problem.fault(outcome.cells) is None
    assert outcome.score == problem.score(outcome.cells) == case.optimum
    assert outcome.bound == case.optimum.makespan


def test_an_optimal_start_is_confirmed():
    for case in CASES[::5]:
        problem = problem_of(case)
        outcome = solve_by_subsets(problem, cells_of_layout(case.instance, case.plan.layout))
        assert (outcome.status, outcome.score) == (Status.OPTIMAL, case.optimum)


@given(st.integers(0, 10**9))
@settings(max_examples=60, deadline=None)
def test_the_optimum_is_that_of_listing_all_layouts(seed):
    instance, placement, rows = random_window(seed, 7)
    problem = LayoutProblem.of(instance, placement, rows)
    if problem.equal_samples or problem.num_cells**problem.num_units > 20_000:
        return
    optimum, outcome = best_by_listing(problem), solve_by_subsets(problem)
    assert outcome.score == optimum
    assert outcome.status is (Status.INFEASIBLE if optimum is None else Status.OPTIMAL)


def test_shards_that_meet_in_every_row_are_summed_under_the_least_maximum_of_each_row():
    # four shards, two rows: the sum of a row's shards may fall below that of the split with the least maximum of its parts
    for seed in range(6):
        rng = np.random.default_rng(seed)
        loads, b = rng.integers(0, 9, (9, 1, 2)), rng.integers(1, 9, (9, 1))
        problem = LayoutProblem(loads, b, np.ones(9, np.int64), np.ones(9, np.int64), 2, 2, 4, 1, sync="row")
        by_row = {}
        for row in itertools.combinations(range(9), 5):
            both = []
            for members in (row, tuple(set(range(9)) - set(row))):
                if members not in by_row:
                    by_row[members] = least_row(problem, members)
                both.append(by_row[members])
            by_row[row, None] = (both[0][0] + both[1][0], both[0][1] + both[1][1], max(both[0][0], both[1][0]))
        assert solve_by_subsets(problem).score == min(v for k, v in by_row.items() if k[-1] is None)


def least_row(problem: LayoutProblem, members: tuple[int, ...]) -> tuple[int, int]:
    """Least maximum of the row-shards of a row, and their least sum under it, by listing."""
    best = None
    for shard in itertools.product(range(problem.shards), repeat=len(members)):
        counts = np.bincount(shard, minlength=problem.shards)
        if counts.min() >= 1 and counts.max() <= problem.token_cap:
            costs = []
            for g in range(problem.shards):
                held = [i for i, s in zip(members, shard, strict=True) if s == g]
                costs.append(int(problem.attention[held].sum() + problem.loads[held].sum(axis=0).max()))
            found = (max(costs), sum(costs))
            best = found if best is None else min(best, found)
    assert best is not None
    return best


@pytest.mark.parametrize("stages", [1, 2])
def test_a_pattern_costs_what_its_best_split_costs(stages):
    rng = np.random.default_rng(stages)
    lengths = rng.integers(1, 9, 8)
    problem = LayoutProblem(rng.integers(0, 9, (8, 2, 2)), rng.integers(0, 30, (8, stages)), lengths, np.ones(8, np.int64), 13, 2, 1, 3)
    source = PatternSource(problem, RowShardCertificate(np.zeros(8, np.int64)))
    patterns = source.price(source.most, np.zeros(1, np.bool_))
    priced = dict(zip(patterns.sets.tolist(), patterns.costs.tolist(), strict=True))
    for mask in range(1, 256):
        members = [i for i in range(8) if mask >> i & 1]
        best = IMPOSSIBLE
        for slots in itertools.product(range(3), repeat=len(members)):
            tokens, units = np.bincount(slots, lengths[members], 3), np.bincount(slots, minlength=3)
            if tokens.max() <= 13 and units.min() > 0:
                attention = sum(int(np.bincount(slots, problem.attention[members, s], 3).max()) for s in range(stages))
                best = min(best, attention + int(problem.loads[members].sum(axis=0).max(axis=1).sum()))
        fits = len(members) <= 5 and int(lengths.sum() - lengths[members].sum()) <= 39  # the other row-shard's three cells
        assert priced.get(mask, IMPOSSIBLE) == (best if fits else IMPOSSIBLE)
        if mask in priced:
            assert sorted(slots_of_set(problem, mask, priced[mask])) == members


def test_a_limit_keeps_every_row_shard_of_every_plan_within_it():
    for case in CASES[::4]:
        problem = problem_of(case)
        source = PatternSource(problem, dantzig_wolfe_bound(problem))
        patterns = source.price(case.optimum.makespan, np.zeros(1, np.bool_))
        best = cells_of_layout(case.instance, case.plan.layout) // problem.slots
        for h in range(problem.num_row_shards):
            assert sum(1 << i for i in np.flatnonzero(best == h).tolist()) in patterns.sets


def test_too_many_units_and_equal_samples_are_refused_with_a_remedy():
    ones = np.ones((21, 1, 1), np.int64)
    with pytest.raises(InvalidInstance, match=r"21 units, over 20; use anneal"):
        solve_by_subsets(LayoutProblem(ones, ones[:, 0], ones[:, 0, 0], ones[:, 0, 0], 21, 1, 1, 1))
    two = ones[:2]
    tied = LayoutProblem(two, two[:, 0], two[:, 0, 0], two[:, 0, 0], 2, 1, 1, 2, equal_samples=True)
    with pytest.raises(InvalidInstance, match="use cp-sat or milp"):
        solve_by_subsets(tied)


def test_an_interruption_keeps_the_start_and_claims_the_bound_alone():
    case = max(CASES, key=lambda case: case.instance.window.num_samples * case.instance.topology.num_shards)  # takes a second in all
    problem, start = problem_of(case), cells_of_layout(case.instance, case.plan.layout)
    outcome = solve_by_subsets(problem, start, budget=Budget(interrupted=lambda: True))
    assert outcome.score == case.optimum
    assert outcome.status is Status.FEASIBLE
    assert outcome.bound <= case.optimum.makespan
