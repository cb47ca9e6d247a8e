"""Plans in the shapes of the trainers: contents by hand, properties for random layouts, and the cases from the field."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routepack import InvalidInstance, InvalidPlan, Topology
from routepack.errors import RoutePackError
from routepack.instances.moves import list_moves
from routepack.instances.writers import even_batches, expert_maps, megatron, nemo_rl, order, slime, trtllm

FILE = Path(__file__).resolve().parents[2] / "shared" / "cases" / "cases.jsonl"
LAYOUT = [[[0, 3], [5]], [[1], [2, 4]]]
PLACEMENT = [[1, 0, 0, 1], [0, 1, 1, 0]]


@st.composite
def layouts(draw, equal=False):
    slots, rows = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    extra = [draw(st.integers(0, 3))] * slots if equal else [draw(st.integers(0, 3)) for _ in range(slots)]
    count = sum(rows + more for more in extra)
    left = list(draw(st.permutations(range(count))))
    cells = [[[left.pop()] for _ in range(rows)] for _ in range(slots)]
    for slot, more in zip(cells, extra, strict=True):
        for _ in range(more):
            slot[draw(st.integers(0, rows - 1))].append(left.pop())
    return cells


@st.composite
def placements(draw):
    ranks, held = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    row = st.permutations([p for p in range(ranks) for _ in range(held)])
    return draw(st.lists(row, min_size=1, max_size=3)), ranks


def plain(value):
    """Whether nothing but Python lists, dictionaries, strings and integers is inside."""
    if isinstance(value, dict):
        return all(map(plain, value.values()))
    return all(map(plain, value)) if type(value) is list else type(value) in (int, str)


def nested_with_numpy(layout):
    return [[np.array(cell) for cell in slot] for slot in layout]


def test_slime_schedule_tiles_each_slots_own_list():
    assert slime.slime_schedule(LAYOUT, rollouts=3) == {
        "partitions": [[0, 3, 5], [1, 2, 4]],
        "micro_batch_indices": [[[0, 1], [2]], [[0], [1, 2]]],
        "num_microbatches": [2],
        "global_batch_sizes": [3],  # six samples of three rollouts
    }


def test_slime_slots_may_hold_different_numbers_of_samples():
    assert slime.slime_schedule([[[0, 1]], [[2]]])["partitions"] == [[0, 1], [2]]


def test_more_rollouts_than_samples_are_refused():
    with pytest.raises(InvalidPlan, match="rollouts = 4"):
        slime.slime_schedule([[[0, 1]], [[2]]], rollouts=4)


@given(layouts())
def test_slime_partitions_and_rows_rebuild_the_layout(layout):
    schedule = slime.slime_schedule(nested_with_numpy(layout))
    slots = list(zip(schedule["partitions"], schedule["micro_batch_indices"], strict=True))
    assert [[[part[k] for k in row] for row in rows] for part, rows in slots] == layout
    assert all([k for row in rows for k in row] == list(range(len(part))) for part, rows in slots)
    assert plain(slime.slime_document(layout))


@given(layouts(equal=True), st.sampled_from([even_batches.verl_batches, even_batches.areal_groups, even_batches.skyrl_batches]))
def test_even_batches_cover_every_sample_once_in_equal_parts(layout, write):
    document = write(nested_with_numpy(layout))
    ordered, slots = document["permutation"], len(layout)
    share = len(ordered) // slots
    assert sorted(ordered) == list(range(share * slots))
    assert [ordered[k] for k in document["inverse"]] == list(range(len(ordered)))
    rows = next(document[key] for key in ("micro_batch_indices", "group_indices", "microbatches") if key in document)
    parts = [ordered[d * share : (d + 1) * share] for d in range(slots)]  # what the trainer's even cut gives each slot
    assert [[[part[k] for k in row] for row in slot] for part, slot in zip(parts, rows, strict=True)] == layout
    assert plain(document)


@pytest.mark.parametrize("write", [order.permutation, even_batches.verl_batches, even_batches.areal_groups, even_batches.skyrl_batches])
def test_uneven_slots_are_refused_where_the_trainer_cuts_evenly(write):
    with pytest.raises(InvalidPlan, match=r"layout\[1\] holds 1 samples.*equal-samples"):
        write([[[0, 1]], [[2]]])


@given(layouts())
def test_nemo_bins_go_round_the_slots(layout):
    document = nemo_rl.nemo_document(nested_with_numpy(layout))
    slots = len(layout)
    assert [document["bins"][d::slots] for d in range(slots)] == layout  # bin j goes to slot j mod S
    assert plain(document)


def test_nemo_slots_carry_bounds_and_padded_tokens_of_their_rows():
    document = nemo_rl.nemo_document(LAYOUT, lengths=[8, 8, 16, 8, 8, 24])
    assert document["micro_batch_indices"] == [[[0, 2], [2, 3]], [[0, 1], [1, 3]]]
    assert document["micro_batch_lengths"] == [[16, 24], [8, 24]]  # 8 + 8, 24; 8, 16 + 8


def test_lengths_of_another_batch_are_refused():
    with pytest.raises(InvalidPlan, match="lengths has 2 entries for 6 samples"):
        nemo_rl.nemo_document(LAYOUT, lengths=[8, 8])


@given(layouts(), st.integers(1, 3))
def test_megatron_groups_repeat_a_slots_list_on_its_context_ranks(layout, cp):
    document = megatron.megatron_document(nested_with_numpy(layout), cp)
    for r, row in enumerate(document["sample_id_groups"]):
        assert row == [slot[r] for slot in layout for _ in range(cp)]
    assert sorted(document["permutation"]) == list(range(sum(len(c) for slot in layout for c in slot)))
    assert plain(document)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ([], "no cell"),
        ([[[0]], [[1], [2]]], r"layout\[1\] has 2 rows"),
        ([[[0]], [[]]], r"layout\[1\]\[0\] is empty"),
        ([[[0]], [[0]]], "sample 0 a second time"),
        ([[[0]], [[2]]], "sample 2 among 2"),
        ([[[0]], [[-1]]], "sample -1"),
    ],
)
def test_a_layout_with_a_fault_is_refused(layout, message):
    with pytest.raises(InvalidPlan, match=message):
        slime.slime_schedule(layout)


@given(placements())
def test_expert_maps_are_inverse_to_each_other_and_name_every_expert_once(drawn):
    placement, ranks = drawn
    document = expert_maps.eplb_document(np.array(placement), ranks)
    slots, experts = document["physical_to_logical_map"], document["logical_to_physical_map"]
    held = len(placement[0]) // ranks
    for row, slot_of, given_ranks in zip(slots, experts, placement, strict=True):
        assert sorted(row) == list(range(len(row)))
        assert [slot_of[e] for e in row] == [[s] for s in range(len(row))]
        assert [slot_of[e][0] // held for e in range(len(row))] == list(given_ranks)
        assert all(row[p * held : (p + 1) * held] == sorted(row[p * held : (p + 1) * held]) for p in range(ranks))
    assert expert_maps.from_physical_to_logical_map(slots, ranks) == [list(row) for row in placement]
    assert expert_maps.ascend_table(placement, ranks) == [[row[p * held : (p + 1) * held] for p in range(ranks)] for row in slots]
    assert plain(document)


def test_dense_layers_of_the_serving_model_keep_the_identity():
    slots = expert_maps.physical_to_logical_map(PLACEMENT, 2)
    spread = expert_maps.for_model_layers(slots, [1, 2], 4)
    assert spread == [[0, 1, 2, 3], [1, 2, 0, 3], [0, 3, 1, 2], [0, 1, 2, 3]]
    with pytest.raises(InvalidInstance, match="layer 2 of a model with 2"):
        expert_maps.for_model_layers(slots, [1, 2], 2)
    with pytest.raises(InvalidInstance, match="1 entries for 2 layers"):
        expert_maps.for_model_layers(slots, [1], 4)


@pytest.mark.parametrize(
    ("slots", "message"),
    [([[0, 1, 1, 3]], "expert 1 twice"), ([[0, 1, 2, 4]], "expert 4 out of range"), ([[0, 1, 2]], "ranks do not divide")],
)
def test_a_map_that_is_no_permutation_is_refused(slots, message):
    with pytest.raises(InvalidInstance, match=message):
        expert_maps.from_physical_to_logical_map(slots, 2)


def test_a_placement_that_overfills_a_rank_is_refused():
    with pytest.raises(InvalidInstance, match=r"placement\[0\] puts 3 experts on rank 0"):
        expert_maps.expert_to_ep_rank([[0, 0, 0, 1]], 2)
    with pytest.raises(InvalidInstance, match="do not divide"):
        expert_maps.expert_to_ep_rank([[0, 1, 2]], 2)


def test_trtllm_text_names_layers_by_their_number_in_the_model():
    text = trtllm.trtllm_yaml(PLACEMENT, 2, moe_layers=[1, 2])
    assert text == ("num_slots: 4\ninitial_global_assignments:\n  1: [1, 2, 0, 3]\n  2: [0, 3, 1, 2]\nlayer_updates_per_iter: 0\n")


def test_trtllm_text_reads_back_with_a_yaml_reader():
    yaml = pytest.importorskip("yaml")
    document = yaml.safe_load(trtllm.trtllm_yaml(PLACEMENT, 2, moe_layers=[3, 5]))
    assert document == trtllm.trtllm_assignments(PLACEMENT, 2, [3, 5]) | {"layer_updates_per_iter": 0}


def test_trtllm_layers_need_a_number_each():
    with pytest.raises(InvalidInstance, match="1 numbers for 2 layers"):
        trtllm.trtllm_assignments(PLACEMENT, 2, [1, 1])


def test_offsets_in_a_packed_row_are_sums_of_aligned_lengths():
    assert order.aligned_offsets([5, 3], 4) == [0, 8, 12]  # 5 -> 8, 3 -> 4
    assert order.aligned_offsets([5, 3]) == [0, 5, 8]
    with pytest.raises(InvalidInstance, match=r"lengths\[1\] = 0"):
        order.aligned_offsets([5, 0], 4)


EXPORTS = {
    "physical_to_logical_map": lambda x: expert_maps.physical_to_logical_map(x["placement"], x["ep"]),
    "logical_to_physical_map": lambda x: expert_maps.logical_to_physical_map(x["placement"], x["ep"]),
    "logical_replica_count": lambda x: expert_maps.logical_replica_count(x["placement"], x["ep"]),
    "expert_to_ep_rank": lambda x: expert_maps.expert_to_ep_rank(x["placement"], x["ep"]),
    "from_physical_to_logical_map": lambda x: expert_maps.from_physical_to_logical_map(x["map"], x["ep"]),
    "trtllm-yaml": lambda x: trtllm.trtllm_assignments(x["placement"], x["ep"], x["moe_layers"]),
    "moves": lambda x: [m.to_list() for m in list_moves(x["current_placement"], x["placement"], 1 + max(map(max, x["placement"])))],
    "permutation": lambda x: order.permutation(x["layout"]),
    "slime-schedule": lambda x: slime.slime_schedule(x["layout"]),
    "nemo-bins": lambda x: nemo_rl.nemo_bins(x["layout"]),
    "megatron-groups": lambda x: megatron.megatron_groups(x["layout"], x["cp"]),
    "aligned-offsets": lambda x: order.aligned_offsets(x["lengths"], x["multiple"]),
}
TOPOLOGY_FACTS = {
    "dp": lambda t: t.dp,
    "edp": lambda t: t.edp,
    "slots_per_shard": lambda t: t.slots_per_shard,
    "parts_per_slot": lambda t: t.parts_per_slot,
    "slots_of_shard": lambda t: t.slots_of_shard,
    "edp_of_slot": lambda t: t.edp_of_slot,
}


def cases(kind):
    lines = FILE.read_text().splitlines() if FILE.exists() else []
    found = [case for case in map(json.loads, lines) if case["kind"] == kind]
    return [pytest.param(case, id=case["id"]) for case in found] or [
        pytest.param(None, marks=pytest.mark.skip("no cases beside the checkout"))
    ]


@pytest.mark.parametrize("case", cases("export"))
def test_an_export_case_has_the_outcome_that_it_names(case):
    write, expect = EXPORTS[case["input"]["to"]], case["expect"]
    if expect["status"] == "invalid":
        with pytest.raises(RoutePackError):
            write(case["input"])
        return
    result = write(case["input"])
    assert plain(result)
    assert json.loads(json.dumps(result)) == expect["result"]


@pytest.mark.parametrize("case", cases("topology"))
def test_a_topology_case_folds_as_it_says(case):
    sizes, expect = dict(case["input"]), case["expect"]
    if expect["status"] == "invalid":
        with pytest.raises(InvalidInstance) as caught:
            Topology.from_trainer(sizes.pop("world"), **sizes)
        ways = expect.get("message_contains_any", [expect.get("message_contains", [])])
        assert any(all(text in str(caught.value) for text in way) for way in ways)
        return
    topology = Topology.from_trainer(sizes.pop("world"), **sizes)
    assert all(TOPOLOGY_FACTS[name](topology) == value for name, value in expect.items() if name != "status")
