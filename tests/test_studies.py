"""Studies: what they run, that they go on where they stopped, and that one bad run stops nothing."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from routepack.cli import COMMANDS, main
from routepack.errors import InvalidInstance
from routepack.instances import files, library
from routepack.studies import paper, runs, suites
from routepack.studies.records import load, open_store
from routepack.studies.runner import Design, run_study

WINDOW = str(library.path("two-shards"))
ROOT = Path(__file__).resolve().parents[1]


def timeless(records):
    """Records without what differs between equal runs."""
    return [
        dataclasses.replace(r, seconds=0.0, trajectory=tuple(dataclasses.replace(s, seconds=0.0) for s in r.trajectory)) for r in records
    ]


def study(folder, design, **how):
    seen = []
    run_study(design, folder, report=lambda done, total, record: seen.append((done, total)), **how)
    return seen


def test_every_window_limit_and_seed_is_run_once_and_a_restart_runs_nothing(tmp_path):
    design = Design((WINDOW, WINDOW), ("anneal", "lpt-ffd"), attempts_limits=(10, 20), seeds=3)  # a window given twice counts once
    assert study(tmp_path, design)[-1] == (12, 12)
    before = load(tmp_path)
    assert len({record.key for record in before}) == 12  # 1 window x 2 methods x 2 caps x 3 seeds
    assert study(tmp_path, design) == [(0, 12), (12, 12)]  # no run between the first and the last report
    assert load(tmp_path) == before


def test_a_study_goes_on_where_it_stopped(tmp_path):
    design = Design((WINDOW,), ("anneal",), attempts_limits=(10,), seeds=4)

    def stop(done, total, record):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(design, tmp_path / "stopped", report=stop)
    assert len(load(tmp_path / "stopped")) == 2
    assert study(tmp_path / "stopped", design) == [(0, 4), (3, 4), (4, 4), (4, 4)]  # two more
    study(tmp_path / "whole", design)
    assert timeless(load(tmp_path / "stopped")) == timeless(load(tmp_path / "whole"))


def test_a_record_says_what_the_plan_costs(tmp_path):
    study(tmp_path, Design((WINDOW,), ("identity-ffd",), attempts_limits=(1,)))
    [record] = load(tmp_path)
    assert record.score.makespan >= 8 >= record.bound >= 6  # optimum and aggregation bound: docs/files.md
    assert record.score.total == record.expert + record.attention
    assert record.gap == record.score.makespan / record.bound - 1
    assert record.rows == 1
    assert record.rows_status == "proved"  # 11 tokens, two cells of 10: one row of two
    assert record.rank_variation == pytest.approx(1 / 11)  # the ranks hold 6 and 5 token-slots: deviation 0.5 from 5.5
    assert record.trajectory[-1].score == record.score.makespan
    assert set(record.versions) == {"routepack", "python", "numpy"}


def test_small_windows_are_held_against_their_optimum_under_the_placement_it_was_proved_for(tmp_path):
    question = suites.Case("small", "two-shards-0").load()
    design = Design((WINDOW,), attempts_limits=(3000,))
    for method in ("anneal", "multi-start", "identity-ffd"):
        run = runs.Run(suites.Case("small", "two-shards-0"), "two-shards-0", "", method, None, 3000, 0)
        record = runs.execute(run)
        assert record.optimum in ({question.optimum.makespan} if method != "identity-ffd" else {question.optimum.makespan, None})
        assert record.optimum is None or record.score.makespan >= record.optimum >= record.bound
    assert design.limits() == [(None, 3000)]


def test_windows_that_cannot_be_planned_or_read_are_recorded_and_stop_nothing(tmp_path):
    (tmp_path / "a-broken.json").write_text("{")
    too_long = dataclasses.replace(library.load("two-shards"), token_cap=3, name="too-long")  # samples of 4 tokens
    files.write_instance(tmp_path / "b-too-long.json", too_long)
    files.write_instance(tmp_path / "c-good.json", library.load("two-shards"))
    design = Design((str(tmp_path / "*.json"),), ("lpt-ffd",), attempts_limits=(1,))
    study(tmp_path / "results", design)
    found = {record.instance: record for record in load(tmp_path / "results")}
    assert {name: record.status for name, record in found.items()} == {
        "a-broken.json": "failed",
        "too-long": "infeasible",
        "two-shards": "feasible",
    }
    assert "InvalidInstance" in found["a-broken.json"].error
    assert "exceeds token_cap = 3" in found["too-long"].error


def test_a_failed_run_is_tried_again(tmp_path, monkeypatch):
    design = Design((WINDOW,), ("lpt-ffd",), attempts_limits=(1,))
    with monkeypatch.context() as broken:
        broken.setattr(runs, "solve", lambda *args, **how: 1 / 0)
        study(tmp_path, design)
    assert [record.error for record in load(tmp_path)] == ["ZeroDivisionError: division by zero"]
    study(tmp_path, design)
    assert [record.status for record in load(tmp_path)] == ["feasible"]


def test_rows_are_packed_into_the_known_number_of_cells(tmp_path):
    case = suites.Case("rows", "triplets-30")
    for method, rows in (("settle", 30), ("first-fit", None)):  # 30 cells cut into three lengths each
        record = runs.execute(runs.Run(case, case.name, "", method, None, 30, 0))
        assert record.optimum == record.bound == 30
        assert record.rows == rows or (rows is None and record.rows > 30)  # first fit does not find the triplets


@pytest.mark.parametrize("name", suites.SUITES)
def test_every_suite_names_windows_that_load(name):
    cases = suites.find_cases(name)
    assert len(set(cases)) == len(cases) >= 6
    if name in ("small", "rows"):  # the others are too large to make here
        assert all(case.load().instance.window.num_samples for case in cases)
    for method in suites.default_methods(cases[0]):
        assert runs.check_method(method) == method


def test_wrong_designs_are_refused_in_a_line(tmp_path):
    for design, words in (
        (Design(("nowhere",)), "is no suite and matches no file"),
        (Design((WINDOW,), ("magic",)), "method = 'magic' is unknown"),
        (Design((WINDOW,), seeds=0), "seeds must be at least 1"),
    ):
        with pytest.raises(InvalidInstance, match=words):
            run_study(design, tmp_path)
    with pytest.raises(InvalidInstance, match="backend = 'none' is unknown"):
        run_study(Design((WINDOW,)), tmp_path, backend="none")


def test_the_paper_table_keeps_what_is_projected_and_what_was_measured_apart():
    def record(size, seed, method, value):
        run = runs.Run(suites.Case("paper", f"{size}-{seed:02d}"), f"{size}-{seed:02d}", "", method, 1.0, None, 0)
        return run.record(
            "feasible", score=(value, value, value), expert=value, largest_peak=value, attention=100, rank_variation=value / 1000
        )

    records = [record("tiny", seed, "lpt-ffd", 100 + seed) for seed in range(2)]
    records += [record("tiny", seed, "anneal:fixed", 90 + seed) for seed in range(2)]
    records = [dataclasses.replace(r, score=suites.Score(*r.score)) for r in records]
    reorder, packing = paper.paper_table(records)
    assert len(reorder) == len(packing) == len(paper.COLUMNS)
    assert reorder[:4] == ["tiny", "reorder", "2", "reference"]
    assert packing[3].startswith("-9.95 %")  # the mean of 90/100 - 1 and 91/101 - 1
    assert packing[5] == "+0.00 % ± 0.00"  # attention is the same
    assert packing[7].startswith("0.0905")  # the mean of 0.090 and 0.091
    assert "tokens/s" in packing[-1]
    assert all("tokens/s" not in cell for cell in packing[:-1])


def test_the_command_runs_a_study_and_prints_its_table(tmp_path):
    arguments = ["study", WINDOW, "--methods", "lpt-ffd,anneal:fixed", "--attempts", "5,10", "--seeds", "2", "-o", str(tmp_path)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert "8 runs, 0 failed" in done.stdout
    assert CliRunner().invoke(main, [*arguments, "--quiet"]).stdout == ""
    assert '"runs": 8' in CliRunner().invoke(main, [*arguments, "--json"]).stdout
    assert CliRunner().invoke(main, ["study", WINDOW, "--time-limits", "soon", "-o", str(tmp_path)]).exit_code == 2
    assert {"study", "check"} <= set(COMMANDS)


@pytest.mark.slow
def test_two_processes_give_the_records_of_one(tmp_path):
    pytest.importorskip("joblib")
    design = Design((WINDOW, str(library.path("tinymoe-agent-dp4-ep4"))), ("anneal", "lpt-ffd"), attempts_limits=(1000,), seeds=2)
    study(tmp_path / "one", design)
    study(tmp_path / "two", design, jobs=2)
    assert timeless(load(tmp_path / "one")) == timeless(load(tmp_path / "two"))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["ray", "dask"])
def test_a_cluster_gives_the_records_of_one_process(tmp_path, backend):
    pytest.importorskip("ray" if backend == "ray" else "distributed")
    design = Design((WINDOW, str(library.path("tinymoe-agent-dp4-ep4"))), ("anneal", "lpt-ffd"), attempts_limits=(1000,))
    study(tmp_path / "one", design)
    study(tmp_path / "many", design, jobs=2, backend=backend)
    assert timeless(load(tmp_path / "one")) == timeless(load(tmp_path / "many"))


@pytest.mark.slow
def test_a_run_that_kills_its_process_is_recorded_and_the_others_are_done(tmp_path):
    pytest.importorskip("joblib")
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from routepack.studies import runner, runs, workers\n"
        "class Deadly(runs.Run):\n"
        "    pass\n"
        "def execute(run):\n"
        "    os._exit(9) if run.seed == 2 else None\n"
        "    return runs.execute(run)\n"
        "workers.execute = execute\n"
        f"design = runner.Design(({WINDOW!r},), ('lpt-ffd',), attempts_limits=(1,), seeds=6)\n"
        "runner.run_study(design, Path(sys.argv[1]), jobs=2)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [(r.seed, r.status) for r in load(tmp_path)] == [(seed, "failed" if seed == 2 else "feasible") for seed in range(6)]


@pytest.mark.slow
def test_no_kill_loses_or_doubles_a_record(tmp_path):
    arguments = ["study", "small", "--methods", "multi-start,lpt-ffd", "--attempts", "3000", "--quiet", "-o"]
    command = [sys.executable, "-c", "from routepack.cli import main; main()", *arguments]
    subprocess.run([*command, str(tmp_path / "whole")], cwd=ROOT, check=True)
    counts = [0]
    for kill in range(4):
        running = subprocess.Popen([*command, str(tmp_path / "killed")], cwd=ROOT)
        deadline = time.monotonic() + 60
        while running.poll() is None and time.monotonic() < deadline and _count(tmp_path / "killed") < counts[-1] + 15:
            time.sleep(0.003 * (kill + 1))
        running.send_signal(signal.SIGKILL)
        running.wait()
        counts.append(_count(tmp_path / "killed"))
    assert counts == sorted(counts)  # nothing that stood there is lost
    assert 0 < counts[1] < counts[-1] < 144  # 72 windows x 2 methods: killed on the way
    subprocess.run([*command, str(tmp_path / "killed")], cwd=ROOT, check=True)
    assert timeless(load(tmp_path / "killed")) == timeless(load(tmp_path / "whole"))


def _count(folder):
    try:
        return len(load(folder))
    except InvalidInstance:
        return 0


@pytest.mark.slow
def test_ten_thousand_records_load_and_are_summed_up_in_seconds(tmp_path):
    run = runs.Run(suites.Case("small", "w"), "w", "ab", "anneal", 1.0, None, 0)
    record = dataclasses.replace(run.record("feasible", score=(1, 1, 1), seconds=1.0), score=suites.Score(1, 1, 1))
    with open_store(tmp_path) as store:
        store._connection.execute("PRAGMA synchronous = OFF")
        for seed in range(10_000):
            store.append(dataclasses.replace(record, seed=seed))
    assert len(load(tmp_path)) == 10_000
    assert os.path.getsize(tmp_path / "records.sqlite") < 10_000 * 1024
