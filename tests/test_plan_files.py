"""Plan files: what is written, what is refused, and that a refusal is one line."""

import contextlib
import copy
import dataclasses
import json
import os
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import instances, plans

from routepack import Infeasible, InvalidPlan, Result
from routepack.certificate import WeightCertificate
from routepack.errors import RoutePackError
from routepack.instances import bound_form, library, plan_form
from routepack.instances.documents import dump
from routepack.instances.files import plan_from_dict, read_plan, result_to_dict, write_result
from routepack.plan import Layout, Placement, Plan
from routepack.result import Method
from routepack.score_proof import PROOF_KINDS
from routepack.verify import recompute_bound, verify, verify_plan, verify_rows

DOCS = Path(__file__).resolve().parents[1] / "docs"
SCHEMA = json.loads((DOCS / "plan.schema.json").read_text())
EXAMPLE = json.loads(re.findall(r"```json\n(.*?)```", (DOCS / "files.md").read_text(), re.DOTALL)[1])
TWO_SHARDS = library.load("two-shards")


def result_of(instance, plan, seconds=0.25):
    """Return a result as a planner would, with the volume certificate."""
    weights = WeightCertificate(instance.unit_lengths(), instance.token_cap)
    return Result(
        instance.name,
        instance.sha256(),
        plan,
        verify_plan(instance, plan),
        verify_rows(instance, plan.layout.num_rows, weights),
        recompute_bound(instance, None),
        recompute_bound(instance, plan.placement),
        Method("by-hand", np.int64(3), np.int64(7), seconds),
    )


def example_result(**changes):
    """Return the result of the documented plan."""
    plan = Plan(Placement(np.array([[0, 1]])), Layout.from_lists([[[0, 2]], [[1]]]))
    return dataclasses.replace(result_of(TWO_SHARDS, plan), **changes)


def numbers_in(value):
    """Yield the type of everything that is neither a list nor an object."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(inner)
    else:
        yield type(value)


def test_the_documented_plan_holds_and_follows_the_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(EXAMPLE, SCHEMA)
    cost, proof = verify(TWO_SHARDS, *plan_from_dict(EXAMPLE))
    assert cost.score == (9, 15, 9)  # shard 0: 2 + 2 ticks and max(2, 5) slots; shard 1: 2 ticks and 4 slots
    assert proof.status == "proved"  # 11 tokens need two cells of 10


def test_the_better_layout_of_the_documentation_scores_what_it_says():
    plan = Plan(Placement(np.array([[0, 1]])), Layout.from_lists([[[1, 2]], [[0]]]))
    assert verify_plan(TWO_SHARDS, plan).score == (8, 12, 8)  # 4 + max(4, 3), 2 + max(2, 2)


@settings(max_examples=30)
@given(st.data())
def test_a_result_is_read_back_and_verifies(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "plan.json"
    instance = data.draw(instances())
    plan = data.draw(plans(instance))
    try:
        result = result_of(instance, plan)
    except (InvalidPlan, Infeasible):
        assume(False)
    write_result(path, result)
    jsonschema.validate(json.loads(path.read_text()), SCHEMA)
    again, claims = read_plan(path)
    assert again.placement.to_list() == result.placement
    assert again.layout == plan.layout
    verify(instance, again, claims)


def test_a_plan_holds_plain_values_and_only_seconds_differ_between_runs(tmp_path):
    write_result(tmp_path / "a.json", example_result())
    write_result(tmp_path / "b.json", example_result(method=Method("by-hand", 3, 7, 99.0)))
    one, two = ((tmp_path / name).read_text().splitlines() for name in ("a.json", "b.json"))
    assert [k for k, (a, b) in enumerate(zip(one, two, strict=True)) if a != b] == [one.index(next(a for a in one if '"method"' in a))]
    assert set(numbers_in(result_to_dict(example_result()))) <= {int, float, str}


def test_a_long_plan_stays_readable():
    instance = library.load("tinymoe-agent-dp4-ep4")
    cells = [[[i] for i in range(d, 80, 4)] for d in range(4)]
    placement = np.arange(64)[None, :].repeat(6, axis=0) // 16
    result = result_of(instance, Plan(Placement(placement), Layout.from_lists(cells)))
    assert len(dump(result_to_dict(result)).splitlines()) == 2 + 12 + 6 + 1 + 4 + 1  # braces, keys, layers, slots, two closing brackets


PRICES = {"value": 6, "kind": "dantzig-wolfe", "placement": "any", "certificate": {"prices": [1, 2, 3]}}
LEVEL = {
    "levels": [2],
    "kind_weight": [1, 0],
    "expert_weight": 0,
    "mean_weight": [[0], [0]],
    "token_price": [[0], [0]],
    "cover_price": [0],
    "home_price": 0,
}
LEVELS = {"value": 0, "kind": "capacity", "placement": "any", "certificate": LEVEL}
CHANGES = [
    (("note",), "x", "note is unknown"),
    (("instance", "path"), "x", "instance.path is unknown"),
    (("rows", "gap"), 0, "rows.gap is unknown"),
    (("rows", "certificate", "note"), 0, "rows.certificate.note is unknown"),
    (("bound", "proof"), 0, "bound.proof is unknown"),
    (("method", "threads"), 2, "method.threads is unknown"),
    (("format",), "routepack-instance", "format"),
    (("version",), 1.0, "version"),
    (("instance",), "two-shards", "instance"),
    (("instance", "name"), None, "instance.name"),
    (("instance", "sha256"), "abc", "instance.sha256"),
    (("rows",), [1], "rows"),
    (("rows", "count"), 1.0, "rows.count"),
    (("rows", "count"), True, "rows.count"),
    (("rows", "cells_lower_bound"), -1, "rows.cells_lower_bound"),
    (("rows", "status"), "optimal", "rows.status"),
    (("rows", "certificate"), None, "rows.certificate"),
    (("rows", "certificate", "kind"), "claimed", "rows.certificate.kind"),
    (("rows", "certificate", "weights"), [4, 4.0, 3], "rows.certificate.weights[1]"),
    (("rows", "certificate", "limit"), 0, "rows.certificate.limit"),
    (("placement",), [0, 1], "placement[0]"),
    (("placement",), [[0, 1], [0]], "placement[1]"),
    (("placement", 0, 1), True, "placement[0][1]"),
    (("layout",), [[0, 2], [1]], "layout[0][0]"),
    (("layout", 0, 0, 1), "2", "layout[0][0][1]"),
    (("layout", 1), None, "layout[1]"),
    (("score",), [9, 15], "score"),
    (("score",), [9, 15, -9], "score"),
    (("score", 2), 9.0, "score[2]"),
    (("bound", "value"), None, "bound.value"),
    (("bound", "value"), 6.5, "bound.value"),
    (("bound", "kind"), "guess", "bound.kind"),
    (("bound", "placement"), "best", "bound.placement"),
    (("bound", "certificate"), {"prices": [1]}, "bound.certificate is given, but aggregation needs none"),
    (("bound",), {"value": 6, "kind": "capacity"}, "bound.certificate is missing"),
    (("bound",), PRICES | {"certificate": {"prices": [1.5]}}, "bound.certificate.prices[0]"),
    (("bound",), PRICES | {"certificate": {"prices": [1], "note": 1}}, "bound.certificate.note is unknown"),
    (("bound",), PRICES | {"kind": "capacity"}, "bound.certificate.prices is unknown"),
    (("placement_bound",), LEVELS | {"certificate": LEVEL | {"mean_weight": [[1]]}}, "placement_bound.certificate.mean_weight has 1 items"),
    (("placement_bound",), LEVELS | {"certificate": LEVEL | {"home_price": -1}}, "placement_bound.certificate.home_price"),
    (("placement_bound",), LEVELS | {"certificate": LEVEL | {"levels": 3}}, "placement_bound.certificate.levels"),
    (("status",), "proved", "status"),
    (("status",), ["feasible"], "status"),
    (("method", "name"), 1, "method.name"),
    (("method", "seed"), -1, "method.seed"),
    (("method", "attempts"), 1.5, "method.attempts"),
    (("method", "seconds"), -1, "method.seconds"),
    (("method", "seconds"), "0.4", "method.seconds"),
    (("method", "seconds"), True, "method.seconds"),
    (("versions",), ["routepack"], "versions"),
    (("versions", "routepack"), 1, "versions"),
]


@pytest.mark.parametrize(("where", "value", "text"), CHANGES)
def test_one_wrong_value_is_refused_with_its_place(tmp_path, where, value, text):
    document = copy.deepcopy(EXAMPLE)
    inner = document
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidPlan) as info:
        read_plan(path)
    message = str(info.value)
    assert text in message
    assert os.fspath(path) in message
    assert "\n" not in message
    if not isinstance(value, float | list) or text.endswith("unknown"):  # a schema takes 1.0 for a whole number
        assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(document)


@pytest.mark.parametrize("bound", [PRICES, LEVELS, {"value": 6, "kind": "surrogate", "placement": "this"}])
def test_every_kind_of_bound_is_read_and_written_alike(bound):
    document = EXAMPLE | {"bound": bound, "placement_bound": bound}
    jsonschema.validate(document, SCHEMA)
    claims = plan_from_dict(document)[1]
    assert json.loads(json.dumps(bound_form.bound_to_dict(claims.bound))) == bound
    assert bound_form.bound_to_dict(claims.placement_bound) == bound_form.bound_to_dict(claims.bound)


@pytest.mark.parametrize("key", plan_form.NEEDED_PLAN_KEYS)
def test_a_missing_key_is_named(key):
    with pytest.raises(InvalidPlan, match=f"{key} is missing"):
        plan_from_dict({name: value for name, value in EXAMPLE.items() if name != key})


def test_a_missing_plan_and_another_file_are_refused(tmp_path):
    with pytest.raises(InvalidPlan, match="No such file"):
        read_plan(tmp_path / "missing.json")
    with pytest.raises(InvalidPlan, match=r"two-shards\.json: "):
        read_plan(library.path("two-shards"))
    with pytest.raises(InvalidPlan, match="utf-8"):
        read_plan(library.path("tinymoe-agent-dp4-ep4"))


def test_a_plan_cut_anywhere_or_with_any_bit_flipped_raises_nothing_else(tmp_path):
    write_result(tmp_path / "plan.json", example_result())
    whole = (tmp_path / "plan.json").read_bytes()
    rng = np.random.default_rng(0)
    for at in range(len(whole)):
        content = bytearray(whole)
        content[at] ^= 1 << int(rng.integers(8))
        for damaged in (whole[:at], content):
            (tmp_path / "damaged.json").write_bytes(damaged)
            with contextlib.suppress(RoutePackError):
                read_plan(tmp_path / "damaged.json")
    assert (tmp_path / "plan.json").read_bytes() == whole


def test_the_schema_knows_the_keys_of_the_reader_and_no_others():
    parts = SCHEMA["properties"]
    certificate = parts["rows"]["properties"]["certificate"]
    for schema, keys in (
        (SCHEMA, plan_form.PLAN_KEYS),
        (parts["instance"], plan_form.SOURCE_KEYS),
        (parts["rows"], plan_form.ROW_KEYS),
        (certificate, plan_form.CERTIFICATE_KEYS),
        (parts["method"], plan_form.METHOD_KEYS),
        (parts["solver"], plan_form.SOLVER_KEYS),
    ):
        optional = {"placement_bound", "solver"} if schema is SCHEMA else set()
        assert set(schema["properties"]) == set(schema["required"]) | optional == set(keys)
        assert schema["additionalProperties"] is False
    bound, levels, prices = (SCHEMA["$defs"][name] for name in ("bound", "levels", "prices"))
    assert tuple(bound["properties"]) == bound_form.KEYS
    assert bound["required"] == ["value", "kind"]
    assert tuple(bound["properties"]["kind"]["enum"]) == PROOF_KINDS
    assert tuple(levels["properties"]) == tuple(levels["required"]) == bound_form.LEVEL_KEYS
    assert tuple(prices["properties"]) == tuple(prices["required"]) == bound_form.ROW_SHARD_KEYS
    assert not any(part["additionalProperties"] for part in (bound, levels, prices))
    assert tuple(parts["status"]["enum"]) == plan_form.STATUSES
