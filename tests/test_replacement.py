from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routepack.cost import cost
from routepack.errors import InvalidInstance
from routepack.heuristics.placement import lpt
from routepack.heuristics.replacement import replace_for_rows
from routepack.heuristics.row_demand import row_shard_demand
from routepack.instance import Instance, placement_fault
from routepack.plan import Layout, Placement, Plan
from routepack.topology import Topology
from routepack.window import Window


def layer_costs(demand, weights, placement, num_ranks):
    """sum_h weights[h] * max_p W[h, p] of each layer."""
    return (weights[:, None] * Placement(placement).project(demand, num_ranks).max(axis=2)).sum(axis=0)


def best_layer_cost(demand, weights, num_ranks):
    """Optimum of one layer, demand (H, E), by enumeration."""
    blocks = np.arange(demand.shape[1]) * num_ranks // demand.shape[1]
    every = {tuple(x) for x in permutations(blocks.tolist())}
    return min(layer_costs(demand[:, None], weights, np.array([x]), num_ranks)[0] for x in every)


@st.composite
def rows(draw):
    num_ranks, experts = draw(st.sampled_from([(1, 3), (2, 2), (2, 4), (2, 6), (3, 6), (4, 8)]))
    shards, layers = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    demand = rng.integers(0, draw(st.sampled_from([2, 50, 10**6])), (shards, layers, experts))
    weights = rng.integers(0, 4, shards) * draw(st.sampled_from([1.0, 0.3, 1e-9]))
    placement = np.stack([rng.permutation(np.arange(experts) * num_ranks // experts) for _ in range(layers)])
    return demand, weights, placement, num_ranks


@settings(max_examples=300)
@given(rows(), st.sampled_from([0, 3]))
def test_the_placement_stays_valid_and_no_layer_costs_more(case, kicks):
    demand, weights, placement, num_ranks = case
    before = placement.copy()
    replaced = replace_for_rows(demand, weights, placement, num_ranks, kicks=kicks)
    assert placement_fault("replaced", replaced, *placement.shape, num_ranks) is None
    assert (layer_costs(demand, weights, replaced, num_ranks) <= layer_costs(demand, weights, placement, num_ranks)).all()
    assert np.array_equal(placement, before)


def test_no_swap_between_two_ranks_is_left_that_gains():
    rng = np.random.default_rng(0)
    for _ in range(20):
        demand, weights = rng.integers(0, 100, (5, 1, 8)), np.ones(5)
        replaced = replace_for_rows(demand, weights, np.array([[0, 1] * 4]), 2)
        for a, b in combinations(range(8), 2):
            swapped = replaced.copy()
            swapped[:, [a, b]] = swapped[:, [b, a]]
            assert layer_costs(demand, weights, swapped, 2)[0] >= layer_costs(demand, weights, replaced, 2)[0]


def test_tiny_layers_reach_the_optimum_with_kicks():
    rng = np.random.default_rng(0)
    for _ in range(20):
        demand, weights = rng.integers(0, 100, (3, 1, 6)), rng.integers(1, 4, 3).astype(float)
        replaced = replace_for_rows(demand, weights, np.array([[0, 0, 0, 1, 1, 1]]), 2, kicks=50)
        assert layer_costs(demand, weights, replaced, 2)[0] == best_layer_cost(demand[:, 0], weights, 2)


def test_rows_decide_where_the_sum_does_not():
    # Every expert has 10 in sum, so any placement balances that. In each row-shard a pair of experts costs 20 together and 10 apart.
    demand = np.array([[[10, 10, 0, 0]], [[0, 0, 10, 10]]])
    replaced = replace_for_rows(demand, np.ones(2), np.array([[0, 0, 1, 1]]), 2)
    assert layer_costs(demand, np.ones(2), replaced, 2).tolist() == [20]


def test_a_heavier_row_shard_wins():
    # Each row-shard uses two of the experts 0, 1, 2, and two of these must share a rank: 18 there and 9 elsewhere, so not in the heavy one.
    demand = np.array([[[9, 9, 0, 0]], [[9, 0, 9, 0]], [[0, 9, 9, 0]]])
    for heavy in range(3):
        weights = np.ones(3)
        weights[heavy] = 5
        replaced = replace_for_rows(demand, weights, np.array([[0, 0, 1, 1]]), 2, kicks=5)
        assert layer_costs(demand, weights, replaced, 2).tolist() == [9 * 5 + 9 + 18]


def test_row_shards_without_weight_do_not_count():
    demand = np.array([[[10, 10, 0, 0]], [[99, 0, 99, 0]]])
    current = np.array([[0, 1, 0, 1]])
    assert np.array_equal(replace_for_rows(demand, np.array([1.0, 0.0]), current, 2), current)
    assert np.array_equal(replace_for_rows(demand, np.zeros(2), current, 2), current)


@pytest.mark.parametrize("kicks", [0, 4])
def test_threads_give_the_same_bytes(kicks):
    rng = np.random.default_rng(1)
    demand, weights = rng.integers(0, 300, (9, 7, 32)), rng.random(9)
    start = lpt(demand.sum(axis=0), 8)
    runs = [replace_for_rows(demand, weights, start, 8, threads=threads, kicks=kicks) for threads in (1, 1, 2, 5, 16)]
    assert all(np.array_equal(run, runs[0]) for run in runs)


@given(rows(), st.integers(0, 2**32 - 1))
def test_expert_costs_equal_those_of_the_kernel(case, seed):
    _, _, placement, num_ranks = case
    members = np.random.default_rng(seed).permutation(np.concatenate([np.arange(2), np.zeros(4, dtype=np.int64)]))  # both used
    samples = np.random.default_rng(seed).integers(0, 50, (6, *placement.shape))
    shard_demand = row_shard_demand(samples.astype(np.int32), members, 2)
    replaced = replace_for_rows(shard_demand, np.ones(2), placement, num_ranks)
    window = Window(np.ones(6, dtype=np.int64), samples)
    layout = Layout.from_lists([[np.flatnonzero(members == h).tolist()] for h in range(2)])
    instance = Instance(window, Topology(2, num_ranks, 2), token_cap=10)
    counted = cost(instance, Plan(Placement(replaced), layout)).expert.sum()
    assert counted == layer_costs(shard_demand, np.ones(2), replaced, num_ranks).sum()


def test_row_shard_demand_adds_samples_and_leaves_empty_row_shards_at_zero():
    demand = np.array([[[1, 2]], [[3, 4]], [[5, 6]]], dtype=np.int32)
    assert row_shard_demand(demand, np.array([2, 0, 2]), 3).tolist() == [[[3, 4]], [[0, 0]], [[6, 8]]]


@pytest.mark.parametrize(
    ("weights", "placement", "words"),
    [
        (np.ones(3), [[0, 1]], "weights has shape (3,)"),
        (np.array([1.0, -1.0]), [[0, 1]], "2 finite weights"),
        (np.array([1.0, np.nan]), [[0, 1]], "2 finite weights"),
        (np.ones(2), [[0, 0]], "2 experts on rank 0"),
    ],
)
def test_weights_and_placements_that_do_not_fit_are_refused(weights, placement, words):
    with pytest.raises(InvalidInstance) as error:
        replace_for_rows(np.ones((2, 1, 2), dtype=np.int64), weights, np.array(placement), 2)
    assert words in str(error.value)
