"""Rows against balance: one row more than the fewest where that pays, and never an unverified number."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from routepack.budget import Budget
from routepack.cli import main
from routepack.cost_model import CostModel, Stage
from routepack.errors import Infeasible, InvalidInstance
from routepack.fewest_rows import decide_rows, with_count
from routepack.instance import Instance, Options
from routepack.instances.files import write_instance
from routepack.planner import plan_window, solve
from routepack.rows_tradeoff import trade_off
from routepack.topology import Topology
from routepack.verify import verify_plan
from routepack.window import Window

LENGTHS = [100] + [10] * 30
COST = CostModel("absolute", expert_cost=1.0, stages=(Stage("full", 0.0, 1.0),))


def giant(**options):
    """
    A giant of the cap's 100 tokens and thirty samples of ten, on two shards of one slot.

    Two rows are full: the giant's shard runs ten others, 100² + 10 * 10² attention and 200 tokens = 11,200 ticks. With three rows it runs
    two others, 10,200 + 120 = 10,320; with four, three others, 10,300 + 130 = 10,430; and 110 more for each row after that.
    """
    return Instance(Window(LENGTHS, [[[t]] for t in LENGTHS]), Topology(2, 1, 2), 100, cost=COST, **options)


@pytest.mark.parametrize(("overhead", "rows"), [(0, 3), (100, 3), (879, 3), (881, 2), (5000, 2)])  # a third row gains 11,200 - 10,320 = 880
def test_a_row_more_is_taken_while_it_gains_more_than_it_costs(overhead, rows):
    result = solve(giant(), rows="auto", row_overhead=overhead, budget=Budget(attempts=60_000))
    assert result.rows.count == result.plan.layout.num_rows == rows
    assert result.score.makespan == {2: 11_200, 3: 10_320}[rows]
    assert result.rows.status == {2: "proved", 3: "best known, at least 2"}[rows]
    assert verify_plan(giant(), result.plan).score == result.score
    makespan = {2: 11_200, 3: 10_320, 4: 10_430, 5: 10_540, 6: 10_650}
    assert [(row.makespan, row.cost) for row in result.rows_tried] == [
        (makespan[row.count], makespan[row.count] + row.count * overhead) for row in result.rows_tried
    ]
    assert result.method.attempts <= 60_000


def test_rows_that_cannot_pay_are_not_tried():
    result = solve(giant(), rows="auto", row_overhead=100_000, budget=Budget(attempts=1200))
    assert [row.count for row in result.rows_tried] == [2]  # bound + 300,000 is above 11,200 + 200,000


def test_the_default_is_the_fewest_rows():
    budget = Budget(attempts=500)
    assert solve(giant(), budget=budget).rows.count == solve(giant(), rows="min", budget=budget).rows.count == 2
    assert solve(giant(), budget=budget).rows_tried == ()


def test_a_given_number_of_rows_is_planned():
    for count in (2, 3, 7, 15):
        result = solve(giant(), rows=count, budget=Budget(attempts=500))
        assert result.plan.layout.num_rows == count
        verify_plan(giant(), result.plan)


@pytest.mark.parametrize(("rows", "reason"), [(1, "the tokens need 2"), (16, "have 32 cells, but only 31 samples")])
def test_a_number_of_rows_without_a_plan_is_infeasible(rows, reason):
    with pytest.raises(Infeasible, match=reason):
        solve(giant(), rows=rows, budget=Budget(attempts=10))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rows": "most"}, "rows = 'most' is no number"),
        ({"rows": 2.0}, "rows = 2.0 is not an integer"),
        ({"rows": 0}, "rows = 0 is below 1"),
        ({"rows": "auto", "row_overhead": -1}, "row_overhead = -1 is below 1"),
        ({"rows": "auto", "budget": Budget()}, "divide the budget"),
    ],
)
def test_wrong_arguments_are_refused(wrong, message):
    with pytest.raises(InvalidInstance, match=message):
        solve(giant(), **{"budget": Budget(attempts=10), **wrong})


def test_the_number_of_rows_stays_a_multiple():
    result = solve(giant(row_multiple=4), rows="auto", budget=Budget(attempts=1200))
    assert [row.count for row in result.rows_tried][:2] == [4, 8]
    with pytest.raises(InvalidInstance, match="row_multiple = 4"):
        solve(giant(row_multiple=4), rows=6, budget=Budget(attempts=10))


def test_rows_of_equal_sample_counts_can_be_more_too():
    lengths = [8] + [2] * 7
    instance = Instance(Window(lengths, [[[t]] for t in lengths]), Topology(2, 1, 2), 12, options=Options(equal_samples=True))
    fewest = decide_rows(instance)
    assert with_count(instance, fewest, fewest.count) is fewest
    for count in range(fewest.count, 5):
        result = solve(instance, rows=count, budget=Budget(attempts=200))
        assert verify_plan(instance, result.plan)
        assert result.plan.layout.num_rows == count


def test_a_call_of_a_trainer_may_ask_for_it():
    result = plan_window(
        np.array(LENGTHS),
        [[[t]] for t in LENGTHS],
        Topology(2, 1, 2),
        token_cap=100,
        cost=COST,
        rows="auto",
        row_overhead=1,
        attempts=30_000,
    )
    assert result.rows.count == 3


def test_half_of_the_budget_or_more_goes_to_the_cheapest():
    given, results = [], {count: solve(giant(), rows=count, budget=Budget(attempts=5000)) for count in range(2, 7)}

    def plan(count, budget, start):
        given.append((count, budget.attempts, start is not None))
        return results[count]

    trade_off(plan, range(2, 16), 0, 0, Budget(attempts=60_000))
    assert given[:4] == [(2, 5000, False), (3, 5000, False), (4, 5000, False), (5, 5000, False)]
    assert given[4][0] == 3
    assert given[4][1] >= 30_000
    assert given[4][2]


def test_an_interrupted_trade_off_returns_a_plan():
    result = solve(giant(), rows="auto", budget=Budget(attempts=60_000, interrupted=lambda: True))
    assert result.interrupted
    assert [row.count for row in result.rows_tried] == [2]


def test_the_command_prints_what_each_number_of_rows_costs(tmp_path):
    window = str(tmp_path / "giant.json")
    write_instance(window, giant())
    arguments = ["solve", window, "--attempts", "60000", "--rows", "auto", "--row-overhead", "100"]
    shown = CliRunner().invoke(main, arguments)
    assert shown.exit_code == 0, shown.output
    assert all(text in shown.stdout for text in ("with overhead", "11,400", "10,620", "rows 3: best known, at least 2"))
    tried = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)["rows_tried"]
    assert tried[:2] == [{"count": 2, "makespan": 11_200, "cost": 11_400}, {"count": 3, "makespan": 10_320, "cost": 10_620}]
    assert CliRunner().invoke(main, ["solve", window, "--rows", "most"]).exit_code == 2
