"""Real windows, end to end: what `solve` writes is what `verify` accepts, whatever the threads."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from routepack.cli import main
from routepack.instances import library

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "instances"
SHIPPED = library.names()
BESIDE = [pytest.param(path, id=path.stem) for path in sorted(FOLDER.glob("*.npz")) if path.stem not in SHIPPED]


def solved(window, plan, threads):
    """Solve under an attempt cap, verify, and return the plan without its time."""
    arguments = ["solve", str(window), "-o", str(plan), "--attempts", "20000", "--seed", "3", "--threads", str(threads), "--quiet"]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    checked = CliRunner().invoke(main, ["verify", str(window), str(plan)])
    assert checked.exit_code == 0, checked.output
    document = json.loads(plan.read_text())
    assert document["method"].pop("seconds") >= 0
    return document


@pytest.mark.parametrize("window", [*SHIPPED, *BESIDE])
def test_solve_and_verify_agree_and_threads_change_nothing(tmp_path, window):
    one, two = (solved(window, tmp_path / f"{threads}.json", threads) for threads in (1, 2))
    assert one == two
    assert one["rows"]["status"] == "proved"
    assert one["bound"]["value"] <= one["score"][0]
