"""`routepack rows` on windows, files, folders and suites."""

import csv
import json

import pytest
from click.testing import CliRunner

from routepack.cli import main

MISSED = {"name": "missed", "C": 20, "items": [[12, 1], [9, 1], [7, 1], [6, 1], [4, 1], [2, 1]]}  # {12, 6, 2} and {9, 7, 4}
FOURS = {"name": "fours", "C": 10, "items": [[4, 7]]}  # two fours a cell


def run(*arguments):
    return CliRunner().invoke(main, ["rows", *map(str, arguments)])


def test_a_suite_is_settled_line_by_line(tmp_path):
    suite = tmp_path / "suite.jsonl"
    suite.write_text("\n".join(map(json.dumps, (MISSED, FOURS))))
    result = run(suite, "-o", tmp_path / "r.csv", "--certificates", tmp_path / "proofs", "--json")
    assert result.exit_code == 0
    answers = [json.loads(line) for line in result.output.splitlines()]
    assert [(a["name"], a["cells"], a["needed"], a["status"]) for a in answers] == [("missed", 2, 2, "proved"), ("fours", 4, 4, "proved")]
    assert [line["cells"] for line in csv.DictReader((tmp_path / "r.csv").open())] == ["2", "4"]
    proofs = [str(tmp_path / "proofs" / f"{name}.json") for name in ("missed", "fours")]
    assert CliRunner().invoke(main, ["verify-certificate", *proofs]).exit_code == 0


def test_processes_give_the_same_answers_in_the_same_order(tmp_path):
    suite = tmp_path / "suite.jsonl"
    suite.write_text("\n".join(map(json.dumps, (MISSED, FOURS, MISSED))))
    names = [line.split(",")[0].split(" found")[0] for line in run(suite, "--jobs", 2).output.splitlines()]
    assert names == [line.split(",")[0].split(" found")[0] for line in run(suite).output.splitlines()]


def test_text_files_and_folders_are_read(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").write_text("7\n10\n" + "4\n" * 7)
    assert "rows 4: proved; cells 4 found, at least 4 needed" in run(folder / "a.txt").output
    assert "a: rows 4: proved" in run(folder).output


def test_what_if_shows_other_caps_and_slots(tmp_path):
    (tmp_path / "a.txt").write_text("7\n10\n" + "4\n" * 7)
    lines = run(tmp_path / "a.txt", "--what-if").output.splitlines()
    row = next(line for line in lines if line.strip().startswith("20"))
    assert row.split() == ["20", "2", "1"]  # five fours fit into 20: two cells, one row of two slots


@pytest.mark.parametrize(
    "line",
    ["{", "[]", '{"name": "x", "C": 10}', '{"name": "x", "C": 10, "items": [[11, 1]]}', '{"name": "x", "C": 10, "items": [[4, 99999999]]}'],
)
def test_malformed_suites_are_bad_input(line, tmp_path):
    suite = tmp_path / "suite.jsonl"
    suite.write_text(line)
    result = run(suite)
    assert result.exit_code == 2
    assert "suite.jsonl line 1" in result.stderr


def test_what_if_asks_for_one_window(tmp_path):
    suite = tmp_path / "suite.jsonl"
    suite.write_text(json.dumps(FOURS))
    assert run(suite, "--what-if").exit_code == 2
