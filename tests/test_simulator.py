import itertools
import json

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import instances, plans

from routepack import CostModel, Instance, InvalidInstance, Options, Stage, Topology, Window
from routepack.cost import cost
from routepack.plan import Layout, Placement, Plan
from routepack.studies.simulator import Workload, simulate
from routepack.studies.trace import trace

LINEAR = CostModel("absolute", expert_cost=1.0, stages=(Stage("full", 1.0, 0.0),))


def two_rows(sync="shard"):
    """Two shards of one slot and one rank, where shard 0 is slow in row 0 and shard 1 in row 1."""
    instance = Instance(
        Window([6, 2, 3, 5], np.array([6, 2, 3, 5]).reshape(4, 1, 1)), Topology(2, 1, 2), 8, cost=LINEAR, options=Options(sync=sync)
    )
    return instance, Plan(Placement(np.zeros((1, 1))), Layout.from_lists([[[0], [2]], [[1], [3]]]))


@st.composite
def planned(draw):
    """Draw an instance with a plan whose cells are not empty; whether they keep the cap is of no matter here."""
    instance = draw(instances(max_samples=8, max_layers=3))
    assume(instance.window.num_samples >= instance.topology.dp)
    plan = draw(plans(instance))
    assume(all(cell for slot in plan.layout.cells for cell in slot))
    return instance, plan


@settings(max_examples=100)
@given(planned())
def test_without_dispatch_and_pipeline_the_time_is_the_score(case):
    instance, plan = case
    assert simulate(instance, plan).time == cost(instance, plan).score.makespan


@settings(max_examples=40)
@given(planned())
def test_layers_of_a_row_shard_add_up_to_its_cost(case):
    instance, plan = case
    assert (simulate(instance, plan).phases.layers.sum(axis=2) == cost(instance, plan).row_shards).all()


@settings(max_examples=40)
@given(planned(), st.integers(1, 3), st.sampled_from([0.0, 0.25, 1.0]))
def test_a_rank_is_never_busier_than_a_phase_is_long_and_dispatch_only_adds(case, pp, dispatch):
    instance, plan = case
    pp = min(pp, instance.window.num_layers)
    replay = simulate(instance, plan, pp=pp, dispatch=dispatch)
    attention, expert = replay.phases.busy
    assert (attention <= replay.phases.attention.sum(axis=3)[..., None]).all()
    assert (expert <= replay.phases.expert[..., None]).all()
    assert (replay.idle_share >= 0).all()
    assert replay.time >= simulate(instance, plan, pp=pp).time


@settings(max_examples=40)
@given(planned())
def test_a_rank_works_off_its_slot_and_its_experts(case):
    instance, plan = case
    assume(instance.topology.parts_per_slot == 1)  # otherwise experts' work is divided and rounded
    work, replay = Workload.of(instance, plan), simulate(instance, plan)
    ranks = replay.busy.shape[2]
    per_slot, per_ep = ranks // instance.topology.slots_per_shard, ranks // instance.topology.ep
    attention, expert = replay.phases.busy.sum(axis=(1, 3))  # (shard, rank)
    assert (attention[:, ::per_slot] == work.attention.sum(axis=(0, 3))).all()
    assert (expert[:, ::per_ep] == work.expert.sum(axis=(0, 2))).all()


@settings(max_examples=40)
@given(planned(), st.integers(1, 3))
def test_passes_respect_the_pipeline(case, pp):
    instance, plan = case
    pp = min(pp, instance.window.num_layers)
    replay = simulate(instance, plan, pp=pp)
    at = {(s.stage, s.shard, s.row, s.kind): s for s in replay.spans}
    assert len(at) == len(replay.spans) == pp * (1 if pp == 1 else 2) * plan.layout.num_rows * instance.topology.num_shards
    for (k, g, r, kind), span in at.items():
        if kind == "forward" and k:
            assert span.start >= at[k - 1, g, r, kind].end
        if kind == "backward":
            assert span.start >= at[min(k + 1, pp - 1), g, r, "backward" if k + 1 < pp else "forward"].end
    for k in range(pp):
        for g in range(instance.topology.num_shards):
            own = [s for s in replay.spans if (s.stage, s.shard) == (k, g)]
            assert all(a.end <= b.start for a, b in itertools.pairwise(own))


def test_shards_that_meet_in_each_row_wait_for_the_slower_one():
    # J is [[12, 4], [6, 10]]: free of one another max(18, 14), row by row 12 + 10
    assert simulate(*two_rows()).time == 18
    assert simulate(*two_rows("row")).time == 22


def test_idle_shares_and_tokens_per_tick_are_those_of_the_time():
    replay = simulate(*two_rows())
    assert replay.idle_share.ravel().tolist() == pytest.approx([0.0, 4 / 18])  # shard 1 is done after 14 of 18 ticks
    assert replay.tokens_per_tick == pytest.approx(16 / 18)


def test_dispatch_is_paid_before_and_after_the_experts():
    # one token-slot each way: 6 + 6 in row 0 of shard 0, 3 + 3 in row 1, on top of 18
    assert simulate(*two_rows(), dispatch=1.0).time == 36


def test_two_pipeline_stages_fill_and_drain():
    window = Window([3, 3], np.full((2, 2, 1), 3))
    instance = Instance(window, Topology(1, 1, 1), 4, cost=LINEAR)
    plan = Plan(Placement(np.zeros((2, 1))), Layout.from_lists([[[0], [1]]]))
    # 9 ticks a row, 3 of them attention: layers of 1 + 3 and 2 + 3 ticks, so forwards of 1 and 1 and backwards of 3 and 4.
    # stage 1: F0 at 1-2, B0 2-6, F1 6-7, B1 7-11; stage 0: B1 at 11-14
    assert simulate(instance, plan, pp=2).time == 14


def test_more_stages_than_layers_and_a_negative_dispatch_are_refused():
    with pytest.raises(InvalidInstance, match=r"pp = 2 exceeds the 1 MoE layers"):
        simulate(*two_rows(), pp=2)
    for dispatch in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InvalidInstance, match="dispatch"):
            simulate(*two_rows(), dispatch=dispatch)


@settings(max_examples=40)
@given(planned(), st.integers(1, 2), st.sampled_from([0.0, 0.5]))
def test_a_trace_keeps_every_event_in_its_span(case, pp, dispatch):
    instance, plan = case
    replay = simulate(instance, plan, pp=min(pp, instance.window.num_layers), dispatch=dispatch)
    found = json.loads(json.dumps(trace(replay, "</script>")))
    events = [e for e in found["traceEvents"] if e["ph"] == "X"]
    assert max(e["ts"] + e["dur"] for e in events) == replay.time
    rows = {(e["pid"], e["name"]): e for e in events if e["tid"] == 0}
    for event in events:
        assert event["dur"] >= 0
        kinds = [
            rows[event["pid"], f"{k} {event['args']['row']}"]
            for k in ("row", "forward", "backward")
            if (event["pid"], f"{k} {event['args']['row']}") in rows
        ]
        assert any(row["ts"] <= event["ts"] and event["ts"] + event["dur"] <= row["ts"] + row["dur"] for row in kinds)


def test_a_trace_leaves_ranks_out_when_it_would_be_too_large(monkeypatch):
    monkeypatch.setattr("routepack.studies.trace.MOST_EVENTS", 3)
    assert trace(simulate(*two_rows()))["otherData"]["tracks"] == "shards"
