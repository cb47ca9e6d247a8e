"""`routepack place` and `routepack bound` as a user runs them."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from routepack.cli import main
from routepack.instances import library


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.parametrize("method", ["identity", "lpt", "lpt-swap", "cp-sat", "milp"])
def test_place_prints_and_writes_a_permutation(method, tmp_path):
    out = tmp_path / "placement.json"
    result = run("place", "two-shards", "--method", method, "--json", "-o", out)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    instance = library.load("two-shards")
    held = instance.window.num_experts // instance.topology.ep
    for row in facts["placement"]:
        assert np.bincount(row).tolist() == [held] * instance.topology.ep
    assert all(peak >= bound for peak, bound in zip(facts["peaks"], facts["bounds"], strict=True))
    assert json.loads(out.read_text()) == facts["placement"]


def test_place_shows_a_table():
    result = run("place", "two-shards")
    assert result.exit_code == 0
    assert "layers optimal" in result.stdout


def test_moves_without_a_current_placement_are_refused():
    result = run("place", "two-shards", "--method", "cp-sat", "--max-moves", 1)
    assert result.exit_code == 2
    assert "current placement" in result.stderr


def test_a_missing_solver_exits_with_bad_input():
    result = run("place", "tinymoe-math", "--method", "milp", "--solver", "no_such_solver")
    assert result.exit_code == 2
    assert "not installed" in result.stderr


def test_bound_lists_every_bound_of_the_shipped_window():
    result = run("bound", "two-shards", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["rows"] == 1
    assert facts["any_placement"]["aggregation"]["value"] == 6  # DESIGN section 8
    assert facts["any_placement"]["dantzig-wolfe"]["value"] <= 8  # the optimum, by listing
    assert "best for any placement" in run("bound", "two-shards", "--rows", 1).stdout
