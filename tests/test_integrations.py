"""The functions that stand in for those of slime and verl: their shapes, their promises, and better plans."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routepack import Infeasible, InvalidInstance, Topology
from routepack.cost import cost
from routepack.instance import Instance, Options
from routepack.integrations.slime import build_dp_schedule
from routepack.integrations.verl import balance_batch, plan_batch, rearrange_micro_batches
from routepack.plan import Layout, Placement, Plan
from routepack.window import Window

QUICK = {"attempts": 50, "threads": 1, "backend": "numpy"}


def arguments(**changes):
    return SimpleNamespace(**({"use_dynamic_batch_size": True, "max_tokens_per_gpu": 10, "balance_data": True} | changes))


def parallel(dp=2, cp=1, vpp=1, group=1):
    return {"dp_size": dp, "cp_size": cp, "vpp_size": vpp, "microbatch_group_size_per_vp_stage": group}


def slime(lengths, config, *, args=None, size=None, rollouts=None, **options):
    """Call the drop-in; one rollout a sample and one step unless said otherwise."""
    options = QUICK | options
    size = size or len(lengths)
    rollouts = range(len(lengths)) if rollouts is None else rollouts
    return build_dp_schedule(args or arguments(), config, lengths, global_batch_size=size, rollout_indices=rollouts, **options)


def check_schedule(schedule, lengths, cap, dp, multiple=1):
    """What slime promises of the four lists; returns the samples that were kept."""
    partitions, rows, counts, sizes = schedule
    assert len(partitions) == len(rows) == dp
    assert len(counts) == len(sizes)
    for own, batches in zip(partitions, rows, strict=True):
        assert [k for batch in batches for k in batch] == list(range(len(own)))  # tiled once, in order
        assert len(batches) == sum(counts)  # the same number on every rank
        for batch in batches:
            assert len(batch) == 1 or sum(lengths[own[k]] for k in batch) <= cap  # an oversize sample lies alone
    assert all(count % multiple == 0 for count in counts)
    return sorted(i for own in partitions for i in own)


@settings(max_examples=15)
@given(st.lists(st.integers(1, 12), min_size=4, max_size=24), st.integers(1, 2), st.integers(2, 3))
def test_slime_schedules_keep_every_promise(lengths, dp, steps):
    size = max(1, len(lengths) // steps)
    if size < 2 * dp:
        return
    try:
        schedule = slime(lengths, parallel(dp), size=size)
    except Infeasible:  # a step with fewer samples than micro-batches
        return
    assert check_schedule(schedule, lengths, 10, dp) == list(range(size * (len(lengths) // size)))  # the rest fills no step
    assert schedule[3] == [size] * (len(lengths) // size)


def test_first_fit_in_order_of_arrival_takes_a_micro_batch_more():
    # frameworks of this kind need 3 for [2, 6, 4, 7] under 10; 4 + 6 and 2 + 7 are 2
    schedule = slime([2, 6, 4, 7], parallel(1))
    assert schedule[2] == [2]


def test_samples_of_one_rollout_stay_in_one_step():
    rollouts = [7, 8, 7, 9, 8, 9, 3, 3]  # in order of appearance 7, 8 | 9, 3
    schedule = slime([3] * 8, parallel(2), size=2, rollouts=rollouts)
    slots = list(zip(schedule[0], schedule[1], strict=True))
    firsts = [own[k] for own, rows in slots for row in rows[: schedule[2][0]] for k in row]
    assert sorted(firsts) == [0, 1, 2, 4]
    assert schedule[3] == [2, 2]


def test_virtual_pipelines_get_multiples_and_context_ranks_a_larger_cap():
    schedule = slime([9] * 5, parallel(1, cp=2, vpp=2, group=2))
    # cap 20: two of 9 fit, so three are needed and four is the next multiple of two
    assert schedule[2] == [4]
    check_schedule(schedule, [9] * 5, 20, 1, multiple=2)


def test_demand_counts_and_experts_stay_where_they_are():
    rng = np.random.default_rng(0)
    lengths = rng.integers(20, 100, 24)
    demand = np.array([rng.multinomial(2 * t, rng.dirichlet(np.full(8, 0.3)), 3) for t in lengths], dtype=np.int32)
    args = arguments(max_tokens_per_gpu=400, tensor_model_parallel_size=1, expert_model_parallel_size=2)
    blind = slime(lengths, parallel(4), args=args)
    aware = slime(lengths, parallel(4), args=args, demand=demand, attempts=2000)
    instance = Instance(Window(lengths, demand), Topology(4, 2, 2), 400, options=Options(oversize="own_row"))
    contiguous = Placement(np.tile(np.arange(8) // 4, (3, 1)))

    def score(schedule):
        slots = zip(schedule[0], schedule[1], strict=True)
        layout = Layout.from_lists([[[own[k] for k in row] for row in rows] for own, rows in slots])
        return cost(instance, Plan(contiguous, layout)).score

    assert aware[2] == blind[2]
    assert score(aware) < score(blind)  # of the same rows, under the experts as they lie


def test_equal_calls_under_an_attempt_cap_give_equal_schedules_of_plain_integers():
    calls = [slime(np.arange(1, 9), parallel(2), size=4, rollouts=np.arange(8)) for _ in range(2)]
    assert calls[0] == calls[1]
    assert all(type(i) is int for own in calls[0][0] for i in own)
    assert all(type(k) is int for rows in calls[0][1] for row in rows for k in row)


@pytest.mark.parametrize(
    ("changes", "options", "text"),
    [
        ({"use_dynamic_batch_size": False}, {}, "use_dynamic_batch_size is off"),
        ({"global_batch_tokens": 100}, {}, "global_batch_tokens is set"),
        ({"multimodal_aware_packing": "separate"}, {"sample_is_multimodal": [True, False]}, "multimodal_aware_packing"),
        ({}, {"global_batch_size": 3}, "fewer than global_batch_size = 3"),
        ({}, {"rollout_indices": [0]}, "1 entries for 2 samples"),
        ({}, {"placement": [[0]]}, "placement is given without demand"),
        ({}, {"demand": np.ones((1, 1, 1))}, "demand has shape"),
    ],
)
def test_what_is_not_planned_is_refused_in_words(changes, options, text):
    options = {"global_batch_size": 2, "rollout_indices": [0, 1]} | options
    with pytest.raises(InvalidInstance, match=text):
        build_dp_schedule(arguments(**changes), parallel(1), [3, 4], **options)


def test_too_few_samples_are_infeasible_with_a_remedy():
    with pytest.raises(Infeasible, match="only 5 samples exist"):
        build_dp_schedule(arguments(), parallel(2), [9] * 5, global_batch_size=5, rollout_indices=range(5), **QUICK)


# verl


class Batch:
    """As much of a TensorDict as the functions use, on NumPy arrays."""

    def __init__(self, fields):
        self.fields = fields

    def keys(self):
        return self.fields.keys()

    def __getitem__(self, key):
        return self.fields[key] if isinstance(key, str) else Batch({name: values[key] for name, values in self.fields.items()})

    def __setitem__(self, key, values):
        self.fields[key] = values


class Mask(np.ndarray):
    """A mask that makes index tensors as torch does."""

    def new_tensor(self, values):
        return np.asarray(values).view(Mask)

    def long(self):
        return np.asarray(self, dtype=np.int64).view(Mask)


class Protocol:
    """As much of a DataProto as the functions use."""

    def __init__(self, fields):
        self.batch = Batch(fields)

    def reorder(self, index):
        self.batch = self.batch[np.asarray(index)]


def mask_of(lengths):
    return (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64).view(Mask)


def trainer(dp, cap, mini=None):
    actor = {"ppo_max_token_len_per_gpu": cap, "ppo_mini_batch_size": mini}
    config = SimpleNamespace(actor_rollout_ref=SimpleNamespace(actor=actor))
    return SimpleNamespace(config=config, actor_rollout_wg=None, _get_dp_size=lambda group, role: dp)


@settings(max_examples=12)
@given(st.integers(1, 3), st.integers(1, 2), st.integers(2, 5), st.randoms(use_true_random=False))
def test_verl_ranks_get_equal_shares_of_each_mini_batch_and_rows_within_the_cap(dp, minis, share, random):
    lengths = [random.randint(1, 10) for _ in range(dp * minis * share)]
    try:
        order, rows = plan_batch(lengths, Topology(dp, 1, dp), 20, mini_batch_size=dp * share, **QUICK)
    except Infeasible:
        return
    assert sorted(order) == list(range(len(lengths)))
    parts = [range(d * minis * share, (d + 1) * minis * share) for d in range(dp)]
    for part in parts:
        assert [order[k] // (dp * share) for k in part] == [m for m in range(minis) for _ in range(share)]  # mini-batch by mini-batch
        for row in {rows[k] for k in part}:
            assert sum(lengths[order[k]] for k in part if rows[k] == row) <= 20
    assert len({max(rows[k] for k in part) for part in parts}) == 1  # the same number on every rank


def test_verl_batches_carry_their_micro_batches_to_the_ranks():
    lengths = [9, 1, 8, 2, 7, 3, 6, 4]
    batch, metrics = Protocol({"attention_mask": mask_of(lengths), "id": np.arange(8)}), {}
    assert balance_batch(trainer(2, 10), batch, metrics, **QUICK) is None
    assert metrics["global_seqlen/balanced_max"] == metrics["global_seqlen/balanced_min"] == 20  # two pairs of 10 each
    for part in (batch.batch[np.arange(4)], batch.batch[np.arange(4, 8)]):
        micro, places = rearrange_micro_batches(part, 10)
        assert [int(m["attention_mask"].sum()) for m in micro] == [10, 10]
        assert sorted(k for own in places for k in own) == [0, 1, 2, 3]
        assert [m["id"].tolist() for m in micro] == [part["id"][own].tolist() for own in places]


def test_keep_minibatch_plans_each_mini_batch_by_itself():
    lengths = [9, 1, 8, 2, 7, 3, 6, 4]
    batch = Protocol({"attention_mask": mask_of(lengths), "id": np.arange(8)})
    balance_batch(trainer(2, 10, mini=4), batch, {}, keep_minibatch=True, **QUICK)
    assert sorted(batch.batch["id"][[0, 1, 4, 5]].tolist()) == [0, 1, 2, 3]  # the first halves of both ranks are the first mini-batch


@settings(max_examples=12)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 3))
def test_micro_batches_are_planned_on_the_spot_where_no_plan_came_along(lengths, multiple):
    batch = Batch({"attention_mask": mask_of(lengths)})
    try:
        micro, places = rearrange_micro_batches(batch, 10, num_batches_divided_by=multiple)
    except Infeasible:
        assert len(lengths) < multiple * len(lengths)
        return
    assert sorted(k for own in places for k in own) == list(range(len(lengths)))
    assert len(places) % multiple == 0
    assert all(0 < int(m["attention_mask"].sum()) <= 10 for m in micro)


def test_a_plan_for_a_larger_cap_is_not_taken():
    batch = Batch({"attention_mask": mask_of([5, 5, 5, 5]), "routepack_row": np.array([0, 0, 0, 0])})
    assert len(rearrange_micro_batches(batch, 10)[1]) == 2  # 20 tokens in a row of 10 would not do
    assert len(rearrange_micro_batches(batch, 20)[1]) == 1
    assert len(rearrange_micro_batches(batch, 20, min_num_micro_batch=3)[1]) == 3


def test_neighbours_share_a_micro_batch_where_they_must():
    batch = Batch({"attention_mask": mask_of([1, 9, 2, 8, 3, 7])})
    places = rearrange_micro_batches(batch, 10, force_group_size=2)[1]
    assert sorted(map(sorted, places)) == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(InvalidInstance, match="force_group_size = 4"):
        rearrange_micro_batches(batch, 10, force_group_size=4)


def test_a_sample_over_the_cap_is_infeasible():
    with pytest.raises(Infeasible, match="exceeds token_cap = 10"):
        rearrange_micro_batches(Batch({"attention_mask": mask_of([11, 1])}), 10)


def test_mini_batches_must_divide_the_batch():
    with pytest.raises(InvalidInstance, match="mini_batch_size = 3"):
        plan_batch([1, 2, 3, 4], Topology(1, 1, 1), 10, mini_batch_size=3)


def test_the_python_of_the_page_on_frameworks_runs_from_top_to_bottom():
    page = Path(__file__).resolve().parents[1] / "docs" / "frameworks.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    exec(compile("\n".join(blocks), str(page), "exec"), {"__name__": "page"})
