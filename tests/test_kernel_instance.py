"""What an instance refuses, and what it derives."""

import dataclasses

import numpy as np
import pytest

from routepack import Infeasible, Instance, InvalidInstance, Options, Topology, Window

ONE = Topology(1, 1, 1)


def window(lengths, **fields):
    """Lengths only: one layer, one expert that takes every token."""
    return Window(lengths, [[[t]] for t in lengths], **fields)


@pytest.mark.parametrize(
    ("lengths", "demand", "message"),
    [
        ([], np.zeros((0, 1, 1), int), "lengths is empty"),
        ([3, 0], [[[1]], [[1]]], r"lengths\[1\] = 0 is below 1"),
        ([3, -5], [[[1]], [[1]]], r"lengths\[1\] = -5 is below 1"),
        ([3, 1 << 40], [[[1]], [[1]]], r"lengths\[1\] = 1099511627776 is above 2147483647"),
        ([3.5], [[[1]]], "lengths has values of type float64"),
        ([float("nan")], [[[1]]], "lengths has values of type float64"),
        (["3"], [[[1]]], "lengths has values of type"),
        ([True], [[[1]]], "lengths has values of type bool"),
        ([[3]], [[[1]]], r"lengths has shape \(1, 1\)"),
        ([3], [[[1], [1, 2]]], "demand is ragged"),
        ([3], [[1]], r"demand has shape \(1, 1\); 3 dimensions needed"),
        ([3, 3], [[[1]]], r"demand has shape \(1, 1, 1\); \(N, L, E\) with N = 2"),
        ([3], np.zeros((1, 0, 2), int), r"demand has shape \(1, 0, 2\)"),
        ([3, 3], [[[1, 2]], [[3, -4]]], r"demand\[1\]\[0\]\[1\] = -4 is below 0"),
        ([3], [[[1 << 31]]], r"demand\[0\]\[0\]\[0\] = 2147483648 is above 2147483647"),
        ([3], [[[1 << 70]]], "demand has values of type object"),
    ],
)
def test_malformed_samples_are_refused_with_the_first_offender(lengths, demand, message):
    with pytest.raises(InvalidInstance, match=message):
        Window(lengths, demand)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sample_ids": ["a"]}, "sample_ids has 1 entries; one for each of the 2 samples"),
        ({"sample_ids": ["a", 1]}, "sample_ids mixes types"),
        ({"prompt_ids": [1.5, 2]}, "prompt_ids mixes types"),
        ({"moe_layers": [1, 2]}, "moe_layers must rise and name the 1 layers"),
        ({"top_k": 0}, "top_k = 0 is below 1"),
        ({"top_k": 2}, "top_k = 2 exceeds the 1 experts"),
    ],
)
def test_malformed_optional_fields_are_refused_by_name(fields, message):
    with pytest.raises(InvalidInstance, match=message):
        window([3, 4], **fields)


def test_a_layer_with_more_slots_than_top_k_allows_is_refused():
    with pytest.raises(InvalidInstance, match=r"sum of demand\[1\]\[0\] = 9 exceeds 8"):  # 2 * 4 tokens
        Window([3, 4], [[[3, 3, 0]], [[4, 4, 1]]], top_k=2)


def test_an_expert_with_more_tokens_than_the_sample_has_is_refused():
    with pytest.raises(InvalidInstance, match=r"largest entry of demand\[0\]\[0\] = 4 exceeds 3"):
        Window([3], [[[4, 1]]], top_k=2)


def test_fewer_slots_than_top_k_allows_are_valid_unknown_routes():
    assert Window([3], [[[2, 1]]], top_k=2).top_k == 2  # 3 of 6 known


def test_demand_is_read_only_and_not_copied():
    demand = np.ones((1, 1, 1), np.int32)
    held = Window([1], demand).demand
    assert np.shares_memory(held, demand)
    with pytest.raises(ValueError, match="read-only"):
        held[0, 0, 0] = 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"token_cap": 0}, "token_cap = 0 is below 1"),
        ({"token_cap": 1 << 31}, "token_cap = 2147483648 exceeds"),
        ({"length_multiple": 1.5}, "length_multiple = 1.5 is not an integer"),
        ({"row_multiple": 0}, "row_multiple = 0 is below 1"),
        ({"topology": Topology(2, 2, 1)}, "demand has 1 experts, which ep = 2 ranks do not divide"),
        ({"options": Options(keep_together=((0, 9),))}, r"keep_together\[0\] names a sample outside 0..1"),
        ({"current_placement": [[1]]}, r"current_placement\[0\]\[0\] = 1 is no EP rank"),
        ({"current_placement": [[0, 0]]}, r"current_placement has shape \(1, 2\)"),
        ({"name": 3}, "name = 3 is not a string"),
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused(change, message):
    with pytest.raises(InvalidInstance, match=message):
        Instance(**{"window": window([3, 4]), "topology": ONE, "token_cap": 8} | change)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"oversize": "drop"}, "options.oversize = 'drop' is unknown; choose error or own_row"),
        ({"sync": "never"}, "options.sync = 'never' is unknown; choose shard or row"),
        ({"equal_samples": 1}, "options.equal_samples = 1 is not true or false"),
        ({"keep_together": ((0, 1), (1, 2))}, r"keep_together\[1\] names sample 1 a second time"),
        ({"keep_together": (("a",),)}, "keep_together must be a list of lists"),
    ],
)
def test_unknown_options_are_refused_with_the_choices(fields, message):
    with pytest.raises(InvalidInstance, match=message):
        Options(**fields)


def test_an_oversize_sample_makes_the_window_infeasible_by_index_and_id():
    instance = Instance(window([15, 3], sample_ids=["giant", "a"]), ONE, 10)
    with pytest.raises(Infeasible, match=r"sample 0 \(giant\) has 15 aligned tokens and exceeds token_cap = 10") as caught:
        instance.unit_lengths()
    assert "own_row" in caught.value.remedy


def test_padding_can_push_a_sample_over_the_cap():
    with pytest.raises(Infeasible, match="sample 0 has 112 aligned tokens"):  # 100 to a multiple of 16
        Instance(window([100]), ONE, 100, length_multiple=16).unit_lengths()


def test_an_oversize_sample_with_its_own_row_counts_as_one_full_cell():
    instance = Instance(window([15, 3]), ONE, 10, options=Options(oversize="own_row"))
    assert instance.unit_lengths().tolist() == [10, 3]


def test_kept_together_samples_are_one_unit_of_their_summed_length():
    instance = Instance(window([3, 5, 4]), ONE, 10, options=Options(keep_together=((2, 0),)))
    assert instance.unit_of_sample.tolist() == [0, 1, 0]
    assert instance.unit_lengths().tolist() == [7, 5]


def test_rows_are_rounded_up_to_slots_and_to_the_row_multiple():
    instance = Instance(window([1]), Topology(4, 1, 1), 8, row_multiple=3)
    assert [instance.rows_for(cells) for cells in (1, 4, 12, 13)] == [3, 3, 3, 6]


def test_the_fingerprint_changes_with_everything_that_is_asked_and_with_nothing_else():
    base = Instance(window([3, 4], sample_ids=["a", "b"]), ONE, 8)
    changes = [
        {"token_cap": 9},
        {"name": "other"},
        {"row_multiple": 2},
        {"options": Options(sync="row")},
        {"topology": Topology(2, 1, 1)},
        {"window": window([3, 5], sample_ids=["a", "b"])},
        {"window": window([3, 4], sample_ids=["a", "c"])},
        {"current_placement": [[0]]},
    ]
    prints = [dataclasses.replace(base, **change).sha256() for change in changes]
    assert len({base.sha256(), *prints}) == 1 + len(changes)
    wide = Instance(Window([3, 4], np.array([[[3]], [[4]]], np.int64), sample_ids=("a", "b")), ONE, 8)
    assert wide.sha256() == base.sha256()
