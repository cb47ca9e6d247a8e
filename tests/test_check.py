"""The regression check passes today, and fails on each way in which a change can make things worse or wrong."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from routepack.bounds import score as bounds
from routepack.cli import main
from routepack.cost import Score, objective
from routepack.errors import InvalidInstance, RoutePackError
from routepack.heuristics import placement
from routepack.heuristics.draws import KINDS
from routepack.heuristics.terms import SearchParams
from routepack.studies import best_known, check
from routepack.studies.measured import Outcome, outcomes

WINDOWS = {f"{family}-{n}" for family in ("two-shards", "tight-cap", "ties", "sync-row") for n in range(3)} | {"tinymoe-agent-dp4-ep4"}


def faults(only=WINDOWS.__contains__):
    """What the check says of a part of the windows."""
    verdicts = check.judge(list(outcomes(only)), best_known.read(best_known.shipped_file()))
    return [f"{verdict.name}: {fault.text}" for verdict in verdicts for fault in verdict.faults]


def test_nothing_got_worse_on_a_part_of_the_windows():
    assert faults() == []


@pytest.mark.slow
def test_nothing_got_worse_on_any_window():
    assert faults(lambda window: True) == []


def test_a_tick_taken_off_the_score_is_caught(monkeypatch):
    def cheaper(row_shards, sync):
        score = objective(row_shards, sync)
        return Score(score.makespan - 1, score.total, score.peak)

    monkeypatch.setattr("routepack.cost.objective", cheaper)
    found = faults(lambda window: window.startswith("two-shards"))
    assert any("the recorded optimal plan scores" in fault for fault in found)
    assert any("below the proven optimum" in fault for fault in found)  # where a search finds the optimum


def test_a_weaker_move_set_is_caught(monkeypatch):
    kinds = tuple(weight if name == "move" else 0.0 for name, weight in zip(KINDS, SearchParams().kinds, strict=True))
    defaults = tuple(kinds if isinstance(value, tuple) else value for value in SearchParams.__init__.__defaults__)
    monkeypatch.setattr(SearchParams.__init__, "__defaults__", defaults)
    assert any(fault.startswith("anneal: mean gap") for fault in faults())


@pytest.mark.parametrize("kind", bounds.SCORE_BOUNDS)
def test_a_bound_raised_by_a_hundredth_is_caught_though_its_proof_was_raised_with_it(monkeypatch, kind):
    make = bounds.SCORE_BOUNDS[kind]

    def raised(instance, placement, rows):
        proof = make(instance, placement, rows)
        return proof and replace(proof, value=-(-101 * proof.value // 100))

    monkeypatch.setitem(bounds.SCORE_BOUNDS, kind, raised)
    monkeypatch.setattr("routepack.studies.measured.recompute_proof", lambda instance, placement, rows, proof: proof.value)
    only = {"dantzig-wolfe": "two-shards"}.get(kind, "tinymoe-agent")  # where the bound is within a hundredth of the best plan
    assert any(fault.startswith(f"bound:{kind}:") and "exceeds" in fault for fault in faults(lambda window: window.startswith(only)))


def test_a_bound_that_its_proof_does_not_give_is_caught(monkeypatch):
    make = bounds.SCORE_BOUNDS["aggregation"]
    monkeypatch.setitem(bounds.SCORE_BOUNDS, "aggregation", lambda *args: replace(make(*args), value=1))
    assert any("its proof gives" in fault for fault in faults({"ties-0"}.__contains__))


def test_a_changed_rule_for_ties_is_caught(monkeypatch):
    lpt = placement.lpt
    monkeypatch.setattr(placement, "lpt", lambda loads, ranks: ranks - 1 - lpt(loads, ranks))  # the last rank of equally light ones
    assert any("another plan than recorded" in fault for fault in faults({"ties-0"}.__contains__))


OUTCOME = Outcome("shipped", "w", "lpt-ffd", (10, 10, 5), "aa")


def test_an_update_records_new_bests_with_their_origin(tmp_path):
    path = tmp_path / "best.json"
    assert all(not verdict.faults for verdict in check.update([OUTCOME], path))
    check.update([replace(OUTCOME, value=(9, 9, 5), digest="bb")], path)  # another plan, and a better one
    best = best_known.read(path).best["shipped/w"]
    assert best["value"] == [9, 9, 5]
    assert best["by"] == "lpt-ffd"
    assert {"routepack", "date", "machine"} <= set(best)


@pytest.mark.parametrize(
    "worse",
    [
        replace(OUTCOME, value=(11, 11, 5), digest="bb"),  # a worse plan
        replace(OUTCOME, fault="no verified plan: layout misses sample 3"),
    ],
)
def test_an_update_refuses_to_worsen(tmp_path, worse):
    path = tmp_path / "best.json"
    check.update([OUTCOME], path)
    before = path.read_bytes()
    with pytest.raises(RoutePackError, match="update refused"):
        check.update([worse], path)
    assert path.read_bytes() == before


def test_an_update_keeps_the_recorded_gap_where_today_is_within_the_slack(tmp_path):
    path = tmp_path / "best.json"
    check.update([replace(OUTCOME, name="anneal", value=(1_000_000, 0, 0), digest="")], path)
    check.update([replace(OUTCOME, name="anneal", value=(1_000_500, 0, 0), digest="")], path)  # 0.05 % above: within 0.1 %
    assert best_known.read(path).values["shipped/w"]["anneal"][0] == (1_000_000, 0, 0)


def test_a_weaker_bound_and_more_rows_are_caught(tmp_path):
    path = tmp_path / "best.json"
    given = [Outcome("rows", "w", "settle", (20,)), Outcome("rows", "w", "bound:rows", (20,))]
    check.update(given, path)
    for outcome in (replace(given[0], value=(21,)), replace(given[1], value=(19,))):
        assert any(verdict.faults for verdict in check.judge([outcome], best_known.read(path)))


def test_what_was_not_recorded_is_said():
    [verdict] = check.judge([OUTCOME], best_known.Recorded())
    assert [fault.text for fault in verdict.faults] == ["w has no recorded value; run routepack check --update"]


def test_a_malformed_file_is_refused(tmp_path):
    path = tmp_path / "best.json"
    path.write_text('{"format": "other"}')
    with pytest.raises(InvalidInstance, match="malformed"):
        best_known.read(path)


def test_the_command_says_what_failed_and_exits_with_one(monkeypatch):
    monkeypatch.setattr("routepack.studies.measured.outcomes", lambda: [OUTCOME])
    done = CliRunner().invoke(main, ["check"])
    assert done.exit_code == 1
    assert "1 fault\n" in done.stdout
    assert CliRunner().invoke(main, ["check", "--json"]).exit_code == 1
