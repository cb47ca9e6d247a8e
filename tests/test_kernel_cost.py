"""The objective against a plain-Python reading of it."""

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import instances, plans

from routepack import CostModel, Instance, InvalidInstance, Options, Stage, Topology, Window
from routepack.cost import attention_ticks, cost, objective
from routepack.plan import Layout, Placement, Plan

PER_TOKEN = CostModel("absolute", expert_cost=1.0, stages=(Stage("full", 1.0, 0.0),))


@given(st.data())
def test_cost_agrees_with_plain_python_on_any_instance_and_plan(data):
    instance = data.draw(instances())
    plan = data.draw(plans(instance))
    b = attention_ticks(instance).tolist()
    found = cost(instance, plan)
    assert found.row_shards.tolist() == oracle.row_shard_costs(instance, plan.placement.to_list(), plan.layout.to_list(), b)
    assert found.score == oracle.score(instance, plan.placement.to_list(), plan.layout.to_list(), b)


@given(instances())
def test_ticks_are_kappa_times_raw_rounded_exactly(instance):
    exact = oracle.ticks(instance)
    for found, expected in zip(attention_ticks(instance).tolist(), exact, strict=True):
        # A double may fall on the other side of an exact half under the window-normalised kappa, never further.
        slack = 0 if instance.cost.kind == "absolute" else 1
        assert all(abs(x - y) <= slack for x, y in zip(found, expected, strict=True))


def test_halves_round_to_the_even_tick():
    halves = CostModel("absolute", expert_cost=2.0, stages=(Stage("full", 1.0, 0.0),))
    instance = Instance(Window([1, 3, 5, 7], np.ones((4, 1, 1), int)), Topology(1, 1, 1), 16, cost=halves)
    assert attention_ticks(instance)[:, 0].tolist() == [0, 2, 2, 4]  # 0.5, 1.5, 2.5, 3.5


def test_kappa_makes_attention_as_costly_as_experts_at_share_one_half():
    # 12 token-slots on 2 ranks: 6 ticks of expert work if ideal. Raw attention 12 over D = 2 slots is 6 if ideal, so kappa = 1.
    window = Window([4, 4, 4], [[[2, 2]], [[4, 0]], [[0, 4]]])
    stages = (Stage("full", 1.0, 0.0),)
    assert attention_ticks(Instance(window, Topology(2, 2, 1), 12, cost=CostModel(stages=stages)))[:, 0].tolist() == [4, 4, 4]
    # share = 0.75 asks for three times the experts' ideal.
    thrice = CostModel(share=0.75, stages=stages)
    assert attention_ticks(Instance(window, Topology(2, 2, 1), 12, cost=thrice))[:, 0].tolist() == [12, 12, 12]


def test_share_zero_leaves_expert_cost_alone():
    instance = Instance(Window([4, 2], np.ones((2, 1, 2), int)), Topology(1, 2, 1), 8, cost=CostModel(share=0.0))
    assert not attention_ticks(instance).any()


def test_default_stage_is_linear_and_quadratic_in_equal_parts_over_the_window():
    stage = Instance(Window([2, 4], np.ones((2, 1, 1), int)), Topology(1, 1, 1), 8).cost.stages[0]
    assert stage.linear * (2 + 4) == pytest.approx(stage.quadratic * (4 + 16))


def test_each_stage_kind_takes_its_own_slowest_slot():
    stages = (Stage("linear", 1.0, 0.0), Stage("full", 0.0, 1.0))
    window = Window([6, 3, 3, 3], [[[0]], [[0]], [[0]], [[0]]])
    instance = Instance(window, Topology(2, 1, 1), 9, cost=CostModel("absolute", expert_cost=1.0, stages=stages))
    plan = Plan(Placement(np.zeros((1, 1), int)), Layout.from_lists([[[0]], [[1, 2, 3]]]))
    # linear: max(6, 9) on slot 1; quadratic: max(36, 27) on slot 0.
    assert cost(instance, plan).attention.tolist() == [[9 + 36]]


def test_a_slot_split_over_two_shards_divides_expert_cost_and_rounds_up():
    window = Window([8, 8], [[[4, 4]], [[6, 3]]])
    instance = Instance(window, Topology(2, 2, 4), 8, cost=PER_TOKEN)
    plan = Plan(Placement(np.array([[0, 1]])), Layout.from_lists([[[0]], [[1]]]))
    assert cost(instance, plan).expert.tolist() == [[2, 3]]  # 4 / 2, 6 / 2
    other = Plan(Placement(np.array([[0, 1]])), Layout.from_lists([[[1]], [[0]]]))
    assert cost(instance, other).row_shards.tolist() == [[8 + 3, 8 + 2]]


def test_sync_row_adds_the_slowest_shard_of_each_row():
    row_shards = np.array([[5, 1], [1, 4]])
    assert objective(row_shards, "shard") == (6, 11, 5)  # shards 6 and 5
    assert objective(row_shards, "row") == (9, 11, 5)  # rows 5 and 4


def test_loads_above_32_bits_stay_exact():
    big = (1 << 31) - 1
    window = Window([1, 1, 1], np.full((3, 2, 2), big))
    instance = Instance(window, Topology(1, 1, 1), 3, cost=PER_TOKEN)
    plan = Plan(Placement(np.zeros((2, 2), int)), Layout.from_lists([[[0, 1, 2]]]))
    assert cost(instance, plan).score.makespan == 12 * big + 3  # 3 samples x 2 layers x 2 experts, and 3 ticks of attention


def test_ticks_that_double_precision_cannot_hold_are_refused():
    model = CostModel("absolute", expert_cost=1e-12, stages=(Stage("full", 1.0, 1.0),))
    instance = Instance(Window([100_000], [[[1]]]), Topology(1, 1, 1), 100_000, cost=model)
    with pytest.raises(InvalidInstance, match=r"2\*\*53"):
        attention_ticks(instance)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("share", 1.0),
        ("share", float("nan")),
        ("share", -0.1),
        ("kind", "seconds"),
        ("expert_cost", 2.0),
        ("share", "half"),
        ("share", True),
    ],
)
def test_a_cost_model_that_means_nothing_is_refused_by_name(field, value):
    with pytest.raises(InvalidInstance, match=f"cost.{field}"):
        CostModel(**{field: value})


def test_the_worked_example_of_the_design_has_its_numbers():
    window = Window([4, 4, 3], [[[2, 2]], [[4, 0]], [[0, 3]]], sample_ids=["a", "b", "c"])
    linear = CostModel(stages=(Stage("full", 1.0, 0.0),))
    instance = Instance(window, Topology(2, 2, 2), 10, "two-shards", cost=linear, options=Options())
    assert attention_ticks(instance)[:, 0].tolist() == [2, 2, 2]  # kappa = (11 / 2) / 11 = 1/2; rint(1.5) = 2
    place = Placement(np.array([[0, 1]]))
    assert cost(instance, Plan(place, Layout.from_lists([[[0, 2]], [[1]]]))).score == (9, 15, 9)  # 4 + 5 and 2 + 4
    assert cost(instance, Plan(place, Layout.from_lists([[[1, 2]], [[0]]]))).score == (8, 12, 8)  # 4 + 4 and 2 + 2
    assert oracle.best(instance, 1) == (8, 12, 8)
