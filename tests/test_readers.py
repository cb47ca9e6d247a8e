"""Routed experts of every framework become the right counts, or one line that names the sample."""

import itertools
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from test_cases import cases, check_message
from trace_forms import FORMS, naive, plain, text, traces

from routepack.errors import InvalidInstance
from routepack.instances.readers import FORMATS, ModelShape, count
from routepack.instances.readers.counter import RouteCounter
from routepack.instances.readers.routes import SampleRoutes

ONE = ModelShape(1, np.array([0]), 4, 1)  # one layer, four experts, top-1
PAIR = ModelShape(1, np.array([0]), 4, 2)


def one(form, record, model=ONE, **options):
    """Count one sample."""
    return count([record], form, model, **options)


def refusal(form, record, model=ONE, **options):
    """Return the one line with which a record is refused."""
    with pytest.raises(InvalidInstance) as fault:
        one(form, record, model, **options)
    assert "\n" not in str(fault.value)
    return str(fault.value)


@pytest.mark.parametrize("case", cases("reader"))
def test_case_from_the_field(case):
    given_, expect = case["input"], case["expect"]
    model = ModelShape(given_["num_layers"], np.array(given_["moe_layers"]), given_["experts"], given_["top_k"])
    names = {key: given_[key] for key in ("tokens", "sample_id") if key in given_}
    record, last_row = (given_["payload"] or {}) | names, given_.get("last_row", "filler")
    if expect["status"] == "invalid":
        check_message(expect, refusal(given_["format"], record, model, last_row=last_row))
        return
    trace = one(given_["format"], record, model, last_row=last_row)
    facts = {"counts": trace.demand[0].tolist(), "rows_counted": trace.facts.rows_counted, "unknown_tokens": trace.facts.unknown_tokens}
    facts["counts_sum_per_layer"] = trace.demand[0].sum(axis=1).tolist()
    assert {key: facts[key] for key in expect if key in facts} == {key: expect[key] for key in expect if key in facts}
    trace.window()


@pytest.mark.parametrize("name", FORMS)
@settings(max_examples=40)
@given(traces())
def test_counts_equal_a_naive_loop(name, drawn):
    model, samples = drawn
    form, write = FORMS[name]
    known = [naive(model, routes, len(routes) - 1) for routes in samples]  # never the row of the last token
    records = [write(model, routes) for routes in samples]
    trace = count(records, form, model)
    assert trace.demand.tolist() == [counts.tolist() for counts in known]
    assert trace.lengths.tolist() == [len(routes) for routes in samples]
    assert trace.facts.unknown_tokens == len(samples)
    assert count(map(plain, records), form, model).demand.tolist() == trace.demand.tolist()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "int32", "int64", ">i4"])
@pytest.mark.parametrize("top_k", [1, 2, 3, 4, 8])
def test_every_integer_type_and_width_counts_alike(dtype, top_k):
    model = ModelShape(3, np.array([0, 2]), 16, top_k)  # a dense layer between two MoE layers
    routes = np.random.default_rng(0).random((150, 3, 16)).argsort(axis=2)[:, :, :top_k]
    trace = one("array", {"routes": routes.astype(dtype), "tokens": 150}, model)
    assert trace.demand[0].tolist() == naive(model, routes, 149).tolist()
    assert trace.facts.repeated_choices == 0


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "int64"])
@pytest.mark.parametrize("top_k", [2, 3, 8])
def test_an_expert_named_twice_in_a_token_counts_once(dtype, top_k):
    model = ModelShape(1, np.array([0]), 16, top_k)
    for first, second in itertools.permutations(range(top_k), 2):
        routes = np.random.default_rng(first).random((5, 1, 16)).argsort(axis=2)[:, :, :top_k].astype(dtype)
        known = naive(model, routes, 5)
        known[0, routes[3, 0, second]] -= 1  # replaced by the other choice, which does not count again
        routes[3, 0, second] = routes[3, 0, first]
        trace = one("array", {"routes": routes, "tokens": 6}, model)
        assert trace.demand[0].tolist() == known.tolist()
        assert trace.facts.repeated_choices == 1


def test_a_long_sample_split_over_threads_counts_alike_and_names_the_first_fault():
    model = ModelShape(16, np.arange(16), 16, 4)
    rows = np.random.default_rng(0).random((400, 16, 16)).argsort(axis=2)[:, :, :4].astype(np.uint8)
    routes = np.tile(rows, (100, 1, 1))  # 2.5 MB
    trace = one("vllm", {"routed_experts": routes}, model)
    known = [np.bincount(routes[:, layer].ravel(), minlength=16).tolist() for layer in range(16)]
    assert trace.demand[0].tolist() == known
    assert trace.facts.rows_counted == 40_000
    routes[[30_000, 39_000], 3, 1] = 99
    assert "routes[30000] names expert 99" in refusal("vllm", {"routed_experts": routes}, model)


def test_rows_of_minus_one_are_unknown_and_partly_unknown_rows_refused():
    trace = one("miles", {"rollout_routed_experts": [[[1, 2]], [[-1, -1]], [[2, 3]]], "tokens": [0] * 4}, PAIR)
    assert trace.demand[0].tolist() == [[0, 1, 2, 1]]
    assert trace.facts.unknown_tokens == 2  # the row of -1, and the last token
    assert "routes[1] is partly -1" in refusal("array", {"routes": [[[1, 2]], [[2, -1]]], "tokens": 3}, PAIR)
    assert "routes[1] is partly -1" in refusal("array", {"routes": [[[1, 2]], [[-1, 2]]], "tokens": 3}, PAIR)
    assert "expert -2" in refusal("array", {"routes": [[[1, -2]]], "tokens": 2}, PAIR)


def test_rows_never_written_are_unknown_where_zeros_cannot_be_choices():
    trace = one("vllm", {"routed_experts": [[[1, 2]], [[0, 0]], [[2, 3]]]}, PAIR)
    assert trace.demand[0].tolist() == [[0, 1, 2, 1]]
    assert (trace.facts.unknown_tokens, trace.facts.unwritten_rows) == (2, 1)
    assert one("vllm", {"routed_experts": [[[0]], [[0]]]}).demand[0].tolist() == [[2, 0, 0, 0]]  # top-1: a choice like any other
    assert "not captured" in refusal("vllm", {"routed_experts": [[[0, 0]], [[0, 0]]]}, PAIR)


def test_equal_neighbours_are_reported_and_never_refused():
    assert one("array", {"routes": [[[1]], [[1]], [[1]], [[2]]], "tokens": 5}).facts.repeated_rows == 2


@pytest.mark.parametrize(("dtype", "experts"), [("uint8", 257), ("int8", 129)])
def test_a_type_too_narrow_is_refused_whatever_the_values(dtype, experts):
    model = ModelShape(1, np.array([0]), experts, 1)
    assert "too narrow" in refusal("array", {"routes": np.ones((2, 1, 1), dtype), "tokens": 3}, model)


@pytest.mark.parametrize(
    ("on_missing", "lengths", "demand"),
    [
        ("drop", [3], [[[0, 2, 0, 0]]]),
        # five tokens over four experts: one each, and the one left to the second, as sample 1 begins there
        ("uniform", [3, 5], [[[0, 2, 0, 0]], [[1, 2, 1, 1]]]),
    ],
)
def test_samples_without_routes_are_dropped_or_estimated_and_named(on_missing, lengths, demand):
    records = [{"routes": [[[1]], [[1]]], "tokens": 3, "sample_id": "a"}, {"routes": None, "tokens": 5, "sample_id": "b"}]
    trace = count(records, "array", ONE, on_missing=on_missing)
    assert trace.lengths.tolist() == lengths
    assert trace.demand.tolist() == demand
    assert (trace.dropped or trace.estimated) == ("sample 1 (b)",)
    assert trace.sample_ids == ("a", "b")[: len(lengths)]


@pytest.mark.parametrize(
    ("form", "record", "words"),
    [
        ("array", {"routes": [[[1]], [[1, 2]]], "tokens": 3}, "ragged"),
        ("array", {"routes": [[[1.5]]], "tokens": 2}, "whole numbers"),
        ("array", {"routes": [[1]], "tokens": 2}, "shape (1, 1)"),
        ("array", {"routes": [[[1]]]}, "tokens are missing"),
        ("array", {"routes": [[[1]]], "tokens": True}, "no whole number"),
        ("array", {"routes": [[[1]]], "tokens": 0}, "tokens = 0"),
        ("array", {"routes": [[[1]]], "tokens": 2, "mask": [1, 1, 1]}, "mask has 3 entries"),
        ("parts", {"parts": [{"start": 2, "routes": [[[1]]]}], "tokens": 4}, "starts at row 2"),
        ("parts", {"parts": 3, "tokens": 4}, "no list"),
        ("prefill-decode", {"prompt_tokens": 3, "prefill": [[[1]]], "decode": [[[1]]], "tokens": 4}, "exceeds"),
        ("prime-rl", {"data": text(np.ones(3), "uint8"), "shape": [9, 1, 1], "dtype": "uint8", "tokens": 4}, "needs 9"),
        ("prime-rl", {"data": "A", "shape": [1, 1, 1], "dtype": "uint8", "tokens": 2}, "base64"),
        ("prime-rl", {"data": "AQ==", "shape": [1, 1, 1], "dtype": "float32", "tokens": 2}, "dtype = 'float32'"),
        ("prime-rl", {"data": "AQ==", "shape": [1, -1, 1], "dtype": "uint8", "tokens": 2}, "shape = [1, -1, 1]"),
        ("prime-rl", {"data": "AQ==", "shape": [10**9, 10**9, 10**9], "dtype": "uint8", "tokens": 2}, "holds 1 bytes"),
        ("skyrl", {"data": "AQ==", "shape": [1, 1, 1], "dtype": "uint16", "tokens": 2}, "uint16"),
        ("sglang", {"routed_experts": "AQ==", "tokens": 2}, "no whole number of rows"),
        ("sglang", {"routed_experts": text(np.ones(2), "int32"), "start_len": 3, "tokens": 6}, "starts at row 3"),
        ("nrlre1", {"text": "nrlre1:int16:1x1:AQA=", "tokens": 2}, "is not nrlre1"),
        ("vllm-npy", {"npy": "AQ==", "tokens": 2}, "NumPy array file"),
        ("areal", {"routed_experts": [1]}, "shape (1,)"),
    ],
)
def test_a_malformed_record_is_refused_in_one_line_that_names_the_sample(form, record, words):
    message = refusal(form, {**record, "sample_id": "odd"})
    assert message.startswith("sample 0 (odd)")
    assert words in message


@pytest.mark.parametrize(("key", "value"), [("form", "trl"), ("on_missing", "guess"), ("last_row", "last")])
def test_an_unknown_name_lists_the_known_ones(key, value):
    options = {"form": "array", "on_missing": "error", "last_row": "filler"} | {key: value}
    with pytest.raises(InvalidInstance, match="is unknown; choose"):
        count([], options.pop("form"), ONE, **options)


def test_a_resumed_reply_of_the_whole_sample_needs_no_parts_before():
    record = {"routed_experts": text(np.array([1, 2, 3]), "int32"), "start_len": 2, "tokens": 4}
    assert one("sglang", record).demand[0].tolist() == [[0, 1, 1, 1]]  # 2 + 3 rows > 4 tokens: the reply is whole


def test_completions_of_one_prompt_share_its_rows():
    record = {
        "prompt_token_ids": [0, 0],
        "prompt_routed_experts": [[[1]], [[2]]],
        "request_id": "r",
        "outputs": [{"token_ids": [9], "routed_experts": []}, {"token_ids": [9, 9], "routed_experts": [[[3]]]}],
    }
    trace = one("vllm", record)
    assert trace.demand[:, 0].tolist() == [[0, 1, 1, 0], [0, 1, 1, 1]]
    assert trace.lengths.tolist() == [3, 4]
    assert trace.sample_ids == ("r/0", "r/1")


def test_packed_rows_are_cut_by_cumulative_lengths():
    ids = np.array([1, 2, 0, 3, 3, 0]).reshape(1, 6, 1, 1)  # one batch row, padding-free: samples of three tokens
    record = {"routed_experts": ids, "cu_seqlens": [0, 3, 6], "input_ids": np.zeros((1, 6), int), "sample_ids": ["a", "b"]}
    trace = one("ms-swift", record)
    assert trace.demand[:, 0].tolist() == [[0, 1, 1, 0], [0, 0, 0, 2]]
    assert trace.lengths.tolist() == [3, 3]
    assert trace.sample_ids == ("a", "b")
    assert "cumulative lengths" in refusal("ms-swift", record | {"cu_seqlens": [0, 3, 7]})
    assert "cumulative lengths" in refusal("ms-swift", record | {"cu_seqlens": [0, 4, 3]})


def test_memory_stays_below_twice_the_counts():
    model = ModelShape(48, np.arange(48), 128, 8)
    routes = np.random.default_rng(0).random((20, 48, 128)).argsort(axis=2)[:, :, :8].astype(np.uint8)
    one("vllm", {"routed_experts": routes}, model)  # compiles
    tracemalloc.start()
    trace = count(({"routed_experts": routes} for _ in range(500)), "vllm", model)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * trace.demand.nbytes  # 12 MB


def test_the_python_of_the_page_does_what_it_says():
    page = (Path(__file__).resolve().parents[1] / "docs" / "traces.md").read_text()
    exec(re.search(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[1], {})
    for form in FORMATS:
        assert f"`{form}`" in page


def test_a_sample_that_is_refused_leaves_the_counter_as_it_was():
    counter = RouteCounter(ONE)
    good = SampleRoutes(3, np.array([[[1]], [[2]]]))
    counter.add(good)
    with pytest.raises(InvalidInstance):
        counter.add(SampleRoutes(3, np.array([[[1]], [[9]]])))
    counter.add(good)
    assert counter.demand()[:, 0].tolist() == [[0, 1, 1, 0]] * 2
    assert counter.facts.rows_counted == 4


def test_slot_counts_of_a_pass_are_summed_by_expert():
    dump = {"records": [{"global_physical_count": [[3, 1]]}, {"global_physical_count": [[1, 3]]}]}
    trace = one("sglang-distribution", dump | {"last_physical_to_logical_map": [[1, 0]]}, ModelShape(1, np.array([0]), 2, 1))
    assert trace.demand[0].tolist() == [[4, 4]]
    assert trace.lengths.tolist() == [8]
    assert not trace.has_samples


@pytest.mark.parametrize(
    ("form", "record", "words"),
    [
        ("sglang-stat", {}, "physical_count is missing"),
        ("sglang-stat", {"physical_count": [[[1, 1, 1, 1]]]}, "physical_to_logical_map is missing"),
        ("sglang-stat", {"physical_count": [[[1, 1, 1, 1]]], "physical_to_logical_map": [[0, 1]]}, "have shape"),
        ("sglang-stat", {"logical_count": [[[1, -1, 1, 1]]]}, "from -1"),
        ("sglang-stat", {"logical_count": [[[0, 0, 0, 0]]]}, "add up to 0"),
        ("sglang-stat", {"logical_count": [[[1, 1]]]}, "2 experts"),
        ("sglang-detail", {"records": [], "last_physical_to_logical_map": [[0]]}, "no list of passes"),
        ("sglang-detail", {"records": [{"topk_ids_of_layer": [[[4]]]}], "last_physical_to_logical_map": [[0, 1, 2, 3]]}, "a slot outside"),
        ("megatron-trace", {"layer": 1, "num_tokens": 1, "top_indices": [[0]]}, "layer = 1 is no MoE layer"),
        ("megatron-trace", {"layer": 0, "num_tokens": 2, "top_indices": [[0]]}, "no shape (2, 1)"),
        ("megatron-trace", {"layer": 0, "num_tokens": 1, "top_indices": [[4]]}, "outside 0..3"),
        ("megatron-trace", {"lines": ["{"]}, "no JSON"),
        ("megatron-trace", 5, "no object"),
    ],
)
def test_a_malformed_dump_is_refused_in_one_line(form, record, words):
    assert words in refusal(form, record)


def test_every_format_of_a_sample_has_a_round_trip():
    written = {form for form, _ in FORMS.values()} | {"nrlre1"}  # nemo-rl reads the same text
    assert written | {name for name in FORMATS if name.startswith(("sglang-", "megatron-"))} == set(FORMATS)
