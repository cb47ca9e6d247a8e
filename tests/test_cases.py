"""Cases made from faults that users of training frameworks reported: each names its facts, one small function checks each kind of fact."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from routepack import CostModel, Infeasible, Instance, InvalidInstance, Options, Stage, Topology, Window, plan_window, solve
from routepack.budget import Budget
from routepack.cli.facts import oversize_samples
from routepack.heuristics.migration import place_from
from routepack.heuristics.placement import lpt, lpt_swap
from routepack.heuristics.placement_report import describe
from routepack.instances.files import instance_from_dict, result_to_dict
from routepack.instances.generators import generate

FILE = Path(__file__).resolve().parents[2] / "shared" / "cases" / "cases.jsonl"
ATTEMPTS = 4000
ATTEMPTS_TO_THE_OPTIMUM = 800_000  # enough for experts to be re-placed for the rows


def cases(kind):
    """Every case of a kind as a test parameter; none where the file is absent."""
    lines = FILE.read_text().splitlines() if FILE.exists() else []
    found = [case for case in map(json.loads, lines) if case["kind"] == kind]
    return [pytest.param(case, id=case["id"]) for case in found] or [
        pytest.param(None, marks=pytest.mark.skip("no cases beside the checkout"))
    ]


def statuses(expect):
    """The statuses that a case allows."""
    return expect["status"] if isinstance(expect["status"], list) else [expect["status"]]


def outcome(function):
    """Return (status, result or error) of a call."""
    try:
        return "ok", function()
    except Infeasible as fault:
        return "infeasible", fault
    except InvalidInstance as fault:
        return "invalid", fault


def check_message(expect, message):
    """Check that the message holds the texts that a case asks for."""
    assert all(text in message for text in expect.get("message_contains", []))
    ways = expect.get("message_contains_any", [[]])
    assert any(all(text in message for text in way) for way in ways)


def rounded(document):
    """A plan file without the one field that differs between equal runs."""
    return json.dumps(document | {"method": document["method"] | {"seconds": 0}})


# Plan: each fact as a function of (expected value, instance, result).


def cells(result):
    """All cells as lists of samples."""
    return [cell for slot in result.layout for cell in slot]


def cell_tokens(instance, result):
    """Aligned tokens of the cells, largest first."""
    return sorted((int(instance.aligned_lengths[cell].sum()) for cell in cells(result)), reverse=True)


def same_cell(result, i, j):
    """Whether two samples share a cell."""
    return any(i in cell and j in cell for cell in cells(result))


def check_score(expected, _, result):
    """The expected score is the exact optimum; windows of this size are solved to it."""
    assert result.bound.value <= expected[0]
    assert list(result.score) == expected


def check_experts_apart(expected, _, result):
    """These pairs lie on different ranks in every optimum."""
    assert all(result.placement[layer][a] != result.placement[layer][b] for layer, a, b in expected)


def check_cells_lower_bound(expected, instance, result):
    """The expected number is the exact one; a smaller proof is weak but right."""
    assert result.rows.cells_lower_bound <= expected
    assert result.rows.needed <= result.rows.count


PLAN_FACTS = {
    "rows": lambda x, _, result: result.rows.count == x,
    "cells_lower_bound": check_cells_lower_bound,
    "max_cell_tokens": lambda x, instance, result: cell_tokens(instance, result)[0] <= x,
    "empty_cells": lambda x, _, result: sum(not cell for cell in cells(result)) == x,
    "cell_tokens": lambda x, instance, result: cell_tokens(instance, result) == x,
    "samples_per_slot": lambda x, _, result: [sum(map(len, slot)) for slot in result.layout] == x,
    "padding_tokens": lambda x, instance, _: int((instance.aligned_lengths - instance.window.lengths).sum()) == x,
    "alone": lambda x, _, result: all([i] in cells(result) for i in x),
    "flagged": lambda x, instance, _: oversize_samples(instance) == x,
    "together": lambda x, _, result: all(any(set(group) <= set(cell) for cell in cells(result)) for group in x),
    "not_together": lambda x, _, result: not any(same_cell(result, i, j) for group in x for i in group for j in group if i < j),
    "score": check_score,
    "experts_apart": check_experts_apart,
}
FAULT_FACTS = ("cells_lower_bound", "needs_cells", "has_samples", "has_groups")


def plan_of(case, threads=None):
    """Read the instance of a case and plan it with the options of its call."""
    options = dict(case.get("options") or {})
    call = {key: options.pop(key) for key in ("seed",) if key in options}
    budget = Budget(attempts=options.pop("attempts", ATTEMPTS_TO_THE_OPTIMUM if "score" in case["expect"] else ATTEMPTS))
    instance = instance_from_dict(case["input"] | ({"options": options} if options else {}))
    return instance, solve(instance, budget=budget, threads=threads, **call)


@pytest.mark.parametrize("case", cases("plan"))
def test_a_window_from_the_field_is_planned_or_refused_as_it_should_be(case):
    expect = case["expect"]
    status, found = outcome(lambda: plan_of(case))
    assert status in statuses(expect)
    if status != "ok":
        check_message(expect, str(found))
        assert status == "invalid" or (found.reason and found.remedy)
        for name in FAULT_FACTS:
            assert name not in expect or getattr(found, name) == expect[name]
        return
    instance, result = found
    for name, check in PLAN_FACTS.items():
        assert name not in expect or check(expect[name], instance, result) in (True, None), name
    for threads in range(1, expect.get("identical_runs", 0) + 1):
        assert rounded(result_to_dict(plan_of(case, threads)[1])) == rounded(result_to_dict(result))


def trainer_of(case):
    """Fold the trainer sizes of a case."""
    return Topology.from_trainer(**case["input"])


@pytest.mark.parametrize("case", cases("topology"))
def test_trainer_sizes_from_the_field_fold_as_counted_over_ranks(case):
    expect = case["expect"]
    status, found = outcome(lambda: trainer_of(case))
    assert status in statuses(expect)
    if status != "ok":
        check_message(expect, str(found))
        return
    for name in ("dp", "edp", "slots_per_shard", "parts_per_slot", "slots_of_shard", "edp_of_slot"):
        assert name not in expect or getattr(found, name) == expect[name], name


def place(given, options):
    """Place the experts of a case, from where they are now if it says so."""
    loads, ranks = np.array(given["demand"]), given["ep"]
    current = given.get("current_placement")
    if current is None:
        return lpt_swap(loads, ranks)
    return place_from(np.array(current), loads, ranks, **options)


def ranks_of(placement, k):
    """Experts of each rank at a layer, in an order that does not depend on rank names."""
    return sorted([e for e, p in enumerate(placement[k]) if p == rank] for rank in set(placement[k].tolist()))


@pytest.mark.parametrize("case", cases("placement"))
def test_loads_from_the_field_are_placed_as_well_as_they_can_be(case):
    given, expect = case["input"], case["expect"]
    status, found = outcome(lambda: place(given, case.get("options") or {}))
    assert status in statuses(expect)
    if status != "ok":
        check_message(expect, str(found))
        return
    loads = np.array(given["demand"])
    report = describe(found, loads, given["ep"])
    facts = {
        "max_rank_load": report.max_rank_load,
        "lower_bound": report.bounds.tolist(),
        "lpt_max_rank_load": describe(lpt(loads, given["ep"]), loads, given["ep"]).max_rank_load,
        "max_over_mean": report.max_over_mean,
        "max_over_mean_expert": report.max_over_mean_expert,
        "sum_rank_loads": report.loads.sum(axis=1).tolist(),
        "rank_sets": ranks_of(found, 0),
        "ranks_without_load": report.ranks_without_load[0],
        "experts_per_rank": report.experts_per_rank,
    }
    for name, value in facts.items():
        assert name not in expect or value == expect[name], name
    most = expect.get("max_rank_load_at_most", [math.inf] * len(loads))
    assert all(load <= limit for load, limit in zip(report.max_rank_load, most, strict=True))
    if "moves" in expect:
        assert int((found != np.array(given["current_placement"])).sum()) == expect["moves"]
    for _ in range(expect.get("identical_runs", 0)):
        assert (place(given, case.get("options") or {}) == found).all()


def lengths_by_rule(rule, samples, w=0):
    """Lengths of window w by the arithmetic rule of a case."""
    step, square, shift = rule.get("step", 0), rule.get("square", 0), rule.get("per_window", 0) * w
    return [rule["min"] + (shift + step * i + square * i * i) % rule["mod"] for i in range(samples)]


def counted(size, w):
    """A size that is plain, or grows with the window."""
    return size if isinstance(size, int) else size["base"] + w % size["mod"]


def window_by_rule(given, w):
    """Plan window w of a case whose lengths follow a rule: one expert for each rank, all tokens of sample i to expert i mod E."""
    lengths = lengths_by_rule(given["rule"], counted(given["rule"]["n"], w), w)
    demand = np.zeros((len(lengths), 1, given["ep"]), dtype=np.int32)
    demand[np.arange(len(lengths)), 0, np.arange(len(lengths)) % given["ep"]] = lengths
    topology = Topology(counted(given["dp"], w), given["ep"], given["edp"])
    return lengths, plan_window(lengths, demand, topology, token_cap=given["token_cap"], attempts=100)


@pytest.mark.parametrize("case", [case for case in cases("generator") if case.values[0] is None or "rule" in case.values[0]["input"]])
def test_windows_by_a_rule_have_their_rows(case):
    given, expect = case["input"], case["expect"]
    rows = expect.get("rows_per_window", [expect.get("rows")])
    for w, expected in enumerate(rows):
        lengths = lengths_by_rule(given["rule"], counted(given["rule"]["n"], w), w)
        assert lengths[: len(expect.get("first_lengths", []))] == expect.get("first_lengths", [])
        assert sum(lengths) == expect.get("total_tokens", sum(lengths))
        status, found = outcome(lambda w=w: window_by_rule(given, w))
        assert (found[1].rows.count if status == "ok" else None) == expected, w
        if status == "ok":
            assert all(sum(lengths[i] for i in cell) <= expect["max_cell_tokens"] for cell in cells(found[1]))


@pytest.mark.parametrize(
    "case", [case for case in cases("generator") if case.values[0] is not None and "rule" not in case.values[0]["input"]]
)
def test_generated_demand_has_its_sums(case):
    given, expect = dict(case["input"]), case["expect"]
    given = {"token_cap": 64, "dp": 1, "ep": 1, "layers": given.pop("moe_layers")} | given
    window = generate(**given).window
    assert list(window.demand.shape) == expect["demand_shape"]
    assert (window.demand.sum(axis=2) == np.array(expect["row_sums"])[:, None]).all()
    assert (window.demand.max(axis=(1, 2)) <= np.array(expect.get("entry_at_most", window.lengths))).all()
    assert int(window.demand.sum()) == expect.get("total_demand", int(window.demand.sum()))
    if "prompt_groups" in expect:
        assert [window.prompt_ids.count(prompt) for prompt in sorted(set(window.prompt_ids))] == expect["prompt_groups"]
    if "identical_runs" in expect:
        assert (generate(**given).window.demand == window.demand).all()
        assert (generate(**given | {"seed": given["seed"] + 1}).window.demand != window.demand).any()


# In our words: the faults that cost users most, with nothing beside the checkout.


def by_length(lengths, dp, cap, **options):
    """Plan a window where only lengths matter."""
    return plan_window(lengths, [[[t]] for t in lengths], Topology(dp, 1, 1), token_cap=cap, attempts=500, **options)


def test_five_nines_on_two_slots_are_infeasible_with_the_numbers():
    with pytest.raises(Infeasible) as caught:
        by_length([9] * 5, 2, 10)
    fault = caught.value
    assert (fault.cells_lower_bound, fault.needs_cells, fault.has_samples) == (5, 6, 5)  # five cells, so three rows of two
    assert fault.remedy


def test_every_slot_runs_the_same_rows_even_if_its_tokens_would_fit_in_fewer():
    result = by_length([9, 9, 9, 9, 1, 1], 2, 10)  # no nine shares a cell with a nine
    assert result.rows.count == 2
    assert all(all(slot) for slot in result.layout)
    assert result.rows.status == "proved"


def test_one_oversize_sample_gets_a_row_of_its_own_and_no_empty_row_before_it():
    result = by_length([3, 12, 3], 2, 10, oversize="own_row")
    assert sorted(map(sorted, cells(result))) == [[0, 2], [1]]


def test_equal_counts_cost_a_row_where_lengths_are_uneven():
    assert by_length([10, 2, 2, 2, 2, 2], 2, 10).rows.count == 1
    result = by_length([10, 2, 2, 2, 2, 2], 2, 10, equal_samples=True)  # [10] and two twos cannot share a cell
    assert result.rows.count == 2
    assert [sum(map(len, slot)) for slot in result.layout] == [3, 3]


def test_rows_come_in_multiples_or_the_window_is_infeasible():
    assert by_length([5, 5, 5, 5], 1, 10, row_multiple=4).rows.count == 4
    with pytest.raises(Infeasible, match="only 3 samples"):
        by_length([5, 5, 5], 1, 10, row_multiple=4)


def test_balanced_sums_do_not_hide_peaked_rows():
    window = Window([20, 20], [[[10, 0, 10, 0]], [[0, 10, 0, 10]]])
    per_token = CostModel("absolute", expert_cost=1.0, stages=(Stage("full", 1.0, 0.0),))
    result = solve(
        Instance(window, Topology(2, 2, 2), 20, cost=per_token, options=Options()), budget=Budget(attempts=ATTEMPTS_TO_THE_OPTIMUM)
    )
    # Together on one rank, experts 0 and 2 would peak at 20 a row-shard; apart they cost 10, and attention costs 20.
    assert result.score == (30, 60, 30)
    assert result.placement[0][0] != result.placement[0][2]
