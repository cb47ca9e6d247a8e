"""Slots, shards and the refusal of sizes that straddle, against a count over ranks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routepack import InvalidInstance, Topology

SMALL = st.sampled_from([1, 2, 3, 4, 6, 8])


@given(tp=SMALL, cp=SMALL, pp=SMALL, ep=SMALL, etp=SMALL, times=st.integers(1, 4))
def test_trainer_sizes_fold_as_counted_over_ranks(tp, cp, pp, ep, etp, times):
    world = pp * tp * cp * etp * ep * times
    ranks = range(world // pp)
    slots_of_shard = {}
    for i in ranks:
        slots_of_shard.setdefault(i // (etp * ep), set()).add(i // (tp * cp))
    dp = len({i // (tp * cp) for i in ranks})
    edp = len(slots_of_shard)
    if dp % edp and edp % dp:
        with pytest.raises(InvalidInstance, match=rf"dp = {dp}, edp = {edp}.*choose sizes"):
            Topology.from_trainer(world, tp=tp, cp=cp, pp=pp, ep=ep, etp=etp)
        return
    topology = Topology.from_trainer(world, tp=tp, cp=cp, pp=pp, ep=ep, etp=etp)
    assert (topology.dp, topology.ep, topology.edp) == (dp, ep, edp)
    assert topology.slots_of_shard == [sorted(slots_of_shard[g]) for g in range(edp)]
    assert topology.num_shards * topology.slots_per_shard == dp
    assert topology.edp_of_slot == [[g for g in range(edp) if d in slots_of_shard[g]] for d in range(dp)]


def test_a_shard_holds_several_slots_one_or_a_part_of_one():
    sizes = [(t.num_shards, t.slots_per_shard, t.parts_per_slot) for t in (Topology(8, 4, 2), Topology(4, 4, 4), Topology(2, 4, 6))]
    assert sizes == [(2, 4, 1), (4, 1, 1), (2, 1, 3)]


def test_etp_defaults_to_tp():
    assert Topology.from_trainer(16, tp=2, ep=4) == Topology(8, 4, 2)  # shards of 2 * 4 ranks


def test_edp_defaults_to_dp_over_ep_and_must_be_given_otherwise():
    assert Topology.of(8, 4) == Topology(8, 4, 2)
    with pytest.raises(InvalidInstance, match=r"edp is missing and ep = 4 does not divide dp = 6; give edp"):
        Topology.of(6, 4)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 1, 1), "topology.dp = 0 is below 1"),
        ((4, -1, 1), "topology.ep = -1 is below 1"),
        ((4, 1, 2.0), "topology.edp = 2.0 is not an integer"),
        ((True, 1, 1), "topology.dp = True is not an integer"),
        ((1 << 30, 1, 1), "exceeds 1048576"),
        ((3, 1, 2), "dp = 3 slots and edp = 2 shards straddle"),
    ],
)
def test_impossible_sizes_are_refused_by_name(sizes, message):
    with pytest.raises(InvalidInstance, match=message):
        Topology(*sizes)


def test_a_world_that_a_slot_does_not_divide_is_refused_with_both_numbers():
    with pytest.raises(InvalidInstance, match=r"world = 10 is not a multiple of pp\*tp\*cp = 4"):
        Topology.from_trainer(10, tp=4, ep=2, etp=1)
