"""Packing and proof meet: on everything small, on hard instances of the literature, and on windows in steps of whole rows."""

import gzip
import json

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routepack.bounds.column_generation import SCALE, ColumnGeneration
from routepack.bounds.knapsack import heaviest_patterns
from routepack.budget import Budget
from routepack.certificate import WeightCertificate, check_weights, heaviest_fill
from routepack.heuristics.packing_reduction import forced_cells
from routepack.rows import settle

units = st.integers(1, 40).flatmap(lambda cap: st.tuples(st.lists(st.integers(1, cap), min_size=1, max_size=8), st.just(cap)))


def optimum(lengths, capacity):
    return oracle.fewest_cells(sorted(lengths, reverse=True), capacity)


def types(lengths):
    distinct, counts = np.unique(lengths, return_counts=True)
    return distinct[::-1], counts[::-1]


@given(units, st.data())
def test_heaviest_patterns_fit_and_start_with_the_heaviest(case, data):
    lengths, demand = types(case[0])
    weights = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(lengths), max_size=len(lengths))))
    limit, patterns = heaviest_patterns(lengths, weights, demand, case[1], 5)
    each = np.repeat(weights, demand)
    assert limit == heaviest_fill(np.repeat(lengths, demand), each, case[1])
    assert (patterns @ lengths <= case[1]).all()
    assert (patterns <= demand).all()
    assert (patterns @ weights).max(initial=0) == limit


@given(units)
def test_column_generation_bounds_check_and_never_exceed_the_optimum(case):
    lengths, demand = types(case[0])
    bound = ColumnGeneration(lengths, demand, case[1]).solve(demand, Budget()).bound
    certificate = WeightCertificate(np.repeat(bound.weights, demand), bound.limit)
    assert check_weights(certificate, np.repeat(lengths, demand), case[1]) == bound.cells(demand) <= optimum(case[0], case[1])


def test_column_generation_proves_more_than_volume():
    lengths, demand = np.array([4]), np.array([7])  # two fours fit under 10: 7/2, where volume says 2.8
    relaxed = ColumnGeneration(lengths, demand, 10).solve(demand, Budget())
    assert relaxed.bound.cells(demand) == 4
    assert abs(relaxed.bound.limit - SCALE) <= 2  # duals are in the scale of one cell, each rounded down


@given(units)
def test_forced_cells_leave_an_optimum_within_reach(case):
    lengths = np.array(case[0])
    forced, rest = forced_cells(lengths, case[1])
    assert sorted([i for cell in forced for i in cell] + rest.tolist()) == list(range(len(lengths)))
    assert len(forced) + (optimum(lengths[rest].tolist(), case[1]) if len(rest) else 0) == optimum(case[0], case[1])


@given(units, st.integers(1, 3))
def test_rows_settle_on_everything_small(case, slots):
    lengths = np.array(case[0])
    settled = settle(lengths, case[1], slots)
    least = optimum(case[0], case[1])
    assert np.bincount(settled.cell_of_unit, weights=lengths).max() <= case[1]
    assert check_weights(settled.certificate, lengths, case[1]) <= least
    assert -(-settled.cells // slots) == -(-least // slots)


def test_the_rounded_question_needs_no_exact_answer():
    lengths = np.array([4, 7, 6, 12, 2, 9])  # two full cells exist, three are found first
    assert settle(lengths, 20, slots=4).cells == 3  # one row either way
    assert settle(lengths, 20).cells == 2


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "name"), [("FalkenauerT", "Falkenauer_t120_00"), ("Hard", "Hard28_BPP360"), ("Scholl", "HARD0")])
def test_hard_instances_of_the_literature_are_closed(shared, suite, name):
    with gzip.open(shared / "data" / "binpacking" / f"{suite}.jsonl.gz", "rt") as file:
        case = next(case for case in map(json.loads, file) if case["name"] == name)
    lengths = np.repeat(*np.array(case["items"]).T)
    settled = settle(lengths, case["C"])
    assert check_weights(settled.certificate, lengths, case["C"]) == settled.cells == case["opt"]


@pytest.mark.slow
def test_a_coarse_grid_still_gives_valid_answers():
    lengths = 20_000 + 7919 * np.arange(700) % 70_000  # cap 262,144: the knapsack's table is too large for full resolution
    settled = settle(lengths, 262_144, slots=8, budget=Budget(attempts=50))
    assert np.bincount(settled.cell_of_unit, weights=lengths).max() <= 262_144
    assert check_weights(settled.certificate, lengths, 262_144) <= settled.cells
