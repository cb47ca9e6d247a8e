"""The commands as a user runs them: exit codes, one line for each error, output files that stay whole."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from click.testing import CliRunner

from routepack.budget import Progress
from routepack.cli import COMMANDS, main
from routepack.cli.output import progress_line
from routepack.instances import library
from routepack.instances.files import instance_to_dict, read_instance

SMALL = instance_to_dict(library.load("two-shards"))


def run(*arguments):
    """Run a command in this process."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def write(folder, name="window.json", **changes):
    """Write the small window with changes."""
    path = folder / name
    path.write_text(json.dumps(SMALL | changes))
    return path


def assert_refused(result, code, *texts):
    """One line on stderr that holds the texts, nothing else, and the exit code."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert all(text in result.stderr for text in texts), result.stderr


def test_help_imports_no_heavy_library():
    heavy = ("numpy", "numba", "rich", "scipy", "ortools", "pyomo", "highspy")
    code = (
        "import sys; from routepack.cli import main; main(['--help'], standalone_mode=False); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert all(name in done.stdout for name in COMMANDS)


def test_import_of_the_package_imports_no_heavy_library():
    code = "import sys, routepack; print([m for m in ('numpy', 'numba', 'click', 'rich') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_with_an_example(name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert f"routepack {name}" in result.stdout


def test_solve_writes_a_plan_that_verify_accepts(tmp_path):
    plan = tmp_path / "plan.json"
    solved = run("solve", "two-shards", "-o", plan, "--attempts", 500)
    assert solved.exit_code == 0, solved.output
    assert "identity-ffd" in solved.stdout
    assert "rows 1: proved" in solved.stdout
    assert json.loads(plan.read_text())["score"] == [8, 12, 8]  # the optimum, by enumeration in test_kernel_cost.py
    verified = run("verify", "two-shards", plan)
    assert verified.exit_code == 0
    assert "verified" in verified.stdout


def test_solve_prints_one_json_object():
    facts = json.loads(run("solve", "two-shards", "--attempts", 500, "--json").stdout)
    assert facts["score"] == [8, 12, 8]
    assert facts["rows"] == {"count": 1, "status": "proved", "cells_lower_bound": 2, "needed": 1}
    assert facts["baseline"]["score"][0] == 10  # sample 1 is one of the longest, so length alone puts it with 2 or with 0
    assert facts["gain"] == pytest.approx(10 / 8)
    assert facts["bound"] == {"value": 8, "kind": "surrogate", "placement": "any"}  # two samples share a shard; sums say 6
    assert facts["gap"] == 0


def test_quiet_solve_prints_nothing(tmp_path):
    result = run("solve", "two-shards", "-o", tmp_path / "plan.json", "--attempts", 100, "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_without_baseline_nothing_is_compared():
    assert json.loads(run("solve", "two-shards", "--attempts", 100, "--json", "--no-baseline").stdout)["baseline"] is None


@pytest.mark.parametrize("options", [[], ["--method", "multi-start"], ["--backend", "numpy"], ["--no-replace"], ["--sync", "row"]])
def test_same_seed_and_attempts_give_the_same_bytes_at_any_thread_count(tmp_path, options):
    texts = []
    for threads in (1, 2):
        path = tmp_path / f"{threads}.json"
        assert run("solve", "two-shards", "-o", path, "--attempts", 600, "--seed", 5, "--threads", threads, *options).exit_code == 0
        document = json.loads(path.read_text())
        document["method"]["seconds"] = 0
        texts.append(json.dumps(document))
    assert texts[0] == texts[1]


def test_an_option_of_the_call_overrides_the_instance(tmp_path):
    window, plan = write(tmp_path, lengths=[14, 4, 3]), tmp_path / "plan.json"
    assert_refused(run("solve", window, "-o", plan), 3, "sample 0 (a)", "exceeds token_cap = 10", "own_row")
    assert not plan.exists()
    solved = run("solve", window, "-o", plan, "--oversize", "own_row", "--attempts", 100)
    assert solved.exit_code == 0
    assert "oversize: 1 sample over the cap" in solved.stdout
    assert_refused(run("verify", window, plan), 4, "refused: instance.sha256", "same options")
    assert run("verify", window, plan, "--oversize", "own_row").exit_code == 0


def test_prompts_are_kept_together_by_their_ids(tmp_path):
    window = write(tmp_path, prompt_ids=["x", "y", "x"])
    plan = tmp_path / "plan.json"
    assert run("solve", window, "-o", plan, "--keep-together", "prompts", "--attempts", 100).exit_code == 0
    assert [0, 2] in [cell for slot in json.loads(plan.read_text())["layout"] for cell in slot]
    assert_refused(run("solve", "two-shards", "--keep-together", "prompts"), 2, "prompt_ids is missing")


def test_an_infeasible_window_exits_3_with_reason_remedy_and_numbers(tmp_path):
    window = write(tmp_path, lengths=[9] * 5, demand=[[[9, 0]]] * 5, sample_ids=list("abcde"))
    assert_refused(run("solve", window), 3, "infeasible: the tokens need at least 5 cells", "only 5 samples", "fewer slots")
    result = run("solve", window, "--json")
    assert result.exit_code == 3
    answer = json.loads(result.stdout)
    assert (answer["status"], answer["cells_lower_bound"], answer["needs_cells"], answer["has_samples"]) == ("infeasible", 5, 6, 5)
    assert answer["remedy"]
    shown = run("info", window)
    assert shown.exit_code == 0
    assert "no plan exists" in shown.stdout


NAN = float("nan")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"lengths": [4, 4, -3]}, "lengths[2]"),
        ({"lengths": [4, 4, 3.5]}, "lengths"),
        ({"lengths": [4, 4, NAN]}, "NaN"),
        ({"lengths": [4, 4, 1 << 40]}, "lengths[2]"),
        ({"lengths": [4, 4, 1 << 70]}, "exceeds 64 bits"),
        ({"demand": [[[2, 2]], [[4, 0]]]}, "demand"),
        ({"demand": [[[2, 2]], [[4, 0]], [[0]]]}, "demand"),
        ({"demand": "many"}, "demand"),
        ({"token_cap": 0}, "token_cap"),
        ({"topology": {"dp": 2, "ep": 3}}, "edp"),
        ({"balance_mode": True}, "balance_mode"),
        ({"format": "other"}, "format"),
        ({"version": 99}, "version"),
        ({"cost": {"kind": "seconds"}}, "seconds"),
    ],
)
def test_a_malformed_window_exits_2_with_one_line_and_leaves_the_output_alone(tmp_path, change, text):
    plan = tmp_path / "plan.json"
    plan.write_text("kept")
    for command in (("solve", "-o", plan), ("info",)):
        assert_refused(run(command[0], write(tmp_path, **change), *command[1:]), 2, "error: ", text)
    assert plan.read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.json", "window.json"]


class Hostile:
    """Unpickling this would run a command."""

    def __reduce__(self):
        """Ask for a side effect that a test can see."""
        return os.system, ("touch unpickled",)


def break_file(path, fault):
    """Write a broken .npz window."""
    arrays = {"lengths": np.array([4, 4, 3]), "demand": np.ones((3, 1, 2), np.int32)}
    meta = {key: value for key, value in SMALL.items() if key not in ("lengths", "demand", "sample_ids")}
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    changes = {
        "pickled": {"demand": np.array([Hostile()], dtype=object)},
        "fractional": {"lengths": np.array([4.0, 4.0, 3.5])},
        "not a number": {"lengths": np.array([4.0, 4.0, NAN])},
        "negative": {"demand": -arrays["demand"]},
        "too few samples": {"demand": arrays["demand"][:2]},
        "no meta": {"meta": np.zeros(0, np.uint8)},
    }
    with path.open("wb") as file:
        np.savez(file, **arrays | changes.get(fault, {}))
    if fault == "cut short":
        path.write_bytes(path.read_bytes()[:-200])
    if fault == "empty":
        path.write_bytes(b"")
    if fault == "another type":
        path.write_text("lengths,demand\n")


@pytest.mark.parametrize(
    "fault", ["pickled", "fractional", "not a number", "negative", "too few samples", "no meta", "cut short", "empty", "another type"]
)
def test_a_broken_npz_exits_2_with_one_line(tmp_path, monkeypatch, fault):
    monkeypatch.chdir(tmp_path)
    break_file(tmp_path / "window.npz", fault)
    assert_refused(run("solve", "window.npz", "-o", "plan.json"), 2, "error: ", "window.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["window.npz"]


@pytest.mark.parametrize("content", ["", "{", "[1, 2]", "null", '{"format": "routepack-plan"}', "[" * 100_000, '{"score": 1e999}', "\0\1"])
def test_a_malformed_plan_is_bad_input_and_not_a_failed_verification(tmp_path, content):
    plan = tmp_path / "plan.json"
    plan.write_text(content)
    assert_refused(run("verify", "two-shards", plan), 2, "error: ", "plan.json")


def test_a_false_plan_exits_4_and_says_why(tmp_path):
    plan = tmp_path / "plan.json"
    run("solve", "two-shards", "-o", plan, "--attempts", 100)
    document = json.loads(plan.read_text())
    document["score"][0] -= 1
    plan.write_text(json.dumps(document))
    assert_refused(run("verify", "two-shards", plan), 4, "refused: score = [7, 12, 8] but recomputation gives [8, 12, 8]")
    answer = json.loads(run("verify", "two-shards", plan, "--json").stdout)
    assert answer["status"] == "refused"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["solve", "no-such-window"], "neither a file nor shipped"),
        (["solve", "two-shards", "-o", "no-such-folder/plan.json"], "create the folder no-such-folder"),
        (["solve", "two-shards", "-o", "."], "is a folder"),
        (["solve", "."], "regular file"),
        (["verify", "two-shards", "no-such-plan.json"], "no-such-plan.json"),
        (["generate", "window.npz", "--preset", "no-such-model"], "no-such-model"),
        (["generate", "window.npz", "--preset", "deepseek-v3", "--ep", "7", "--dp", "7"], "256"),
        (["generate", "window.txt", "--preset", "gpt-oss-20b"], "window.txt"),
        (["generate", "window.npz"], "preset"),
    ],
)
def test_bad_arguments_exit_2_with_one_line(tmp_path, monkeypatch, arguments, text):
    monkeypatch.chdir(tmp_path)
    assert_refused(run(*arguments), 2, "error: ", text)
    assert not list(tmp_path.iterdir())


def test_an_unknown_method_is_refused_with_what_each_one_does():
    result = run("solve", "two-shards", "--method", "magic")
    assert result.exit_code == 2
    assert "kk: identity placement and Karmarkar-Karp" in result.stderr


def test_generate_writes_the_window_that_its_options_describe(tmp_path):
    sizes = ["--layers", 2, "--experts", 8, "--top-k", 2, "--samples", 16, "--dp", 2, "--ep", 2, "--cap", 512]
    for name, seed in (("a.npz", 1), ("b.json", 1), ("c.npz", 2)):
        assert run("generate", tmp_path / name, *sizes, "--seed", seed).exit_code == 0
    a, b, c = (read_instance(tmp_path / name) for name in ("a.npz", "b.json", "c.npz"))
    assert a.sha256() == b.sha256() != c.sha256()
    assert a.window.demand.shape == (16, 2, 8)
    assert (a.window.demand.sum(axis=2) == 2 * a.window.lengths[:, None]).all()  # top-2: two slots a token


def test_info_shows_lengths_skew_bounds_and_the_baseline():
    shown = run("info", "tinymoe-math")
    assert shown.exit_code == 0, shown.output
    assert all(text in shown.stdout for text in ("400 samples", "lengths: min", "skew:", "rows: at least", "identity-ffd", "to gain"))
    facts = json.loads(run("info", "tinymoe-math", "--json").stdout)
    assert sum(facts["lengths"]["histogram"]["counts"]) == facts["samples"] == 400
    assert facts["bounds"]["any_placement"] <= facts["bounds"]["identity"] <= facts["baseline"]["score"][0]
    assert all(1 <= layer["bound"] <= layer["placed"] <= layer["identity"] for layer in facts["skew"])


def start(folder, *arguments):
    """Start `solve` with a long time limit in a process of its own, and wait until it plans."""
    code = (
        "import sys, routepack.planner as p; solve = p.solve\n"
        "def told(*a, **k): print('planning', flush=True); return solve(*a, **k)\n"
        "p.solve = told\n"
        "from routepack.cli import main; main(sys.argv[1:])"
    )
    command = [
        sys.executable,
        "-c",
        code,
        "solve",
        "two-shards",
        "-o",
        str(folder / "plan.json"),
        "--time-limit",
        "600",
        "--backend",
        "numpy",
    ]
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "planning\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_exits_130_and_keeps_the_best_plan(tmp_path, number):
    process = start(tmp_path)
    time.sleep(0.3)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the best plan so far is written" in told
    assert run("verify", "two-shards", tmp_path / "plan.json").exit_code == 0


def test_the_progress_line_names_what_is_known():
    assert progress_line(Progress("pack", 0.04), 100) == "pack  0.0 s"
    assert (
        progress_line(Progress("lay out", 1.25, score=103, temperature=0.5), 100)
        == "lay out  1.2 s  score 103  gap 3.00 %  temperature 0.5"
    )
    assert "gap 1.98 %" in progress_line(Progress("lay out", 1.0, score=103, bound=101), 100)  # the better bound counts
