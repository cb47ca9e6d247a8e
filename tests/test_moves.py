"""Moves between placements: the list, the bytes, and rounds that are as few as can be."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routepack import InvalidInstance
from routepack.instances.moves import Move, list_moves, spare_buffers, traffic, transfer_rounds


@st.composite
def placement_pairs(draw):
    ranks, held = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    layers, rng = draw(st.integers(1, 3)), np.random.default_rng(draw(st.integers(0, 999)))
    pair = [[rng.permutation(np.repeat(np.arange(ranks), held)) for _ in range(layers)] for _ in range(2)]
    return np.array(pair[0]), np.array(pair[1]), ranks


def test_a_swap_is_two_moves_with_ranks_and_slots():
    # ranks (e0 e1 | e2 e3) -> (e0 e2 | e1 e3): expert 1 leaves slot 1 for slot 2, the first of rank 1; expert 2 the other way
    assert list_moves([[0, 0, 1, 1]], [[0, 1, 0, 1]], 2) == [Move(0, 1, 0, 1, 1, 2), Move(0, 2, 1, 0, 2, 1)]


def test_an_unchanged_placement_has_no_moves_no_bytes_no_rounds():
    moves = list_moves([[0, 1]], [[0, 1]], 2)
    assert moves == []
    assert traffic(moves, 10).all_bytes == 0
    assert transfer_rounds(moves) == []
    assert spare_buffers([]) == 0


def test_bytes_count_weights_on_every_shard_and_the_sharded_state_once():
    moves = list_moves([[0, 0, 1, 1]], [[0, 1, 0, 1]], 2)
    alone, twice = traffic(moves, 100), traffic(moves, 100, shards=2)
    assert (alone.weight_bytes, alone.all_bytes) == (400, 2800)  # 2 experts * 100 * 2 bytes; * (2 + 12)
    assert (twice.weight_bytes, twice.all_bytes) == (800, 3200)  # both shards move weights, 2400 bytes of state move once


def test_a_fresh_placement_of_one_layer_of_qwen3_30b_moves_a_gigabyte():
    # 112 of 128 experts leave; 3 * 2048 * 768 parameters in bf16
    moves = [Move(0, e, 0, 1, 0, 0) for e in range(112)]
    assert traffic(moves, 3 * 2048 * 768).weight_bytes == pytest.approx(1.06e9, rel=0.01)


def test_placements_of_two_models_are_refused():
    with pytest.raises(InvalidInstance, match="shape"):
        list_moves([[0, 1]], [[0, 1], [0, 1]], 2)


@given(placement_pairs())
def test_moves_applied_to_the_current_placement_give_the_new_one(drawn):
    current, placement, ranks = drawn
    after = current.copy()
    for move in list_moves(current, placement, ranks):
        assert after[move.layer, move.expert] == move.source
        after[move.layer, move.expert] = move.target
    assert (after == placement).all()


@settings(max_examples=200)
@given(placement_pairs())
def test_rounds_are_as_many_as_the_busiest_rank_has_moves(drawn):
    current, placement, ranks = drawn
    moves = list_moves(current, placement, ranks)
    rounds = transfer_rounds(moves)
    assert sorted(move for part in rounds for move in part) == moves
    for part in rounds:
        assert max(Counter(move.source for move in part).values()) == 1
        assert max(Counter(move.target for move in part).values()) == 1
    sent, received = Counter(move.source for move in moves), Counter(move.target for move in moves)
    assert len(rounds) == max([*sent.values(), *received.values()], default=0)  # fewer cannot be: one expert a round


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=40))
def test_rounds_take_any_multigraph(pairs):
    moves = [Move(0, e, a, b, 0, 0) for e, (a, b) in enumerate(pairs)]
    rounds = transfer_rounds(moves)
    degrees = [*Counter(a for a, _ in pairs).values(), *Counter(b for _, b in pairs).values()]
    assert len(rounds) == max(degrees, default=0)
    assert all(len({m.source for m in part}) == len({m.target for m in part}) == len(part) for part in rounds)


def test_a_swap_between_two_ranks_needs_one_round_and_one_spare_buffer():
    rounds = transfer_rounds(list_moves([[0, 1]], [[1, 0]], 2))
    assert len(rounds) == 1
    assert spare_buffers(rounds) == 1  # each receives before its own slot is free


def test_the_order_of_the_list_does_not_matter():
    moves = list_moves(np.repeat([[0, 1, 2, 3]], 3, axis=0), [[3, 2, 1, 0], [1, 0, 3, 2], [1, 2, 3, 0]], 4)
    assert transfer_rounds(moves[::-1]) == transfer_rounds(moves)
