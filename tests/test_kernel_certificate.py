"""Bounds never exceed the brute-force optimum, and the checker believes no wrong weight."""

import itertools
import re

import numpy as np
import oracle
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import instances

from routepack import InvalidCertificate
from routepack.certificate import RowProof, WeightCertificate, check_weights, heaviest_fill, placement_bounds
from routepack.plan import Layout, Placement, Plan
from routepack.score_proof import ScoreProof
from routepack.verify import recompute_bound, verify_plan, verify_rows

TINY = [(1, 2, 1), (2, 2, 1), (2, 2, 2), (1, 2, 3)]
ITEMS = st.integers(1, 30).flatmap(lambda cap: st.tuples(st.just(cap), st.lists(st.integers(1, cap), min_size=1, max_size=8)))


def weights(values, limit):
    """Shorten the building of a certificate."""
    return WeightCertificate(np.array(values, dtype=np.int64), limit)


@given(ITEMS, st.data())
def test_heaviest_fill_is_the_best_of_all_subsets(items, data):
    cap, lengths = items
    values = data.draw(st.lists(st.integers(0, 9), min_size=len(lengths), max_size=len(lengths)))
    sets = itertools.product([0, 1], repeat=len(lengths))
    best = max(np.dot(x, values) for x in sets if np.dot(x, lengths) <= cap)
    assert heaviest_fill(np.array(lengths), np.array(values), cap) == best


@given(ITEMS, st.data())
def test_a_certificate_that_checks_never_exceeds_the_bin_packing_optimum(items, data):
    cap, lengths = items
    values = data.draw(st.lists(st.integers(0, 9), min_size=len(lengths), max_size=len(lengths)))
    limit = max(1, heaviest_fill(np.array(lengths), np.array(values), cap))
    optimum = oracle.fewest_cells(sorted(lengths, reverse=True), cap)
    assert check_weights(weights(values, limit), np.array(lengths), cap) <= optimum
    if limit > 1:
        with pytest.raises(InvalidCertificate, match=f"weighs {limit}, over its limit of {limit - 1}"):
            check_weights(weights(values, limit - 1), np.array(lengths), cap)


def test_lengths_as_weights_prove_the_volume_bound():
    assert check_weights(weights([4, 4, 4, 4], 10), np.array([4, 4, 4, 4]), 10) == 2  # ceil(16 / 10)


def test_unit_weights_prove_what_volume_cannot():
    assert check_weights(weights([1] * 7, 2), np.array([4] * 7), 10) == 4  # two fours fit, three do not


@pytest.mark.parametrize(
    ("certificate", "message"),
    [
        (weights([1], 1), "has 1 weights for 2 items"),
        (weights([1, -1], 1), "weight outside"),
        (weights([1, 1 << 31], 1), "weight outside"),
        (weights([1, 1], 0), "limit 0"),
        (weights([1, 1], 1), "a set of items that fits weighs 2, over its limit of 1"),
        (weights([3, 4], 6), "a set of items that fits weighs 7"),
    ],
)
def test_a_certificate_with_one_fault_is_refused_with_its_own_message(certificate, message):
    with pytest.raises(InvalidCertificate, match=re.escape(message)):
        check_weights(certificate, np.array([3, 4]), 10)


def test_a_certificate_that_would_take_too_long_is_refused_before_any_work():
    lengths = np.full(100, 999_999_937)
    with pytest.raises(InvalidCertificate, match=re.escape("more than 2**36 steps")):
        heaviest_fill(lengths, np.arange(1, 101), 2_000_000_011)


def test_the_row_status_follows_from_the_numbers():
    certificate = weights([1], 1)
    assert RowProof(3, 5, 3, certificate).status == "proved"
    assert RowProof(4, 5, 3, certificate).status == "best known, at least 3"


@given(st.sampled_from([(4, 2), (6, 2), (6, 3), (3, 3), (4, 1)]), st.data())
def test_the_layer_bound_never_exceeds_the_best_placement(shape, data):
    experts, ranks = shape
    loads = data.draw(st.lists(st.integers(0, 20), min_size=experts, max_size=experts))
    best = min(
        max(sum(w for w, p in zip(loads, row, strict=True) if p == rank) for rank in range(ranks))
        for row in oracle.placements_of_layer(experts, ranks)
    )
    bound = int(placement_bounds(np.array([loads]), ranks)[0])
    assert -(-sum(loads) // ranks) <= bound <= best


def test_the_layer_bound_has_its_three_terms():
    # mean 5; 20 with the lightest 1; three of the four nines share no rank of two, so 9 + 9.
    loads = np.array([[5, 5, 5, 5], [20, 1, 2, 3], [9, 9, 9, 0]])
    assert placement_bounds(loads, 2).tolist() == [10, 21, 18]


@settings(max_examples=150)
@given(instances(max_samples=4, max_layers=1, topologies=TINY), st.integers(1, 2))
def test_the_score_bound_never_exceeds_the_best_of_all_plans(instance, rows):
    assume(rows % instance.row_multiple == 0)
    best = oracle.best(instance, rows)
    assume(best is not None)
    assert recompute_bound(instance, None).value <= best[0]


@settings(max_examples=150)
@given(instances(max_samples=4, topologies=TINY), st.integers(1, 2))
def test_the_bound_of_a_placement_never_exceeds_its_best_layout(instance, rows):
    assume(rows % instance.row_multiple == 0)
    best = oracle.best(instance, rows, every_placement=False)
    assume(best is not None)
    experts, ranks = instance.window.num_experts, instance.topology.ep
    identity = Placement(np.tile(np.arange(experts) * ranks // experts, (instance.window.num_layers, 1)))
    bound = recompute_bound(instance, identity)
    assert recompute_bound(instance, None).value <= bound.value <= best[0]
    layout = next(oracle.layouts(instance, rows))
    assert verify_plan(instance, Plan(identity, Layout.from_lists(layout))).score >= best


@given(instances())
def test_weights_equal_to_lengths_check_on_every_instance_that_fits(instance):
    assume((instance.per_unit(instance.aligned_lengths) <= instance.token_cap).all() or instance.options.oversize == "own_row")
    units = instance.unit_lengths()
    proof = verify_rows(instance, instance.rows_for(len(units)), weights(units, instance.token_cap))
    assert proof.cells_lower_bound == -(-int(units.sum()) // instance.token_cap)


def test_an_unknown_gap_is_none_and_never_zero():
    assert ScoreProof("aggregation", 0, any_placement=True).gap(5) is None
    assert ScoreProof("aggregation", 0, any_placement=True).gap(0) == 0
    assert ScoreProof("aggregation", 100, any_placement=True).gap(101) == pytest.approx(0.01)
