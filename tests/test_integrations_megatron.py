"""Megatron's own rank groups, sample routing and MoE layer take what comes out here; needs megatron-core and torch."""

import json
import random
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from routepack import InvalidInstance, Topology
from routepack.instances.writers.expert_maps import expert_of_slot
from routepack.instances.writers.megatron import megatron_groups
from routepack.materialise import apply_placement, restore_logical

pytestmark = pytest.mark.slow

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases" / "cases.jsonl"
ORDER = "tp-cp-ep-dp-pp"
LAYOUT = [[[5, 0], [3]], [[1, 4], [2]], [[6], [7]]]  # three slots of two rows
CP = 2
GROUPS = megatron_groups(LAYOUT, CP)  # [row][dp * cp rank]


@pytest.fixture(scope="module")
def parallel():
    """The module of Megatron that makes rank groups."""
    pytest.importorskip("megatron.core")
    from megatron.core import parallel_state

    return parallel_state


@pytest.fixture
def torch(parallel, monkeypatch):
    """Torch, whose current device is the CPU wherever Megatron asks for a GPU."""
    import torch
    from megatron.core.transformer.moe import moe_utils

    monkeypatch.setattr(torch.cuda, "current_device", lambda: torch.device("cpu"))
    monkeypatch.setattr(moe_utils, "te_general_gemm", None, raising=False)  # 0.16.1 reads the name also without Transformer Engine
    return torch


def places(groups):
    """Number of a rank's group, and the rank's place in its group."""
    return {rank: (k, i) for k, group in enumerate(groups) for i, rank in enumerate(group)}


def check_against_megatron(parallel, world, pp=1, tp=1, cp=1, ep=1, etp=None):
    """Hold the fold of sizes against the groups of ranks; return whether the sizes are accepted."""
    sizes = {"pp": pp, "tp": tp, "cp": cp, "ep": ep, "etp": etp}
    own = tp if etp is None else etp
    if world % (pp * tp * cp) or world % (pp * own * ep):
        with pytest.raises(InvalidInstance, match="is not a multiple of"):
            Topology.from_trainer(world, **sizes)
        return False
    dense = parallel.RankGenerator(tp=tp, ep=1, dp=world // (pp * tp * cp), pp=pp, cp=cp, order=ORDER)
    expert = parallel.RankGenerator(tp=own, ep=ep, dp=world // (pp * own * ep), pp=pp, cp=1, order=ORDER)
    assert dense.get_ranks("pp") == expert.get_ranks("pp")
    slot, shard = places(dense.get_ranks("dp")), places(expert.get_ranks("dp"))
    stage, member, grid = places(dense.get_ranks("pp")), places(expert.get_ranks("ep")), places(dense.get_ranks("dp-cp"))
    ranks_of = [{} for _ in range(2 * pp)]  # for each stage: ranks of each slot, ranks of each shard
    for rank in range(world):
        own_stage = stage[rank][1]
        ranks_of[2 * own_stage].setdefault(slot[rank][1], set()).add(rank)
        ranks_of[2 * own_stage + 1].setdefault(shard[rank][1], set()).add(rank)
        assert grid[rank][1] // cp == slot[rank][1]  # place of a slot's list in sample_id_groups
    nested = all(not a & b or a <= b or b <= a for a in ranks_of[0].values() for b in ranks_of[1].values())
    if not nested:
        with pytest.raises(InvalidInstance, match=r"straddle.*choose sizes"):
            Topology.from_trainer(world, **sizes)
        return False
    topology = Topology.from_trainer(world, **sizes)
    for slots, shards in zip(ranks_of[::2], ranks_of[1::2], strict=True):
        assert (topology.dp, topology.edp) == (len(slots), len(shards))
        assert topology.slots_of_shard == [sorted({slot[r][1] for r in shards[g]}) for g in range(len(shards))]
        assert topology.edp_of_slot == [sorted({shard[r][1] for r in slots[d]}) for d in range(len(slots))]
        assert all({member[r][1] for r in ranks} == set(range(topology.ep)) for ranks in shards.values())
    return True


@pytest.mark.skipif(not CASES.exists(), reason="the shared cases are not here")
def test_the_cases_fold_as_megatrons_rank_groups(parallel):
    cases = [case for case in map(json.loads, CASES.read_text().splitlines()) if case["kind"] == "topology"]
    assert cases
    for case in cases:
        assert check_against_megatron(parallel, **case["input"]) == (case["expect"]["status"] == "ok"), case["id"]


def test_random_sizes_fold_as_megatrons_rank_groups(parallel):
    rng = random.Random(6)
    outcomes = set()
    for _ in range(300):
        tp, cp, pp, ep, etp = (rng.choice([1, 2, 3, 4, 6]) for _ in range(5))
        world = pp * int(np.lcm(tp * cp, etp * ep)) * rng.randint(1, 3)
        outcomes.add(check_against_megatron(parallel, world, pp=pp, tp=tp, cp=cp, ep=ep, etp=etp))
    assert outcomes == {True, False}  # nested and straddling sizes were both drawn


def wrapper_of_rank(schedule, rank, dp, cp):
    """Megatron's loader as one rank sees it: groups hold the ranks that they would hold with tp = 1."""
    loader = object.__new__(schedule.HybridCPDataLoaderWrapper)
    ranks = list(range(rank % cp, dp * cp, cp))
    loader.dp_group = SimpleNamespace(ranks=ranks)
    loader.dp_cp_group = SimpleNamespace(ranks=list(range(dp * cp)), rank=lambda: rank)
    loader.tp_group = SimpleNamespace(size=lambda: 1)
    loader.total_hdp_gpus = dp * cp
    return loader


def test_sample_id_groups_bring_every_sample_to_its_slot(torch, monkeypatch):
    from megatron.core.datasets import data_schedule

    dp, lengths = len(LAYOUT), [4, 1, 3, 2, 5, 1, 2, 6]
    offsets = torch.tensor([0, 3, 6])  # ranks of the DP group loaded samples 0-2, 3-5 and 6-7
    held = [[0, 1, 2], [3, 4, 5], [6, 7]]
    sent = {}

    def exchange(output, input, output_split_sizes, input_split_sizes, group):
        """Note what a rank sends; hand over what the others have sent to it."""
        sent[group.rank()] = input.split(input_split_sizes)
        parts = [sent[source][group.rank()] for source in group.ranks if source in sent]
        if len(parts) == len(group.ranks):
            assert [len(part) for part in parts] == output_split_sizes
            output.copy_(torch.cat(parts))

    monkeypatch.setattr(torch.distributed, "get_process_group_ranks", lambda group: group.ranks)
    monkeypatch.setattr(torch.distributed, "all_to_all_single", exchange)
    for receives in (False, True):  # every rank sends once before any can receive
        for rank in range(dp * CP):
            own = held[rank // CP]
            batch = [{"tokens": torch.full((lengths[i],), i)} for i in own]
            pairs = list(enumerate(lengths))
            loader = wrapper_of_rank(data_schedule, rank, dp, CP)
            got = loader.reroute_samples_to_hdp_ranks(batch, torch.tensor(own), pairs, GROUPS, offsets)
            if receives:
                assert sorted(got) == sorted(i for row in LAYOUT[rank // CP] for i in row)
                assert all(got[i]["tokens"].tolist() == [i] * lengths[i] for i in got)


@pytest.fixture
def layer(torch):
    """A MoE layer of six experts with Megatron's router, dispatcher and experts, in a group of one process."""
    from megatron.core.models.gpt.moe_module_specs import get_moe_module_spec
    from megatron.core.process_groups_config import ProcessGroupCollection
    from megatron.core.transformer.moe.moe_layer import MoELayer
    from megatron.core.transformer.transformer_config import TransformerConfig

    with tempfile.TemporaryDirectory() as folder:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        names = ("tp", "cp", "tp_cp", "tp_dp_cp", "ep", "expt_tp", "tp_ep", "expt_dp")
        groups = ProcessGroupCollection(**dict.fromkeys(names, torch.distributed.group.WORLD))
        config = TransformerConfig(
            num_layers=1,
            hidden_size=8,
            num_attention_heads=2,
            num_moe_experts=6,
            moe_router_topk=2,
            moe_ffn_hidden_size=12,
            add_bias_linear=False,
            use_cpu_initialization=True,
            moe_token_dispatcher_type="allgather",
            moe_router_load_balancing_type="none",
        )
        torch.manual_seed(0)
        submodules = get_moe_module_spec(use_te=False, num_experts=6).submodules
        yield MoELayer(config, submodules, layer_number=1, pg_collection=groups)
        torch.distributed.destroy_process_group()


def step(torch, layer, hidden, route):
    """Output, the routing map that the router gave, and gradients of the router and of each expert."""
    layer.zero_grad()
    probs, routing = type(layer).route(layer, hidden)
    layer.route = lambda *_: route(probs, routing)
    output, _ = layer(hidden)
    output.square().sum().backward()
    experts = [[p.grad.clone() for p in expert.parameters()] for expert in layer.experts.local_experts]
    return output.detach(), routing, layer.router.weight.grad.clone(), experts


def test_a_placement_leaves_the_routing_and_the_step_of_a_moe_layer_as_they_are(torch, layer):
    placement = [[1, 0, 2, 0, 2, 1]]
    hidden = torch.randn(7, 2, 8)
    before = step(torch, layer, hidden, lambda probs, routing: (probs, routing))
    held = [list(expert.parameters()) for expert in layer.experts.local_experts]
    logical = [[p.detach().clone() for p in expert] for expert in held]
    apply_placement([held], placement, 3, axis=None)
    source = expert_of_slot(placement, 3)[0].tolist()
    assert source == [1, 3, 0, 5, 2, 4]  # experts of rank 0, of rank 1, of rank 2
    after = step(torch, layer, hidden, lambda probs, routing: (probs[:, source], routing[:, source]))
    assert torch.equal(after[1], before[1])  # the router chose the same logical experts,
    torch.testing.assert_close(after[0], before[0])  # whose slots computed the same values
    torch.testing.assert_close(after[2], before[2])
    torch.testing.assert_close(after[3], [before[3][e] for e in source])
    restore_logical([held], placement, 3, axis=None)
    assert all(torch.equal(p, q) for own, old in zip(held, logical, strict=True) for p, q in zip(own, old, strict=True))
