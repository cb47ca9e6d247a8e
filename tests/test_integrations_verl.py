"""verl's own functions take what its stand-ins return; needs verl, tensordict and torch."""

import functools
from types import SimpleNamespace

import pytest

from routepack.integrations.verl import balance_batch, rearrange_micro_batches

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def verl():
    """The modules of verl that cut and restore batches."""
    for name in ("torch", "tensordict", "verl"):
        pytest.importorskip(name)
    import torch
    import verl.utils.tensordict_utils as tensors
    from tensordict import TensorDict
    from verl import DataProto
    from verl.utils import seqlen_balancing

    return SimpleNamespace(torch=torch, tensors=tensors, TensorDict=TensorDict, DataProto=DataProto, balancing=seqlen_balancing)


def trainer(dp, cap, mini):
    config = SimpleNamespace(actor_rollout_ref=SimpleNamespace(actor={"ppo_max_token_len_per_gpu": cap, "ppo_mini_batch_size": mini}))
    return SimpleNamespace(config=config, actor_rollout_wg=None, _get_dp_size=lambda group, role: dp)


def test_a_batch_goes_through_reorder_micro_batches_and_restore(verl):
    torch = verl.torch
    torch.manual_seed(0)
    lengths = torch.randint(1, 40, (16,))
    mask = (torch.arange(40) < lengths[:, None]).long()
    batch = verl.DataProto.from_dict({"attention_mask": mask, "input_ids": torch.arange(16)[:, None].repeat(1, 40)})
    metrics = {}
    balance_batch(trainer(2, 120, 8), batch, metrics, keep_minibatch=True, attempts=200, backend="numpy")
    assert metrics["global_seqlen/mean"] * 2 == lengths.sum()
    ids = batch.batch["input_ids"][:, 0]
    assert sorted(ids.tolist()) == list(range(16))
    counts = set()
    for part in batch.batch.split(4):  # two ranks of two mini-batches of four samples
        micro, places = rearrange_micro_batches(part, 120)
        counts.add(len(micro))
        assert max(int(m["attention_mask"].sum()) for m in micro) <= 120
        outputs = torch.cat([m["input_ids"][:, 0] for m in micro])
        assert torch.equal(verl.balancing.restore_dynamic_batch(outputs, places), part["input_ids"][:, 0])
    assert len(counts) == 1


def test_jagged_batches_go_through_the_engines_own_preparation(verl, monkeypatch):
    engine = pytest.importorskip("verl.workers.engine.utils", exc_type=ImportError)
    select = verl.tensors.index_select_tensor_dict
    monkeypatch.setattr(engine, "rearrange_micro_batches", functools.partial(rearrange_micro_batches, select=select))
    torch = verl.torch
    rows = [torch.full((n,), n) for n in (9, 1, 8, 2, 7, 3)]
    batch = verl.TensorDict({"input_ids": torch.nested.as_nested_tensor(rows, layout=torch.jagged)}, batch_size=[6])
    verl.tensors.assign_non_tensor(batch, use_dynamic_bsz=True, max_token_len_per_gpu=10, sp_size=1)
    micro, places = engine.prepare_micro_batches(batch)
    assert len(micro) == 3  # 30 tokens in rows of 10
    assert [m["input_ids"].offsets().diff().tolist() for m in micro] == [[len(rows[k]) for k in own] for own in places]
    lengths = torch.cat([m["input_ids"].offsets().diff() for m in micro])
    assert verl.balancing.restore_dynamic_batch(lengths, places).tolist() == [9, 1, 8, 2, 7, 3]
