"""Instance files: exact round trips, and one line for whatever is wrong with a file."""

import contextlib
import copy
import dataclasses
import io
import json
import os
import re
import tracemalloc
import zipfile
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances

from routepack import InvalidInstance, Window
from routepack.errors import RoutePackError
from routepack.instances import instance_form, library
from routepack.instances.atomic import write_atomically
from routepack.instances.files import instance_from_dict, instance_to_dict, read_instance, write_instance

DOCS = Path(__file__).resolve().parents[1] / "docs"
SCHEMA = json.loads((DOCS / "instance.schema.json").read_text())
EXAMPLE = json.loads(re.findall(r"```json\n(.*?)```", (DOCS / "files.md").read_text(), re.DOTALL)[0])
FULL = EXAMPLE | {
    "options": {"oversize": "own_row", "equal_samples": False, "keep_together": [[0, 2]], "sync": "row"},
    "top_k": 1,
    "prompt_ids": [7, 7, 8],
    "moe_layers": [3],
    "current_placement": [[1, 0]],
}


@st.composite
def documents(draw):
    """Draw an instance that also has ids, layer numbers and a placement."""
    instance = draw(instances())
    window, ranks = instance.window, instance.topology.ep
    samples, row = window.num_samples, sorted(list(range(ranks)) * (window.num_experts // ranks))
    ids = st.one_of(
        st.none(),
        st.lists(st.text(st.characters(exclude_characters="\0"), max_size=4), min_size=samples, max_size=samples),
        st.lists(st.integers(-(2**63) + 1, 2**63 - 1), min_size=samples, max_size=samples),
    )
    numbers = draw(st.lists(st.integers(0, 99), unique=True, min_size=window.num_layers, max_size=window.num_layers))
    named = Window(window.lengths, window.demand, draw(ids), draw(ids), sorted(numbers) if draw(st.booleans()) else None)
    placement = [draw(st.permutations(row)) for _ in range(window.num_layers)] if draw(st.booleans()) else None
    return dataclasses.replace(instance, window=named, name=draw(st.text(max_size=5)), current_placement=placement)


@settings(max_examples=25)
@given(documents())
def test_what_is_written_is_read_back_exactly_in_every_form(tmp_path_factory, instance):
    folder = tmp_path_factory.getbasetemp()
    document = instance_to_dict(instance)
    assert instance_from_dict(document).sha256() == instance.sha256()
    jsonschema.validate(document, SCHEMA)
    for suffix in (".json", ".npz"):
        write_instance(folder / f"a{suffix}", instance)
        again = read_instance(folder / f"a{suffix}")
        assert again.sha256() == instance.sha256()
        write_instance(folder / f"b{suffix}", again)
        assert (folder / f"a{suffix}").read_bytes() == (folder / f"b{suffix}").read_bytes()


def test_the_documented_example_is_the_shipped_window():
    assert instance_from_dict(EXAMPLE).sha256() == library.load("two-shards").sha256()


def test_the_documented_archive_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.*?)```", (DOCS / "files.md").read_text(), re.DOTALL)[0]
    exec(code, {})
    assert read_instance("window.npz").window.demand.tolist() == EXAMPLE["demand"]


def test_every_shared_window_is_read_and_survives_writing(shared, tmp_path):
    for path in sorted((shared / "data" / "instances").glob("*.npz")):
        instance = read_instance(path)
        assert instance.name == path.stem
        write_instance(tmp_path / "again.npz", instance)
        assert read_instance(tmp_path / "again.npz").sha256() == instance.sha256()


def test_demand_from_an_archive_is_int32_and_read_only():
    demand = library.load("tinymoe-math-dp8-ep8").window.demand
    assert demand.dtype == np.int32
    assert not demand.flags.writeable


def test_left_out_keys_take_their_defaults():
    instance = instance_from_dict({k: EXAMPLE[k] for k in instance_form.INSTANCE_NEEDS} | {"topology": {"dp": 4, "ep": 2}})
    assert instance.topology.edp == 2  # dp / ep
    assert (instance.length_multiple, instance.row_multiple, instance.cost.share) == (1, 1, 0.5)
    assert instance.options.sync == "shard"


CHANGES = [  # (where, new value, what the message names)
    (("balance_mode",), True, "balance_mode is unknown"),
    (("topology", "tp"), 2, "topology.tp is unknown"),
    (("cost", "weight"), 1, "cost.weight is unknown"),
    (("cost", "stages", 0, "cubic"), 1.0, "cost.stages[0].cubic is unknown"),
    (("options", "tolerance"), 0.1, "options.tolerance is unknown"),
    (("format",), "routepack-plan", "format"),
    (("version",), 2, "version"),
    (("version",), True, "version"),
    (("name",), 3, "name"),
    (("topology",), [2, 2, 2], "topology"),
    (("topology", "dp"), 2.0, "topology.dp"),
    (("topology", "ep"), True, "topology.ep"),
    (("topology", "edp"), None, "topology.edp"),
    (("topology", "edp"), 3, "straddle"),
    (("topology", "ep"), 4, "experts"),
    (("topology", "ep"), "2", "topology.ep"),
    (("topology", "dp"), 10**30, "topology.dp"),
    (("token_cap",), 0, "token_cap"),
    (("token_cap",), 2**31, "token_cap"),
    (("token_cap",), "10", "token_cap"),
    (("length_multiple",), -1, "length_multiple"),
    (("row_multiple",), 1.5, "row_multiple"),
    (("cost",), None, "cost"),
    (("cost", "kind"), "seconds-per-step", "seconds-per-step"),
    (("cost", "kind"), "absolute", "expert_cost"),
    (("cost", "share"), 1, "cost.share"),
    (("cost", "share"), True, "cost.share"),
    (("cost", "share"), 10**400, "cost.share"),
    (("cost", "expert_cost"), None, "cost.expert_cost"),
    (("cost", "stages"), {}, "cost.stages"),
    (("cost", "stages", 0), 4, "cost.stages[0]"),
    (("cost", "stages", 0, "linear"), -1.0, "linear"),
    (("cost", "stages", 0, "linear"), "1", "linear"),
    (("cost", "stages", 0, "name"), 1, "name"),
    (("options", "oversize"), "truncate", "truncate"),
    (("options", "equal_samples"), 1, "options.equal_samples"),
    (("options", "keep_together"), [[0, 1.0]], "options.keep_together[0][1]"),
    (("options", "keep_together"), [0, 1], "options.keep_together[0]"),
    (("options", "keep_together"), [[0, 9]], "options.keep_together[0]"),
    (("options", "sync"), None, "options.sync"),
    (("top_k",), 0, "top_k"),
    (("top_k",), 3, "top_k"),
    (("lengths",), [4, 4], "demand has shape"),
    (("lengths",), [], "lengths"),
    (("lengths",), 4, "lengths"),
    (("lengths", 1), 0, "lengths[1]"),
    (("lengths", 1), -4, "lengths[1]"),
    (("lengths", 1), 4.0, "lengths[1]"),
    (("lengths", 1), True, "lengths[1]"),
    (("lengths", 1), None, "lengths[1]"),
    (("lengths", 1), "4", "lengths[1]"),
    (("lengths", 1), 2**31, "lengths[1]"),
    (("lengths", 1), 2**80, "lengths[1]"),
    (("demand",), [[2, 2], [4, 0], [0, 3]], "demand[0][0]"),
    (("demand", 0), [], "demand is ragged"),
    (("demand", 0), [[2, 2], [2, 2]], "demand is ragged"),  # two layers beside one
    (("demand", 1, 0), [4], "demand is ragged"),
    (("demand", 1, 0, 1), -1, "demand[1][0][1] = -1"),  # although the layer would still sum to the tokens
    (("demand", 1, 0, 1), 0.5, "demand[1][0][1]"),
    (("demand", 1, 0, 1), False, "demand[1][0][1]"),
    (("demand", 1, 0, 1), 5, "exceeds"),  # over the sample's four tokens
    (("sample_ids",), "abc", "sample_ids"),
    (("sample_ids",), None, "sample_ids"),
    (("sample_ids",), ["a", "b"], "sample_ids"),
    (("sample_ids", 1), 2, "sample_ids"),
    (("prompt_ids", 1), 0.5, "prompt_ids"),
    (("moe_layers",), [3, 4], "moe_layers"),
    (("moe_layers", 0), -1, "moe_layers[0]"),
    (("current_placement",), [[0, 0]], "current_placement"),
    (("current_placement",), [[0, 2]], "current_placement"),
    (("current_placement",), [[0], [1]], "current_placement"),
]


def changed(document, where, value):
    """Return a copy with one value replaced."""
    document = copy.deepcopy(document)
    inner = document
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    return document


def refused(path, *texts):
    """Check that reading fails with one line that names the file and the texts."""
    with pytest.raises(InvalidInstance) as info:
        read_instance(path)
    message = str(info.value)
    assert "\n" not in message
    for text in (os.fspath(path), *texts):
        assert text in message


def save(path, document, **replaced):
    """Write a document as an archive, without any check."""
    arrays = {key: np.array(value) for key, value in document.items() if key in instance_form.ARRAY_KEYS}
    meta = {key: value for key, value in document.items() if key not in instance_form.ARRAY_KEYS}
    members = {**arrays, "meta": np.frombuffer(json.dumps(meta).encode(), np.uint8), **replaced}
    np.savez_compressed(path, **{key: value for key, value in members.items() if value is not None})


@pytest.mark.parametrize(("where", "value", "text"), CHANGES)
def test_one_wrong_value_is_refused_with_its_place(tmp_path, where, value, text):
    path = tmp_path / "bad.json"
    document = changed(FULL, where, value)
    path.write_text(json.dumps(document))
    refused(path, "64 bits" if isinstance(value, int) and abs(value) > 2**63 else text)
    if where[0] in instance_form.SCALAR_KEYS and not isinstance(value, int):  # the same faults in an archive
        save(tmp_path / "bad.npz", document)
        refused(tmp_path / "bad.npz", text)


@pytest.mark.parametrize("key", instance_form.INSTANCE_NEEDS)
def test_a_missing_key_is_named(tmp_path, key):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({name: value for name, value in EXAMPLE.items() if name != key}))
    refused(path, f"{key} is missing")
    save(tmp_path / "bad.npz", {name: value for name, value in EXAMPLE.items() if name != key})
    refused(tmp_path / "bad.npz", f"{key} is missing")


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('"version": 1', '"version": 1, "version": 1', "'version' stands twice"),
        ('"dp": 2', '"dp": 2, "dp": 4', "'dp' stands twice"),
        ("0.5", "NaN", "NaN"),
        ("0.5", "Infinity", "Infinity"),
        ("0.5", "1e999", "not finite"),
        ("0.5", "9" * 5000, "64 bits"),
        ('"two-shards"', "[" * 200_000, "nested"),
        ('"two-shards"', '"\xff"', "utf-8"),
        ("{", "", "Extra data"),
    ],
)
def test_text_that_is_no_strict_json_is_refused(tmp_path, old, new, text):
    path = tmp_path / "bad.json"
    path.write_bytes(json.dumps(EXAMPLE).replace(old, new, 1).encode("latin-1"))
    refused(path, text)


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"3", b'"text"', b"\x00\x01", b"PK\x03\x04", b"{}"])
def test_a_file_of_another_kind_is_refused_under_every_name(tmp_path, content):
    for name in ("a.json", "a.npz", "a.txt"):
        (tmp_path / name).write_bytes(content)
        refused(tmp_path / name)


def test_paths_that_are_no_files_are_refused(tmp_path):
    refused(tmp_path / "missing.json", "No such file")
    (tmp_path / "folder.npz").mkdir()
    refused(tmp_path / "folder.npz", "not a regular file")
    refused(tmp_path / "folder.npz" / "\0.json", "null")


def test_bin_packing_text_is_an_instance_with_lengths_only(tmp_path):
    (tmp_path / "T60.bpp").write_text("3\n 100\n49\n50\n100\n")
    instance = read_instance(tmp_path / "T60.bpp")
    assert (instance.name, instance.token_cap, instance.topology.dp) == ("T60", 100, 1)
    assert instance.window.lengths.tolist() == [49, 50, 100]
    assert instance.window.demand.tolist() == [[[49]], [[50]], [[100]]]


@pytest.mark.parametrize("text", ["", "3 100 1 2", "1 100 1 2", "1 100 1.5", "1 100 -1", "1 100 0", "0 100", "1 100 x", f"1 {10**30} 1"])
def test_malformed_bin_packing_text_is_refused(tmp_path, text):
    (tmp_path / "bad.txt").write_text(text)
    refused(tmp_path / "bad.txt")


@pytest.mark.parametrize(
    ("replaced", "text"),
    [
        ({"demand": np.array([[[2.0, 2.0]], [[4, 0]], [[0, 3]]])}, "demand has values of type float64"),
        ({"demand": np.array([[[None, 2]], [[4, 0]], [[0, 3]]], dtype=object)}, "demand has values of type object"),  # pickled
        ({"demand": np.ones((3, 1, 2), bool)}, "demand has values of type bool"),
        ({"demand": np.array([[2, 2], [4, 0], [0, 3]])}, "demand has shape (3, 2)"),
        ({"demand": np.ones((2, 1, 2), int)}, "lengths has shape (3,)"),
        ({"demand": np.ones((3, 0, 2), int)}, "demand has shape (3, 0, 2)"),
        ({"demand": np.full((3, 1, 2), 2**40)}, "demand[0][0][0]"),
        ({"demand": -np.ones((3, 1, 2), int)}, "demand[0][0][0]"),
        ({"lengths": np.array([4.0, np.nan, 3.0])}, "lengths has values of type float64"),
        ({"lengths": np.array([4, 4, 2**64 - 1], np.uint64)}, "lengths[2]"),
        ({"sample_ids": np.array([1.5, 2, 3])}, "sample_ids"),
        ({"sample_ids": np.array(["a", "b"])}, "sample_ids has shape (2,)"),
        ({"prompt_ids": np.array([b"a", b"b", b"c"])}, "prompt_ids"),
        ({"moe_layers": np.array([1, 2])}, "moe_layers has shape (2,)"),
        ({"current_placement": np.array([0, 1])}, "current_placement has shape (2,)"),
        ({"weights": np.array([1])}, "'weights.npy' is unknown"),
        ({"meta": np.frombuffer(b"{", np.uint8)}, "bad.npz"),
        ({"meta": np.array([1, 2])}, "meta"),
        ({"meta": np.array("{}")}, "meta"),
        ({"meta": None}, "meta is missing"),
        ({"meta": np.frombuffer(json.dumps({"lengths": [1]}).encode(), np.uint8)}, "meta.lengths is unknown"),
    ],
)
def test_a_wrong_array_is_refused(tmp_path, replaced, text):
    save(tmp_path / "bad.npz", EXAMPLE, **replaced)
    refused(tmp_path / "bad.npz", text)


def archive(path, members):
    """Write raw members under their names; a pair also says how many bytes the directory shall declare."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)
    path.write_bytes(content.getvalue())


def npy(shape, body=b"", dtype="<i4"):
    """Return an array file whose header declares a shape that its body may not have."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue() + body


@pytest.mark.parametrize(
    ("demand", "text"),
    [
        (npy((8192, 96, 512)), "declares shape"),  # no body at all
        (npy((3, 1, 2), bytes(12)), "declares shape"),  # cut short
        (npy((3, 1, 2), bytes(48)), "declares shape"),  # too long
        (npy((3, -1, 2)), "demand has shape"),
        (npy((10**9, 10**9, 10**9)), "declares shape"),
        (npy((70_000, 1, 1), bytes(280_000)), "samples"),
        (npy((1, 2000, 1), bytes(8000)), "layers"),
        (npy((1, 1, 5000), bytes(20_000)), "experts"),
        (b"\x93NUMPY\x01\x00", "bad.npz"),
        (b"not an array", "bad.npz"),
    ],
)
def test_declared_sizes_are_checked_before_memory_is_taken(tmp_path, demand, text):
    save(tmp_path / "good.npz", EXAMPLE)
    with zipfile.ZipFile(tmp_path / "good.npz") as good:
        members = {name: good.read(name) for name in good.namelist()}
    archive(tmp_path / "bad.npz", members | {"demand.npy": demand})
    tracemalloc.start()
    refused(tmp_path / "bad.npz", text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000  # the arrays above would take from 1.6 GB up


def test_a_member_that_cannot_unpack_to_what_it_declares_is_refused(tmp_path):
    save(tmp_path / "good.npz", EXAMPLE)
    with zipfile.ZipFile(tmp_path / "good.npz") as good:
        true = next(info for info in good.infolist() if info.filename == "demand.npy").file_size
    declared = len(npy((8192, 96, 512))) + 8192 * 96 * 512 * 4
    content = (tmp_path / "good.npz").read_bytes()
    (tmp_path / "bad.npz").write_bytes(content.replace(true.to_bytes(4, "little"), declared.to_bytes(4, "little")))
    refused(tmp_path / "bad.npz", "declares 1610612", "write it anew")


def attempt(path):
    """Read a damaged file; anything but an error of ours escapes."""
    with contextlib.suppress(RoutePackError):
        read_instance(path)


def test_a_file_cut_anywhere_or_with_any_bit_flipped_raises_nothing_else(tmp_path):
    before = library.path("two-shards").read_bytes()
    write_instance(tmp_path / "whole.npz", instance_from_dict(FULL))
    (tmp_path / "whole.json").write_text(json.dumps(FULL))
    (tmp_path / "whole.txt").write_text("3\n100\n49\n50\n100\n")
    rng = np.random.default_rng(0)
    for suffix in ("npz", "json", "txt"):
        whole = (tmp_path / f"whole.{suffix}").read_bytes()
        damaged = tmp_path / f"damaged.{suffix}"
        for length in range(0, len(whole), 7):
            damaged.write_bytes(whole[:length])
            attempt(damaged)
        for at in range(0, len(whole), 3):
            content = bytearray(whole)
            content[at] ^= 1 << int(rng.integers(8))
            damaged.write_bytes(content)
            attempt(damaged)
    assert library.path("two-shards").read_bytes() == before
    assert not list(tmp_path.glob(".routepack-*"))


@given(st.binary(max_size=64))
def test_random_bytes_raise_nothing_else(tmp_path_factory, content):
    for suffix in ("npz", "json", "txt"):
        path = tmp_path_factory.getbasetemp() / f"random.{suffix}"
        path.write_bytes(content)
        attempt(path)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "window.json"
    write_instance(path, instance_from_dict(EXAMPLE))
    before = path.read_bytes()

    def breaks(file):
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, breaks)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["window.json"]


def test_a_path_that_cannot_be_written_is_one_line(tmp_path):
    instance = instance_from_dict(EXAMPLE)
    (tmp_path / "folder.json").mkdir()
    for name in ("missing/window.json", "folder.json", "window.csv", "\0.json", "x" * 300 + ".json"):
        with pytest.raises(RoutePackError) as info:
            write_instance(tmp_path / name, instance)
        assert "\n" not in str(info.value)
    assert os.listdir(tmp_path) == ["folder.json"]


def test_writing_through_a_link_keeps_the_link_and_the_mode(tmp_path):
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_instance(link, instance_from_dict(EXAMPLE))
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert read_instance(target).name == "two-shards"


def keys_of(schema, path=()):
    """Yield the place and the keys of every object in a schema."""
    if "properties" in schema and schema.get("type") == "object":
        yield path, tuple(schema["properties"])
        for key, inner in schema["properties"].items():
            yield from keys_of(inner, (*path, key))
    if "items" in schema:
        yield from keys_of(schema["items"], path)


def test_the_schema_knows_the_keys_of_the_reader_and_no_others():
    assert {path: set(keys) for path, keys in keys_of(SCHEMA)} == {
        (): set(instance_form.INSTANCE_KEYS),
        ("topology",): set(instance_form.TOPOLOGY_KEYS),
        ("cost",): set(instance_form.COST_KEYS),
        ("cost", "stages"): set(instance_form.STAGE_KEYS),
        ("options",): set(instance_form.OPTION_KEYS),
    }
    assert set(SCHEMA["required"]) == set(instance_form.INSTANCE_NEEDS)


def test_the_schema_accepts_what_the_reader_accepts():
    for document in (EXAMPLE, FULL, *(instance_to_dict(library.load(name)) for name in ("two-shards", "tinymoe-agent-dp4-ep4"))):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)
        jsonschema.validate(document, SCHEMA)
        instance_from_dict(document)


def test_the_cases_from_the_field_are_read_or_refused_as_they_say(shared):
    with (shared / "cases" / "cases.jsonl").open() as lines:
        cases = [case for case in map(json.loads, lines) if case["kind"] == "plan"]
    refusals = 0
    for case in cases:
        if case["expect"]["status"] == "invalid":
            with pytest.raises(InvalidInstance) as info:
                instance_from_dict(case["input"])
            assert all(text in str(info.value) for text in case["expect"].get("message_contains", [])), case["id"]
            refusals += 1
        else:
            jsonschema.validate(case["input"], SCHEMA)
            assert (
                instance_from_dict(instance_to_dict(instance_from_dict(case["input"]))).sha256()
                == instance_from_dict(case["input"]).sha256()
            )
    assert refusals == 4
