"""Costs fitted to measured times: known ones come back, and what the times leave open is refused by name."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("scipy")

from routepack.budget import Budget
from routepack.calibration import calibrate, timing_columns
from routepack.cli import main
from routepack.cost import cost
from routepack.cost_model import CostModel, Stage
from routepack.errors import InvalidInstance
from routepack.instances import library
from routepack.instances.timings import read_cost, read_timings, write_cost
from routepack.planner import solve

OVERHEAD, LINEAR, QUADRATIC, EXPERT = 3e-3, 2e-6, 3e-10, 1.1e-7


def microbatches(count, seed=0, noise=0.0, costs=(OVERHEAD, LINEAR, QUADRATIC, EXPERT)):
    """Columns of microbatches of one to five samples, eight experts a token on eight ranks in 24 layers."""
    rng = np.random.default_rng(seed)
    samples = [rng.integers(50, 3000, int(rng.integers(1, 6))).astype(float) for _ in range(count)]
    tokens, squares = np.array([t.sum() for t in samples]), np.array([(t * t).sum() for t in samples])
    slots = np.rint(24 * tokens * rng.uniform(1, 1.6, count))
    overhead, linear, quadratic, expert = costs
    seconds = (overhead + linear * tokens + quadratic * squares + expert * slots) * (1 + noise * rng.standard_normal(count))
    return {"seconds": seconds, "tokens": tokens, "squared_tokens": squares, "token_slots": slots}


def write_csv(path, columns):
    lines = [",".join(columns), *(",".join(map(repr, map(float, row))) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def parts(columns):
    """The same with attention of two kinds and experts timed apart."""
    t, squares, slots = (columns[name] for name in ("tokens", "squared_tokens", "token_slots"))
    whole = {name: column for name, column in columns.items() if name != "seconds"}
    return whole | {
        "seconds:full": 1e-3 + LINEAR * t + QUADRATIC * squares,
        "seconds:kda": 2e-3 + 5 * LINEAR * t,
        "seconds:experts": EXPERT * slots,
    }


@settings(max_examples=30)
@given(
    count=st.integers(12, 60),
    seed=st.integers(0, 1000),
    costs=st.tuples(st.floats(0, 1e-2), st.floats(0, 1e-5), st.floats(0, 1e-8), st.floats(1e-8, 1e-6)),
)
def test_times_without_noise_give_the_costs_back(count, seed, costs):
    columns = microbatches(count, seed, costs=costs)
    found = calibrate(columns)
    assert found.faults == ()
    share = columns["seconds"].mean() / np.array([1, *(columns[n].mean() for n in ("tokens", "squared_tokens", "token_slots"))])
    values = np.array([c.value for c in found.fits[0].coefficients])
    assert (np.abs(values - costs) < 1e-6 * share).all()  # a millionth of a microbatch's time
    assert found.row_overhead == pytest.approx(values[0] / values[3], abs=1)


def test_about_95_of_100_intervals_hold_the_true_cost():
    held = np.zeros(4)
    for seed in range(100):
        intervals = calibrate(microbatches(60, seed, noise=0.02)).fits[0].coefficients
        held += [c.low <= true <= c.high for c, true in zip(intervals, (OVERHEAD, LINEAR, QUADRATIC, EXPERT), strict=True)]
    assert (held >= 88).all()  # 95 expected; below 88 once in a thousand by chance


def test_costs_are_never_negative_and_what_is_0_says_so():
    columns = microbatches(80, noise=0.01, costs=(OVERHEAD, LINEAR, 0.0, EXPERT))
    fit = calibrate(columns).fits[0]
    assert all(c.value >= 0 and 0 <= c.low <= c.high for c in fit.coefficients)
    assert "full.quadratic cannot be told from 0" in fit.notes
    assert fit.faults == ()  # that it is small is known well enough


def test_each_part_timed_alone_gives_a_stage_for_each_kind_of_attention():
    model = calibrate(parts(microbatches(30))).cost_model()
    assert [stage.name for stage in model.stages] == ["full", "kda"]
    assert model.expert_cost == pytest.approx(EXPERT)
    full, kda = model.stages
    assert (full.linear, full.quadratic) == (pytest.approx(LINEAR), pytest.approx(QUADRATIC))
    assert (kda.linear, kda.quadratic) == (pytest.approx(5 * LINEAR), pytest.approx(0, abs=1e-14))


def test_overheads_of_parts_add_up_to_that_of_a_row():
    assert calibrate(parts(microbatches(30))).row_overhead == round(3e-3 / EXPERT)  # 1 + 2 + 0 milliseconds


def test_equal_microbatches_determine_nothing():
    columns = {name: np.full(20, column[0]) for name, column in microbatches(20).items()}
    fault = calibrate(columns).faults[0]
    assert "cannot be told apart" in fault  # every column is a multiple of the overhead's


def test_samples_of_one_length_leave_linear_and_quadratic_open():
    columns = microbatches(40)
    columns["squared_tokens"] = 1000 * columns["tokens"]  # every sample has 1,000 tokens
    fault = calibrate(columns).faults[0]
    assert fault.startswith("full.linear and full.quadratic cannot be told apart")


def test_two_kinds_of_attention_cannot_be_told_apart_by_the_whole_time():
    columns = microbatches(40)
    for name in ("tokens", "squared_tokens"):
        columns[f"{name}:full"], columns[f"{name}:kda"] = columns[name], columns.pop(name)
    assert "cannot be told apart" in calibrate(columns).faults[0]  # both kinds have the same columns


def test_work_that_never_occurs_is_named():
    columns = microbatches(20) | {"token_slots": np.zeros(20)}
    assert calibrate(columns).faults == ("expert_cost is unknown: its column is 0 everywhere; time microbatches that have such work.",)


@pytest.mark.parametrize("tokens", [np.array([1.0] * 19 + [9.0]), np.array([2.0, 4.0] * 10)])
def test_full_rows_and_noise_alone_give_no_cost_model(tokens):
    columns = {"seconds": np.random.default_rng(0).uniform(1, 9, 20), "tokens": tokens}
    columns |= {"squared_tokens": np.arange(1.0, 21), "token_slots": np.arange(1.0, 21)[::-1] ** 1.5}
    found = calibrate(columns)
    assert found.faults
    with pytest.raises(InvalidInstance, match="do not determine the costs"):
        found.cost_model()


def test_one_microbatch_alone_with_expert_work_does_not_fix_the_expert_cost():
    columns = microbatches(20, noise=0.01)
    columns["token_slots"] = np.zeros(20)
    columns["token_slots"][3] = 5e4
    assert any(fault.startswith("expert_cost is unknown, its interval is unbounded") for fault in calibrate(columns).faults)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"token_slots": None}, "column token_slots is missing"),
        ({"seconds": None}, "column seconds is missing"),
        ({"tokens": None}, "column tokens is missing"),
        ({"second": np.ones(20)}, "column 'second' is unknown"),
        ({"seconds:full": np.ones(20)}, "are both given"),
        ({"seconds": np.zeros(20)}, r"seconds\[0\] = 0 is not above 0"),
    ],
)
def test_wrong_columns_are_refused(change, message):
    columns = {name: column for name, column in (microbatches(20) | change).items() if column is not None}
    with pytest.raises(InvalidInstance, match=message):
        calibrate(columns)


def test_too_few_microbatches_are_refused():
    with pytest.raises(InvalidInstance, match="7 microbatches for 4 coefficients; time at least 8"):
        calibrate(microbatches(7))


def test_a_plan_gives_the_columns_and_its_times_the_model_that_made_them():
    model = CostModel("absolute", expert_cost=EXPERT, stages=(Stage("full", LINEAR, QUADRATIC),))
    instance = library.load("tinymoe-mixed-dp16-ep8")
    plan = solve(instance, method="lpt-ffd", budget=Budget(attempts=0)).plan
    columns = timing_columns(instance, plan)
    assert (columns["token_slots"] == cost(instance, plan).expert.ravel()).all()
    columns["seconds"] = OVERHEAD + LINEAR * columns["tokens"] + QUADRATIC * columns["squared_tokens"] + EXPERT * columns["token_slots"]
    found = calibrate(columns).cost_model()
    assert found.expert_cost == pytest.approx(model.expert_cost)
    assert found.stages[0].quadratic == pytest.approx(QUADRATIC)


def test_csv_and_cost_files_are_read_as_they_were_written(tmp_path):
    columns = microbatches(9)
    read = read_timings(write_csv(tmp_path / "t.csv", columns))
    assert {name: column.tolist() for name, column in read.items()} == {name: column.tolist() for name, column in columns.items()}
    model = CostModel("absolute", expert_cost=EXPERT, stages=(Stage("full", LINEAR, QUADRATIC), Stage("kda", 1e-9, 0.0)))
    write_cost(tmp_path / "c.json", model)
    assert read_cost(tmp_path / "c.json") == model


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a,a\n1,2\n", "column 'a' stands twice"),
        ("a,b\n1\n", "line 2 has 1 entries for 2 columns"),
        ("a\n1\nx\n", "line 3, a = 'x' is no number"),
        ("a\n-1\n", "line 2, a = '-1' is no number"),
        ("a\nnan\n", "line 2, a = 'nan' is no number"),
    ],
)
def test_malformed_csv_is_refused_with_its_line(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InvalidInstance, match=message):
        read_timings(tmp_path / "t.csv")


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"format": "routepack-cost", "version": 1}', '{"format": "routepack-cost", "version": 1, "cost": {"kind": "absolute"}}'],
)
def test_malformed_cost_files_are_refused(tmp_path, text):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(InvalidInstance, match=r"c\.json: "):
        read_cost(tmp_path / "c.json")


def test_the_command_writes_what_solve_then_takes(tmp_path):
    timings, model, plan = write_csv(tmp_path / "t.csv", microbatches(40, noise=0.01)), str(tmp_path / "c.json"), str(tmp_path / "p.json")
    run = CliRunner().invoke(main, ["calibrate", timings, "-o", model])
    assert run.exit_code == 0, run.output
    assert "expert_cost" in run.output
    assert "row overhead" in run.output
    assert json.loads((tmp_path / "c.json").read_text())["cost"]["kind"] == "absolute"
    solved = CliRunner().invoke(main, ["solve", "tinymoe-mixed", "--attempts", "2000", "--cost", model, "-o", plan])
    assert solved.exit_code == 0, solved.output
    assert CliRunner().invoke(main, ["verify", "tinymoe-mixed", plan, "--cost", model]).exit_code == 0
    assert CliRunner().invoke(main, ["verify", "tinymoe-mixed", plan]).exit_code == 4  # another cost model is another question


def test_the_command_writes_nothing_that_the_times_do_not_determine(tmp_path):
    columns = microbatches(40)
    columns["squared_tokens"] = 1000 * columns["tokens"]
    run = CliRunner().invoke(main, ["calibrate", write_csv(tmp_path / "t.csv", columns), "-o", str(tmp_path / "c.json"), "--json"])
    assert run.exit_code == 2
    assert "cannot be told apart" in run.stderr
    facts = json.loads(run.stdout)
    assert facts["output"] is None
    assert facts["fits"][0]["faults"]
    assert not (tmp_path / "c.json").exists()


def test_the_page_on_calibration_does_what_it_says():
    page = Path(__file__).resolve().parents[1] / "docs" / "calibration.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    exec(compile("\n".join(blocks), str(page), "exec"), {"__name__": "page"})
