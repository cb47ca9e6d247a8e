"""Bounds on the number of cells: never above the optimum, and always with weights that check."""

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routepack.bounds import dual_feasible
from routepack.bounds.rows import prove_cells
from routepack.certificate import WeightCertificate, check_weights
from routepack.errors import InvalidCertificate

units = st.integers(1, 40).flatmap(lambda cap: st.tuples(st.lists(st.integers(1, cap), min_size=1, max_size=7), st.just(cap)))


def optimum(case):
    return oracle.fewest_cells(sorted(case[0], reverse=True), case[1])


@given(units)
def test_no_bound_exceeds_the_optimum(case):
    lengths, capacity = np.array(case[0]), case[1]
    certificate = prove_cells(lengths, capacity)
    assert check_weights(certificate, lengths, capacity) == certificate.cells
    assert -(-sum(case[0]) // capacity) <= certificate.cells <= optimum(case)


@given(units)
def test_every_dual_feasible_function_checks(case):
    distinct, place, counts = np.unique(case[0], return_inverse=True, return_counts=True)
    for weights, limit in dual_feasible.weighings(distinct, counts, case[1]):
        check_weights(WeightCertificate(weights[place], limit), np.array(case[0]), case[1])


@given(units)
def test_corrupted_certificates_are_refused_or_still_true(case):
    lengths, capacity = np.array(case[0]), case[1]
    good = prove_cells(lengths, capacity)
    corrupted = [WeightCertificate(good.weights[1:], good.limit), WeightCertificate(good.weights, good.limit - 1)]
    corrupted += [WeightCertificate(good.weights + (np.arange(len(lengths)) == i), good.limit) for i in range(len(lengths))]
    for bad in corrupted:
        try:
            proved = check_weights(bad, lengths, capacity)
        except InvalidCertificate:
            continue
        assert len(bad.weights) == len(lengths)
        assert proved <= optimum(case)


def test_tight_certificates_do_not_survive_a_change():
    lengths = np.array([4, 4, 4, 6, 6, 6])  # {4, 6} fills a cell of 10, so no weight can rise and the limit cannot fall
    good = prove_cells(lengths, 10)
    assert good.cells == 3
    for bad in (
        WeightCertificate(good.weights + (np.arange(6) == 2), good.limit),
        WeightCertificate(good.weights, good.limit - 1),
        WeightCertificate(good.weights[:-1], good.limit),
    ):
        with pytest.raises(InvalidCertificate):
            check_weights(bad, lengths, 10)


def test_volume_is_improved_where_few_fit_together():
    assert prove_cells(np.array([4] * 7), 10).cells == 4  # two a cell; volume says 3
    assert prove_cells(np.array([7] * 8), 8).cells == 8  # one a cell; volume says 7


def test_martello_toth_weighs_long_items_as_whole_cells():
    distinct, counts = np.array([2, 6, 7]), np.array([1, 3, 2])
    weights, limit = dual_feasible.martello_toth(distinct, counts, 10)
    assert (weights @ counts, limit) == (50, 10)  # threshold 5: five items over half a cell, each a whole one


def test_a_target_stops_the_search_early():
    lengths = np.array([4] * 7)
    assert prove_cells(lengths, 10, target=3).limit == 10  # volume proves three
    assert prove_cells(lengths, 10, target=4).cells == 4
