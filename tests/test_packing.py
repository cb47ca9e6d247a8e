"""Packings: within the cap, never below the optimum, and at it where it can be had."""

import json

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routepack.heuristics.equal_samples import pack_equal
from routepack.heuristics.packing import open_cells, pack
from routepack.heuristics.packing_exact import fewest_cells
from routepack.heuristics.packing_exchange import exchange
from routepack.heuristics.packing_greedy import best_fit_decreasing, first_fit_decreasing, subset_sum_fill
from routepack.heuristics.packing_search import repair

METHODS = [first_fit_decreasing, best_fit_decreasing, subset_sum_fill, fewest_cells, pack]
units = st.integers(1, 20).flatmap(lambda cap: st.tuples(st.lists(st.integers(1, cap), min_size=1, max_size=7), st.just(cap)))


def loads(lengths, cells):
    return np.bincount(cells, weights=lengths).astype(int)


def used(lengths, cells, capacity):
    """Cells in use, after the checks that every packing must pass."""
    load = loads(lengths, cells)
    assert load.min() >= 1  # numbered without holes
    assert load.max() <= capacity
    return len(load)


def rule(n, w, keys):
    i = np.arange(n)
    return keys["min"] + (keys.get("per_window", 0) * w + keys["step"] * i + keys.get("square", 0) * i * i) % keys["mod"]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
@given(units)
def test_every_method_packs_within_the_cap(method, case):
    lengths, capacity = np.array(case[0]), case[1]
    optimum = oracle.fewest_cells(sorted(case[0], reverse=True), capacity)
    found = used(lengths, method(lengths, capacity), capacity)
    assert found == optimum if method in (fewest_cells, pack) else found >= optimum


def test_first_fit_and_best_fit_differ_where_they_should():
    lengths = np.array([8, 6, 6, 1])  # cells of 8 and 12 under a cap of 13 when the 1 comes
    assert first_fit_decreasing(lengths, 13).tolist() == [0, 1, 1, 0]
    assert best_fit_decreasing(lengths, 13).tolist() == [0, 1, 1, 1]


def test_exact_fill_finds_what_first_fit_misses():
    lengths = np.array([4, 7, 6, 12, 2, 9])  # {12, 6, 2} and {9, 7, 4}; first fit takes 12 + 7 and needs three
    assert used(lengths, first_fit_decreasing(lengths, 20), 20) == 3
    assert used(lengths, subset_sum_fill(lengths, 20), 20) == 2


def test_the_search_stops_at_the_target():
    lengths = np.array([4, 7, 6, 12, 2, 9])
    assert used(lengths, pack(lengths, 20, target=3), 20) == 3  # first fit's three are enough


def test_repair_trades_until_every_cell_is_full():
    lengths = np.array([3] * 16 + [4] * 16 + [5] * 16)  # {3, 4, 5} sixteen times fills cells of 12
    cells = repair(lengths, np.ones_like(lengths), np.arange(48) // 3, 16, 12, 1_000_000)
    assert used(lengths, cells, 12) == 16


def test_repair_says_so_when_there_is_too_little_room():
    assert repair(np.array([6, 6]), np.array([1, 1]), np.array([0, 0]), 1, 10, 1000) is None  # 12 tokens in one cell of 10


def test_a_window_of_8192_fills_every_row():
    lengths = rule(8192, 0, {"min": 64, "mod": 4096, "step": 7919})
    assert lengths[:4].tolist() == [64, 3887, 3614, 3341]
    assert used(lengths, pack(lengths, 32768, target=528), 32768) == 528  # 33 rows of 16 slots; 17,297,408 tokens need 528 cells


def test_small_windows_get_their_fewest_rows(shared):
    case = next(c for c in cases(shared, "generator") if c["id"] == "gen-forty-windows")
    keys = case["input"]["rule"]
    for w, rows in enumerate(case["expect"]["rows_per_window"]):
        n = keys["n"]["base"] + w % keys["n"]["mod"]
        slots = case["input"]["dp"]["base"] + w % case["input"]["dp"]["mod"]
        lengths = rule(n, w, keys)
        cells = used(lengths, pack(lengths, 100), 100)
        found = -(-cells // slots)
        assert (found if n >= found * slots else None) == rows


def cases(shared, kind):
    lines = (shared / "cases" / "cases.jsonl").read_text().splitlines()
    return [case for case in map(json.loads, lines) if case["kind"] == kind]


def test_field_cases_get_their_cells(shared):
    for case in cases(shared, "plan"):
        asked, told = case["input"], case["expect"]
        plain = not {"keep_together", "equal_samples", "oversize"} & set(case.get("options", {})) and "length_multiple" not in asked
        if told["status"] == "ok" and "cells_lower_bound" in told and plain:
            lengths = np.array(asked["lengths"])
            assert used(lengths, pack(lengths, asked["token_cap"]), asked["token_cap"]) == told["cells_lower_bound"], case["id"]


@given(units, st.integers(0, 6))
def test_cells_are_split_until_there_are_as_many_as_wanted(case, more):
    lengths, capacity = np.array(case[0]), case[1]
    cells = pack(lengths, capacity)
    wanted = int(cells.max()) + 1 + more
    if wanted > len(lengths):
        with pytest.raises(ValueError, match=f"num_cells = {wanted} is not between"):
            open_cells(lengths, cells, wanted)
    else:
        assert used(lengths, open_cells(lengths, cells, wanted), capacity) == wanted


def test_splitting_halves_the_fullest_cell_first():
    cells = open_cells(np.array([5, 4, 1, 2, 2]), np.array([0, 0, 0, 1, 1]), 3)
    assert sorted(loads([5, 4, 1, 2, 2], cells)) == [4, 5, 5]  # 10 -> 5 and 4 + 1; the cell of 4 stays whole


def equal(lengths, sizes, slots, rows, capacity):
    """Samples of each slot, after the checks that every equal packing must pass; ``None`` where none is found."""
    cells = pack_equal(np.array(lengths), np.array(sizes), slots, rows, capacity)
    if cells is None:
        return None
    assert used(np.array(lengths), cells, capacity) == slots * rows
    return np.bincount(cells // rows, weights=sizes).astype(int).tolist()


def test_equal_samples_costs_a_row_when_it_must():
    lengths = [10, 2, 2, 2, 2, 2]
    assert equal(lengths, [1] * 6, 2, 1, 10) is None  # three samples beside the 10 make 14 tokens
    assert equal(lengths, [1] * 6, 2, 2, 10) == [3, 3]


def test_equal_samples_counts_the_samples_of_groups():
    assert equal([6, 3, 1, 2, 4, 2], [3, 1, 1, 1, 3, 3], 2, 1, 10) == [6, 6]  # 3 + 3 and 3 + 1 + 1 + 1 samples
    assert equal([1, 1, 1], [2, 1, 1], 2, 1, 10) == [2, 2]
    assert equal([1, 1], [3, 1], 2, 1, 10) is None  # no split of 3 and 1 is even


def test_equal_samples_refuses_counts_that_do_not_divide():
    assert equal([1] * 5, [1] * 5, 2, 1, 10) is None  # 5 samples over 2 slots
    assert equal([1] * 2, [1] * 2, 2, 2, 10) is None  # 4 cells, 2 samples


@given(st.lists(st.integers(1, 10), min_size=2, max_size=6).filter(lambda x: len(x) % 2 == 0))
def test_equal_samples_is_found_at_some_number_of_rows(lengths):
    rows = len(lengths) // 2  # one sample a cell always works
    assert equal(lengths, [1] * len(lengths), 2, rows, 10) == [rows, rows]


def test_equal_samples_at_production_size():
    lengths = 100 + 7919 * np.arange(1024) % 4000  # mean 2,100: 64 slots with 16 samples each, about 33,600 tokens
    assert equal(lengths, [1] * 1024, 64, 5, 8192) == [16] * 64  # 64 * 5 * 8192 tokens leave 18 % free


@given(units, st.integers(1, 3))
def test_exchange_packs_no_worse_than_before_and_within_the_cap(case, target):
    lengths, capacity = np.array(case[0]), case[1]
    apart = np.arange(len(lengths))
    found = used(lengths, exchange(lengths, capacity, apart, target, 20_000), capacity)
    assert len(lengths) >= found >= oracle.fewest_cells(sorted(case[0], reverse=True), capacity)


def test_exchange_saves_cells_where_best_fit_leaves_a_little_room_in_each():
    lengths = rule(600, 0, {"min": 1500, "mod": 4001, "step": 7919})
    fitted = best_fit_decreasing(lengths, 8192)
    cells = used(lengths, fitted, 8192)
    assert used(lengths, exchange(lengths, 8192, fitted, cells - 1, 30_000_000), 8192) == cells - 1
