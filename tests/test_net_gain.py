"""Moving experts only where it pays: the decision, its guarantee, and what the command says."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from routepack import Instance, InvalidInstance, Options, Topology, Window, solve
from routepack.budget import Budget
from routepack.cli import main
from routepack.heuristics.migration import keep_unless_worth, transfer_rounds_needed
from routepack.heuristics.placement import identity
from routepack.instances.moves import list_moves, transfer_rounds
from routepack.net_gain import saved_ticks
from routepack.plan import Placement

NOW, NEXT = np.array([[0, 0, 1, 1], [0, 0, 1, 1]]), np.array([[0, 1, 0, 1], [1, 1, 0, 0]])


def skewed(sync="shard", parts=1):
    """A window whose hot experts share a rank while experts lie contiguously."""
    rng = np.random.default_rng(4)
    lengths = rng.integers(5, 30, 24)
    demand = np.array([rng.multinomial(2 * t, [0.3, 0.28, 0.1, 0.1, 0.08, 0.06, 0.04, 0.04], 4) for t in lengths], dtype=np.int32)
    demand[:, 3] = lengths[:, None] // 4  # a layer that is balanced as it is
    topology = Topology(2, 2, 2 * parts)
    return Instance(Window(lengths, demand), topology, 80, options=Options(sync=sync), current_placement=identity(4, 8, 2))


def planned(instance, **options):
    return solve(instance, budget=Budget(attempts=300), backend="numpy", threads=1, **options)


def test_rounds_of_a_layer_are_those_of_its_transfers():
    assert transfer_rounds_needed(NOW, NEXT, 2).tolist() == [1, 2]  # one expert each way; two each way
    for layer in range(2):
        assert len(transfer_rounds(list_moves(NOW[layer : layer + 1], NEXT[layer : layer + 1], 2))) == layer + 1


@pytest.mark.parametrize(("cost", "kept"), [(0, [True, True]), (9, [True, False]), (10, [False, False])])
def test_a_layer_moves_only_if_it_saves_more_than_its_rounds_cost(cost, kept):
    # both save 10 ticks; layer 0 costs one round, layer 1 two: 9 < 10 <= 18
    chosen = keep_unless_worth(NOW, NEXT, np.array([10, 10]), 2, cost)
    assert [(row == new).all() for row, new in zip(chosen, NEXT, strict=True)] == kept


def test_a_negative_cost_is_refused():
    with pytest.raises(InvalidInstance, match="move_cost = -1"):
        keep_unless_worth(NOW, NEXT, np.array([1, 1]), 2, -1)


@pytest.mark.parametrize("sync", ["shard", "row"])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("cost", [0, 5, 40, 1e9])
def test_what_is_kept_costs_the_step_no_more_than_its_moves_would(sync, parts, cost):
    instance = skewed(sync, parts)
    free, settled = planned(instance), planned(instance, move_cost=cost)
    assert settled.layout == free.layout
    kept = (np.array(settled.placement) != free.placement).any(axis=1)
    assert all(settled.placement[k] == instance.current_placement[k].tolist() for k in np.flatnonzero(kept))
    rounds = transfer_rounds_needed(instance.current_placement, np.array(free.placement), 2)
    assert settled.score.makespan <= free.score.makespan + cost * rounds[kept].sum() + parts  # one tick of rounding up a row of parts
    assert settled.placement_bound.value <= settled.score.makespan
    if cost == 1e9:
        assert settled.placement == instance.current_placement.tolist()


def test_savings_are_those_of_the_shard_that_gains_most():
    instance = skewed()
    result = planned(instance)
    current, found = Placement(instance.current_placement), Placement(np.array(result.placement))
    saved = saved_ticks(instance, result.plan.layout, current, found)
    for layer in range(4):
        gains = []
        for slot in result.layout:  # a shard each
            rows = [instance.window.demand[cell, layer].sum(axis=0) for cell in slot]
            peaks = [[np.bincount(p.rank_of_expert[layer], row).max() for row in rows] for p in (current, found)]
            gains.append(sum(peaks[0]) - sum(peaks[1]))
        assert saved[layer] == max(gains)


def test_move_cost_needs_to_know_where_experts_are():
    instance = skewed()
    with pytest.raises(InvalidInstance, match="move_cost needs current_placement"):
        planned(Instance(instance.window, instance.topology, 80), move_cost=1.0)


def run(*arguments):
    return CliRunner().invoke(main, ["solve", "two-shards", "--attempts", "50", "--backend", "numpy", "--no-baseline", *arguments])


def test_the_command_says_what_moves():
    facts = json.loads(run("--current-placement", "contiguous", "--expert-parameters", "5", "--json").stdout)["moves"]
    assert facts == {"experts": 0, "layers": 0, "rounds": 0, "gain": 0, "weight_bytes": 0, "all_bytes": 0}  # rank names are free
    assert "moves: 0 experts of 0 layers in 0 rounds; 0 ticks" in run("--current-placement", "contiguous", "--move-cost", "3").stdout
    assert json.loads(run("--json").stdout)["moves"] is None


def test_limits_of_moving_reach_the_planner():
    assert run("--current-placement", "contiguous", "--max-moves", "0", "--tolerance", "0.1").exit_code == 0
    for option in ("--max-moves", "--tolerance", "--move-cost"):
        done = run(option, "1")
        assert done.exit_code == 2
        assert "current_placement" in done.stderr


def test_a_file_of_the_current_placement_is_read(tmp_path):
    path = tmp_path / "now.json"
    path.write_text("[[1, 0]]")
    plan = tmp_path / "plan.json"
    assert run("--current-placement", str(path), "--max-moves", "0", "-o", str(plan)).exit_code == 0
    assert json.loads(plan.read_text())["placement"] == [[1, 0]]
