import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routepack.certificate import placement_bounds
from routepack.errors import InvalidInstance
from routepack.heuristics.placement import PLACEMENTS, identity, lpt, lpt_swap, rank_loads
from routepack.heuristics.placement_report import describe
from routepack.instance import placement_fault

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases" / "cases.jsonl"


def best_largest_load(weights, num_ranks):
    """Optimum of one layer by enumeration of the sets of the first rank."""
    if num_ranks == 1:
        return sum(weights)
    held = len(weights) // num_ranks
    best = sum(weights)
    for rest in combinations(range(1, len(weights)), held - 1):
        chosen = {0, *rest}
        left = [w for e, w in enumerate(weights) if e not in chosen]
        best = min(best, max(sum(weights[e] for e in chosen), best_largest_load(left, num_ranks - 1)))
    return best


def largest(method, loads, num_ranks):
    loads = np.asarray(loads)
    return rank_loads(PLACEMENTS[method](loads, num_ranks), loads, num_ranks).max(axis=1)


@st.composite
def layers(draw, high=1000):
    num_ranks, held = draw(st.sampled_from([(1, 3), (2, 1), (2, 2), (2, 4), (3, 2), (3, 3), (4, 2)]))
    size = num_ranks * held
    rows = draw(st.lists(st.lists(st.integers(0, high), min_size=size, max_size=size), min_size=1, max_size=2))
    return np.array(rows), num_ranks


@pytest.mark.parametrize("method", PLACEMENTS)
@given(layers())
def test_every_method_gives_a_valid_placement_at_or_above_the_bound(method, case):
    loads, num_ranks = case
    placement = PLACEMENTS[method](loads, num_ranks)
    assert placement_fault(method, placement, *loads.shape, num_ranks) is None
    assert (rank_loads(placement, loads, num_ranks).max(axis=1) >= placement_bounds(loads, num_ranks)).all()


@given(layers())
def test_swaps_are_never_worse_than_lpt_or_contiguous_blocks(case):
    loads, num_ranks = case
    swapped = largest("lpt-swap", loads, num_ranks)
    assert (swapped <= largest("lpt", loads, num_ranks)).all()
    assert (swapped <= largest("identity", loads, num_ranks)).all()


@settings(derandomize=True)  # no guarantee, so always the same layers
@given(layers())
def test_swaps_find_the_optimum_of_tiny_layers(case):
    loads, num_ranks = case
    assert largest("lpt-swap", loads, num_ranks).tolist() == [best_largest_load(row.tolist(), num_ranks) for row in loads]


@given(layers(), st.integers(2, 1000))
def test_a_common_factor_of_all_loads_leaves_the_placement(case, factor):
    loads, num_ranks = case
    assert np.array_equal(lpt_swap(loads * factor, num_ranks), lpt_swap(loads, num_ranks))


@given(layers(), st.randoms(use_true_random=False))
def test_the_names_of_experts_do_not_change_lpt(case, random):
    loads, num_ranks = case
    names = random.sample(range(loads.shape[1]), loads.shape[1])
    assert np.array_equal(largest("lpt", loads[:, names], num_ranks), largest("lpt", loads, num_ranks))


def test_lpt_breaks_ties_by_expert_then_rank():
    assert lpt(np.array([[1, 1, 1, 1]]), 2).tolist() == [[0, 1, 0, 1]]


def test_identity_is_contiguous_blocks():
    assert identity(2, 4, 2).tolist() == [[0, 0, 1, 1], [0, 0, 1, 1]]


def test_lpt_misses_what_swaps_find():
    loads = np.array([[12, 10, 12, 5, 9, 11]])
    # lpt: 12 12 | 11 to rank 0, 10 to rank 1, 9 to rank 1 (22 < 23): full, so 5 joins rank 0: 28 and 31
    assert largest("lpt", loads, 2) == [31]
    assert largest("lpt-swap", loads, 2) == [30]  # total 59; {12, 12, 5} and {10, 9, 11}


def test_the_input_is_left_alone_and_runs_agree():
    loads = np.random.default_rng(0).integers(0, 5000, (3, 64))
    before = loads.copy()
    assert np.array_equal(lpt_swap(loads, 8), lpt_swap(loads, 8))
    assert np.array_equal(loads, before)


def test_counts_above_two_to_the_24_stay_exact():
    assert largest("lpt-swap", [[2**24 + x for x in range(4)]], 2) == [2**25 + 3]  # {0, 3} and {1, 2}


@pytest.mark.parametrize("method", PLACEMENTS)
@pytest.mark.parametrize(
    ("loads", "num_ranks", "words"),
    [
        ([[1, 2, 3, 4, 5, 6]], 4, ["6 experts", "4 EP ranks"]),
        ([[-5, 1, 2, 3]], 2, ["loads[0][0] = -5"]),
        ([1, 2], 2, ["2 dimensions"]),
        ([[1.5, 2.0]], 2, ["float64"]),
        ([[np.nan, 2.0]], 2, ["float64"]),
        ([[1, 2]], 0, ["num_ranks = 0"]),
        ([[]], 2, ["0 experts"]),
    ],
)
def test_loads_that_are_no_counts_or_do_not_divide_are_refused(method, loads, num_ranks, words):
    with pytest.raises(InvalidInstance) as error:
        PLACEMENTS[method](np.array(loads), num_ranks)
    assert all(word in str(error.value) for word in words)


def test_a_layer_without_load_has_no_ratio_and_needs_nothing():
    report = describe(identity(1, 4, 2), np.zeros((1, 4), dtype=np.int64), 2)
    assert report.max_over_mean == [None]
    assert report.max_over_mean_expert == [None]
    assert report.no_permutation_helps == [True]
    assert report.hot == [False]


def test_a_hot_expert_is_named_as_the_reason():
    report = describe(identity(2, 4, 2), np.array([[100, 0, 0, 0], [3, 2, 2, 2]]), 2)
    assert report.bounds.tolist() == [100, 5]  # 100 + 0; ceil(9 / 2)
    assert report.no_permutation_helps == [True, True]
    assert report.hot == [True, False]  # 100 > 50; 5 is the mean 4.5 rounded up


def shared_cases():
    if not CASES.exists():
        return []
    cases = [json.loads(line) for line in CASES.read_text().splitlines()]
    return [c for c in cases if c["kind"] == "placement" and "current_placement" not in c["input"]]


@pytest.mark.skipif(not CASES.exists(), reason="shared cases are not here")
@pytest.mark.parametrize("case", shared_cases(), ids=lambda c: c["id"])
def test_shared_case(case):
    loads, ep, expect = np.array(case["input"]["demand"]), case["input"]["ep"], case["expect"]
    if expect["status"] == "invalid":
        with pytest.raises(InvalidInstance) as error:
            lpt_swap(loads, ep)
        assert all(text in str(error.value) for text in expect.get("message_contains", []))
        return
    placement = lpt_swap(loads, ep)
    report = describe(placement, loads, ep)
    facts = {
        "max_rank_load": report.max_rank_load,
        "lower_bound": report.bounds.tolist(),
        "lpt_max_rank_load": largest("lpt", loads, ep).tolist(),
        "max_over_mean": report.max_over_mean,
        "max_over_mean_expert": report.max_over_mean_expert,
        "sum_rank_loads": report.loads.sum(axis=1).tolist(),
        "ranks_without_load": report.ranks_without_load[0],
        "experts_per_rank": report.experts_per_rank,
        "rank_sets": sorted(np.flatnonzero(placement[0] == p).tolist() for p in range(ep)),
    }
    assert {key: facts[key] for key in facts if key in expect} == {key: expect[key] for key in facts if key in expect}
    for _ in range(expect.get("identical_runs", 1)):
        assert np.array_equal(lpt_swap(loads, ep), placement)
