"""`verify` accepts what keeps every constraint and refuses each single fault with its own message."""

import dataclasses
import re

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import instances, plans

from routepack import CostModel, Infeasible, Instance, InvalidCertificate, InvalidPlan, Options, Stage, Topology, Window
from routepack.bounds.score import SCORE_BOUNDS
from routepack.certificate import WeightCertificate
from routepack.plan import Layout, Placement, Plan
from routepack.row_shard_certificate import RowShardCertificate
from routepack.score_proof import PROOF_KINDS, ScoreProof
from routepack.verify import Claims, recompute_bound, verify, verify_plan

LINEAR = CostModel(stages=(Stage("full", 1.0, 0.0),))
TWO_SHARDS = Instance(
    Window([4, 4, 3, 2], [[[2, 2, 0, 0]], [[4, 0, 0, 0]], [[0, 3, 0, 0]], [[0, 0, 1, 1]]], sample_ids=["a", "b", "c", "d"]),
    Topology(2, 2, 2),
    10,
    "two-shards",
    cost=LINEAR,
)
LAYOUT = [[[0, 2]], [[1, 3]]]
PLACEMENT = [[0, 1, 0, 1]]


def plan_of(layout=LAYOUT, placement=PLACEMENT):
    """Build the small plan, or a variation of it."""
    return Plan(Placement(np.array(placement)), Layout.from_lists(layout))


def claims_of(instance=TWO_SHARDS, plan=None, **changes):
    """Return true claims of a plan, but for the changes."""
    plan = plan or plan_of()
    weights = WeightCertificate(instance.unit_lengths(), instance.token_cap)
    true = Claims(
        instance.sha256(),
        plan.layout.num_rows,
        weights.cells,
        "proved",
        weights,
        verify_plan(instance, plan).score,
        recompute_bound(instance, None),
    )
    return dataclasses.replace(true, **changes)


def test_a_true_plan_is_accepted_and_its_cost_recomputed():
    cost, proof = verify(TWO_SHARDS, plan_of(), claims_of())
    assert cost.score == oracle.score(TWO_SHARDS, PLACEMENT, LAYOUT)
    assert proof.cells_lower_bound == 2  # ceil(13 / 10)
    assert proof.status == "proved"


def test_a_bound_for_the_placement_at_hand_is_accepted_too():
    own = recompute_bound(TWO_SHARDS, plan_of().placement)
    assert verify(TWO_SHARDS, plan_of(), claims_of(bound=own))[0].score.makespan >= own.value


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ([[[0, 2]], [[1]]], "layout misses sample 3 (d)"),
        ([[[0, 2]], [[1, 3, 2]]], "layout[1][0] places sample 2 (c) a second time"),
        ([[[0, 2, 2]], [[1, 3]]], "layout[0][0] places sample 2 (c) a second time"),
        ([[[0, 1, 2]], [[3]]], "layout[0][0] holds 11 aligned tokens; token_cap = 10"),
        ([[[0, 1, 2, 3]], [[]]], "layout[1][0] is empty"),
        ([[[0, 2]], [[1, 3, 4]]], "layout[1][0] names sample 4"),
        ([[[0, 2]], [[1, 3, -1]]], "layout[1][0] names sample -1"),
        ([[[0, 2]], [[1], [3]]], "layout[1] has 2 rows, slot 0 has 1"),
        ([[[0, 2]], [[1]], [[3]]], "layout has 3 slots; dp = 2"),
        ([[], []], "layout has 0 rows"),
    ],
)
def test_a_layout_with_one_fault_is_refused_with_its_own_message(layout, message):
    with pytest.raises(InvalidPlan, match=re.escape(message)):
        verify(TWO_SHARDS, plan_of(layout), claims_of())


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        ([[0, 0, 0, 1]], "placement[0] puts 3 experts on rank 0; each of 2 ranks holds 2"),
        ([[0, 1, 0, 2]], "placement[0][3] = 2 is no EP rank"),
        ([[0, 1, -1, 1]], "placement[0][2] = -1 is no EP rank"),
        ([[0, 1]], "placement has shape (1, 2)"),
        ([[0, 1, 0, 1]] * 2, "placement has shape (2, 4)"),
    ],
)
def test_a_placement_that_is_no_permutation_is_refused(placement, message):
    with pytest.raises(InvalidPlan, match=re.escape(message)):
        verify(TWO_SHARDS, plan_of(placement=placement), claims_of())


TRUE_BOUND = recompute_bound(TWO_SHARDS, None).value


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"sha256": "0" * 64}, InvalidPlan, "instance.sha256 = 000000000000… is another instance's"),
        ({"score": (1, 1, 1)}, InvalidPlan, "score = [1, 1, 1] but recomputation gives"),
        ({"rows_count": 2}, InvalidPlan, "rows.count = 2 but the layout has 1 rows"),
        ({"rows_status": "best known, at least 1"}, InvalidPlan, "but the certificate shows 'proved'"),
        ({"cells_lower_bound": 3}, InvalidCertificate, "rows.cells_lower_bound = 3 but the certificate proves only 2"),
        (
            {"certificate": WeightCertificate(np.array([5, 4, 3, 2]), 10)},
            InvalidCertificate,
            "a set of items that fits weighs 11, over its limit of 10",
        ),
        ({"certificate": WeightCertificate(np.array([4, 4, 3, 2]), 9)}, InvalidCertificate, "weighs 10, over its limit of 9"),
        ({"certificate": WeightCertificate(np.array([4, 4, 3]), 10)}, InvalidCertificate, "has 3 weights for 4 items"),
        (
            {"bound": ScoreProof("aggregation", TRUE_BOUND + 1, any_placement=True)},
            InvalidPlan,
            f"bound.value = {TRUE_BOUND + 1} but aggregation for any placement gives only {TRUE_BOUND}",
        ),
    ],
)
def test_a_false_claim_is_refused_with_its_own_message(change, error, message):
    with pytest.raises(error, match=re.escape(message)):
        verify(TWO_SHARDS, plan_of(), claims_of(**change))


@pytest.mark.parametrize("kind", PROOF_KINDS)
@pytest.mark.parametrize("placement", [None, plan_of().placement])
def test_every_kind_of_bound_is_accepted_and_refused_one_tick_higher(kind, placement):
    proof = SCORE_BOUNDS[kind](TWO_SHARDS, placement, 1)
    verify(TWO_SHARDS, plan_of(), claims_of(bound=proof, placement_bound=proof))
    raised = dataclasses.replace(proof, value=proof.value + 1)
    refusal = f".value = {raised.value} but {kind} for {proof.scope} gives only {proof.value}"
    with pytest.raises(InvalidPlan, match="^bound" + re.escape(refusal)):
        verify(TWO_SHARDS, plan_of(), claims_of(bound=raised))
    with pytest.raises(InvalidPlan, match="^placement_bound" + re.escape(refusal)):
        verify(TWO_SHARDS, plan_of(), claims_of(placement_bound=raised))


def test_a_bound_whose_certificate_is_another_windows_is_refused():
    prices = RowShardCertificate(np.array([1024]))
    with pytest.raises(InvalidCertificate, match="has 1 prices for 4 units"):
        verify(TWO_SHARDS, plan_of(), claims_of(bound=ScoreProof("dantzig-wolfe", 1, any_placement=True, certificate=prices)))
    with pytest.raises(InvalidCertificate, match="comes with the wrong certificate"):
        verify(TWO_SHARDS, plan_of(), claims_of(bound=ScoreProof("capacity", 1, any_placement=True, certificate=prices)))


def test_optimal_is_refused_where_only_a_bound_for_this_placement_is_met():
    one_shard = dataclasses.replace(TWO_SHARDS, topology=Topology(2, 2, 1))
    proof = recompute_bound(one_shard, plan_of().placement, 1)
    plan = plan_of([[[0, 2]], [[1, 3]]])
    assert verify_plan(one_shard, plan).score.makespan == proof.value  # one row-shard, with even attention and the window's rank peaks
    with pytest.raises(InvalidPlan, match="neither the bound shows it"):
        verify(one_shard, plan, claims_of(one_shard, plan, bound=proof, status="optimal"))


def test_a_plan_is_refused_for_the_same_window_under_another_option():
    other = dataclasses.replace(TWO_SHARDS, options=Options(sync="row"))
    with pytest.raises(InvalidPlan, match="pass the window that was planned, with the same options"):
        verify(other, plan_of(), claims_of())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"row_multiple": 2}, "layout has 1 rows; a positive multiple of row_multiple = 2"),
        ({"options": Options(keep_together=((0, 1),))}, "layout splits kept-together group [0, 1] over 2 cells"),
        (
            {"length_multiple": 4, "token_cap": 7, "options": Options(oversize="own_row")},
            "layout[0][0] holds 8 aligned tokens; token_cap = 7",
        ),
    ],
)
def test_side_constraints_of_the_instance_are_checked(change, message):
    with pytest.raises(InvalidPlan, match=re.escape(message)):
        verify_plan(dataclasses.replace(TWO_SHARDS, **change), plan_of())


def test_equal_samples_asks_for_the_same_number_on_every_slot():
    instance = dataclasses.replace(TWO_SHARDS, options=Options(equal_samples=True))
    verify_plan(instance, plan_of())
    with pytest.raises(InvalidPlan, match=re.escape("layout gives the slots [1, 3] samples")):
        verify_plan(instance, plan_of([[[0]], [[1, 2, 3]]]))


def test_an_oversize_sample_lies_alone_or_not_at_all():
    options = Options(oversize="own_row")
    instance = dataclasses.replace(TWO_SHARDS, window=Window([14, 4, 3, 2], TWO_SHARDS.window.demand), options=options)
    verify_plan(instance, plan_of([[[0]], [[1, 2, 3]]]))
    with pytest.raises(InvalidPlan, match=re.escape("layout[0][0] holds 16 aligned tokens")):
        verify_plan(instance, plan_of([[[0, 3]], [[1, 2]]]))
    with pytest.raises(Infeasible, match="sample 0 has 14 aligned tokens"):
        verify_plan(dataclasses.replace(instance, options=Options()), plan_of([[[0]], [[1, 2, 3]]]))


@given(st.data())
def test_verify_accepts_exactly_the_plans_that_plain_python_allows(data):
    instance = data.draw(instances())
    plan = data.draw(plans(instance))
    try:
        verify_plan(instance, plan)
        accepted = True
    except (InvalidPlan, Infeasible):
        accepted = False
    assert accepted == oracle.allowed(instance, plan.placement.to_list(), plan.layout.to_list())
