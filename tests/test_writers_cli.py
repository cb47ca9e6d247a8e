"""`routepack export` as a user runs it."""

import json

import pytest
from click.testing import CliRunner

from routepack.cli import main
from routepack.instances.writers.registry import FORMATS

WINDOW = "two-shards"


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    path = tmp_path_factory.mktemp("plans") / "plan.json"
    assert run("solve", WINDOW, "--attempts", 200, "--backend", "numpy", "--quiet", "-o", path).exit_code == 0
    return path


@pytest.mark.parametrize("form", [name for name in FORMATS if name not in ("verl", "areal", "skyrl", "permutation")])
def test_every_form_is_written_whole_and_the_same_each_time(plan, tmp_path, form):
    out = tmp_path / "export"
    done = run("export", plan, "--window", WINDOW, "--format", form, "--current-placement", "contiguous", "-o", out)
    assert (done.exit_code, done.stdout) == (0, "")
    text = out.read_text()
    assert text == run("export", plan, "--window", WINDOW, "--format", form, "--current-placement", "contiguous").stdout
    assert form == "trtllm" or json.loads(text)


def test_three_samples_on_two_slots_cannot_be_cut_evenly(plan):
    done = run("export", plan, "--format", "verl")
    assert done.exit_code == 4  # the plan is refused
    assert done.stderr.startswith("refused: layout[1] holds")


def test_the_schedule_rebuilds_the_layout_of_the_plan(plan):
    schedule = json.loads(run("export", plan, "--format", "slime").stdout)
    slots = zip(schedule["partitions"], schedule["micro_batch_indices"], strict=True)
    assert [[[part[k] for k in row] for row in rows] for part, rows in slots] == json.loads(plan.read_text())["layout"]
    assert [schedule["permutation"][k] for k in schedule["inverse"]] == [0, 1, 2]


def test_another_window_is_refused(plan):
    done = run("export", plan, "--window", "tinymoe-agent", "--format", "slime")
    assert done.exit_code == 2
    assert "window is not the one that was planned" in done.stderr


def test_options_of_a_window_without_one_are_refused(plan):
    assert run("export", plan, "--format", "slime", "--equal-samples").exit_code == 2


def test_moves_need_to_know_where_experts_are_now(plan, tmp_path):
    done = run("export", plan, "--format", "moves")
    assert done.exit_code == 2
    assert "current_placement is missing" in done.stderr
    now = tmp_path / "now.json"
    now.write_text(json.dumps([[1 - rank for rank in row] for row in json.loads(plan.read_text())["placement"]]))
    document = json.loads(run("export", plan, "--format", "moves", "--current-placement", now, "--expert-parameters", 10).stdout)
    assert len(document["moves"]) == 2  # both experts of the one layer change rank
    assert document["rounds"] == [[0, 1]]  # at once: each rank sends one and receives one
    assert (document["weight_bytes"], document["all_bytes"]) == (40, 280)  # 2 * 10 * 2, 2 * 10 * 14


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{}", "no placement inside"),
        ("[[0, 0]]", "puts 2 experts on rank 0"),
        ("[[0.5, 1]]", "whole number"),
        ("[", "give a placement as JSON"),
        ('{"physical_to_logical_map": [[0, 0]]}', "expert 0 twice"),
    ],
)
def test_a_malformed_current_placement_is_refused_in_one_line(plan, tmp_path, content, text):
    path = tmp_path / "now.json"
    path.write_text(content)
    done = run("export", plan, "--format", "moves", "--current-placement", path)
    assert done.exit_code == 2
    assert text in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_map_from_slots_to_experts_is_a_current_placement(plan, tmp_path):
    path = tmp_path / "map.json"
    path.write_text(run("export", plan, "--format", "sglang").stdout)
    assert json.loads(run("export", plan, "--format", "moves", "--current-placement", path).stdout)["moves"] == []


def test_a_missing_file_is_named(plan):
    done = run("export", plan, "--format", "moves", "--current-placement", "nowhere.json")
    assert done.exit_code == 2
    assert "nowhere.json: cannot be read" in done.stderr
