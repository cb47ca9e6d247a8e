import json
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routepack.certificate import placement_bounds
from routepack.errors import InvalidInstance
from routepack.heuristics.migration import moved_experts, place_from, relabel
from routepack.heuristics.placement import identity, lpt_swap, rank_loads
from routepack.instance import placement_fault

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases" / "cases.jsonl"


@st.composite
def windows(draw):
    num_ranks, held, num_layers = draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    experts = np.arange(num_ranks * held)
    current, placement = ([rng.permutation(experts // held) for _ in range(num_layers)] for _ in range(2))
    loads = rng.integers(0, draw(st.sampled_from([3, 1000])), (num_layers, len(experts)))
    return np.stack(current), np.stack(placement), loads, num_ranks


def largest(placement, loads, num_ranks):
    return rank_loads(placement, loads, num_ranks).max(axis=1)


@given(windows())
def test_relabelling_moves_the_fewest_experts_of_all_namings(case):
    current, placement, _, num_ranks = case
    namings = np.array(list(permutations(range(num_ranks))))
    fewest = np.min([moved_experts(current, names[placement]) for names in namings], axis=0)
    renamed = relabel(placement, current, num_ranks)
    assert moved_experts(current, renamed).tolist() == fewest.tolist()
    same_set = placement[:, :, None] == placement[:, None, :]
    assert ((renamed[:, :, None] == renamed[:, None, :]) == same_set).all()


def test_relabelling_a_renamed_placement_moves_nothing_at_full_width():
    rng = np.random.default_rng(0)
    current = rng.permutation(np.arange(512) // 4)[None]
    assert np.array_equal(relabel(rng.permutation(128)[current], current, 128), current)


@given(windows(), st.sampled_from([None, 0, 1, 2, 4, 5]), st.sampled_from([None, 0.0, 0.1, 0.5]))
def test_limits_are_kept_and_no_layer_gets_worse(case, max_moves, tolerance):
    current, _, loads, num_ranks = case
    placement = place_from(current, loads, num_ranks, max_moves=max_moves, tolerance=tolerance)
    assert placement_fault("placement", placement, *loads.shape, num_ranks) is None
    before, after = largest(current, loads, num_ranks), largest(placement, loads, num_ranks)
    assert (after <= before).all()
    moved = moved_experts(current, placement)
    assert (moved <= (loads.shape[1] if max_moves is None else max_moves)).all()
    assert (moved[after == before] == 0).all()
    if tolerance is not None:
        within = before <= placement_bounds(loads, num_ranks) * (1 + tolerance)
        assert (moved[within] == 0).all()
    if max_moves is None and tolerance is None:
        assert (after <= largest(lpt_swap(loads, num_ranks), loads, num_ranks)).all()


def test_tolerance_moves_fewer_experts_than_a_fresh_placement():
    rng = np.random.default_rng(0)
    loads = np.rint(rng.dirichlet(np.full(64, 5.0), 8) * 100_000).astype(np.int64)
    current = lpt_swap(loads, 8)
    later = np.rint(loads * rng.uniform(0.8, 1.25, loads.shape)).astype(np.int64)
    near = place_from(current, later, 8, tolerance=0.02)
    fresh = relabel(lpt_swap(later, 8), current, 8)
    assert (largest(near, later, 8) <= 1.02 * placement_bounds(later, 8)).all()
    assert moved_experts(current, near).sum() * 3 < moved_experts(current, fresh).sum()


@pytest.mark.parametrize(
    ("current", "options", "words"),
    [
        ([[0, 0, 0, 1]], {}, "current_placement[0] puts 3 experts on rank 0"),
        ([[0, 1]], {}, "current_placement has shape (1, 2)"),
        ([[0, 0, 1, 2]], {}, "current_placement[0][3] = 2 is no EP rank"),
        ([[0, 0, 1, 1]], {"max_moves": -1}, "max_moves = -1 is negative"),
        ([[0, 0, 1, 1]], {"tolerance": -0.1}, "tolerance = -0.1"),
        ([[0, 0, 1, 1]], {"tolerance": float("nan")}, "tolerance = nan"),
    ],
)
def test_a_current_placement_or_limit_that_makes_no_sense_is_refused(current, options, words):
    with pytest.raises(InvalidInstance) as error:
        place_from(np.array(current), np.array([[4, 3, 2, 1]]), 2, **options)
    assert words in str(error.value)


def test_the_current_placement_is_left_alone():
    current = identity(1, 4, 2)
    place_from(current, np.array([[9, 9, 1, 1]]), 2)
    assert current.tolist() == [[0, 0, 1, 1]]


def shared_cases():
    if not CASES.exists():
        return []
    cases = [json.loads(line) for line in CASES.read_text().splitlines()]
    return [c for c in cases if c["kind"] == "placement" and "current_placement" in c["input"]]


@pytest.mark.skipif(not CASES.exists(), reason="shared cases are not here")
@pytest.mark.parametrize("case", shared_cases(), ids=lambda c: c["id"])
def test_shared_case(case):
    current, loads, ep = np.array(case["input"]["current_placement"]), np.array(case["input"]["demand"]), case["input"]["ep"]
    options, expect = case.get("options", {}), case["expect"]
    if expect["status"] == "invalid":
        with pytest.raises(InvalidInstance):
            place_from(current, loads, ep, **options)
        return
    placement = place_from(current, loads, ep, **options)
    load = largest(placement, loads, ep).tolist()
    assert load == expect.get("max_rank_load", load)
    assert load <= expect.get("max_rank_load_at_most", load)  # one layer
    assert moved_experts(current, placement).sum() == expect["moves"]
