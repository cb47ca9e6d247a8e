"""
Score bounds never exceed a score, and their certificates are recomputed, not believed.

Mutations that these tests catch: any bound raised by one tick; a mean weight, cover or token price out of range; a price per unit changed
after the value was claimed; ``half-cap`` without its C/2 condition; the home row-shard counted twice.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_windows import best_by_listing, random_window

from routepack.bounds.capacity import capacity_bound
from routepack.bounds.score import SCORE_BOUNDS, best_bound
from routepack.cost import cost
from routepack.errors import InvalidCertificate
from routepack.layout_problem import LayoutProblem, cells_of_layout, layout_of_cells
from routepack.plan import Placement, Plan
from routepack.row_shard_certificate import MAX_UNITS, RowShardCertificate, subset_costs, subset_sums
from routepack.score_certificate import SCALE, LevelCertificate, ScoreData, aggregation_value, cover_value, surrogate_value
from routepack.score_proof import ScoreProof, recompute_proof
from routepack.verify import recompute_bound


def random_layout(problem: LayoutProblem, seed: int, tries: int = 60) -> np.ndarray | None:
    rng = np.random.default_rng(seed)
    for _ in range(tries):
        cells = rng.integers(problem.num_cells, size=problem.num_units)
        cells[rng.permutation(problem.num_units)[: problem.num_cells]] = np.arange(problem.num_cells)
        if problem.fault(cells) is None:
            return cells
    return None


@given(st.integers(0, 10**9))
@settings(max_examples=200, deadline=None)
def test_a_layout_problem_scores_as_the_kernel_does(seed):
    instance, placement, rows = random_window(seed)
    problem = LayoutProblem.of(instance, placement, rows)
    cells = random_layout(problem, seed)
    if cells is not None:
        layout = layout_of_cells(instance, rows, cells)
        assert problem.score(cells) == cost(instance, Plan(placement, layout)).score
        assert (cells_of_layout(instance, layout) == cells).all()


def check_all_bounds(seed: int, units: int) -> None:
    instance, placement, rows = random_window(seed, units)
    problem = LayoutProblem.of(instance, placement, rows)
    cells = random_layout(problem, seed)
    if cells is None:
        return
    makespan = problem.score(cells).makespan
    for make in SCORE_BOUNDS.values():
        for meant in (placement, None):
            proof = make(instance, meant, rows)
            if proof is not None:
                assert proof.value <= makespan, (proof.kind, meant is None)
                assert recompute_proof(instance, placement, rows, proof) == proof.value
    value = recompute_bound(instance, placement).value
    assert SCORE_BOUNDS["aggregation"](instance, placement, rows).value == value  # the closed form of the kernel


@given(st.integers(0, 10**9))
@settings(max_examples=60, deadline=None)
def test_no_bound_exceeds_a_random_layout(seed):
    check_all_bounds(seed, 7)


@pytest.mark.slow
@given(st.integers(0, 10**9))
@settings(max_examples=1500, deadline=None)
def test_no_bound_exceeds_thousands_of_random_layouts(seed):
    check_all_bounds(seed, 14)


def listed(seed: int) -> None:
    instance, placement, rows = random_window(seed, 6)
    problem = LayoutProblem.of(instance, placement, rows)
    if problem.num_cells**problem.num_units > 20000:
        return
    optimum = best_by_listing(problem)
    if optimum is not None:
        assert best_bound(instance, placement, rows).value <= optimum.makespan


@pytest.mark.slow
@given(st.integers(0, 10**9))
@settings(max_examples=150, deadline=None)
def test_no_bound_exceeds_the_optimum_by_listing(seed):
    listed(seed)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
@settings(max_examples=150, deadline=None)
def test_any_multipliers_in_range_give_a_valid_bound(seed, draw):
    instance, placement, rows = random_window(seed)
    problem = LayoutProblem.of(instance, placement, rows)
    cells = random_layout(problem, seed)
    data = ScoreData.of(instance, placement, rows)
    if cells is None:
        return
    rng = np.random.default_rng(draw)
    ticks = np.unique(data.attention).tolist()
    levels = tuple(sorted({*ticks[-1:], *(t for t in ticks if rng.random() < 0.5)}))
    home = int(rng.integers(0, SCALE + 1)) if data.shards > 1 else SCALE
    other = (SCALE - home) // (data.shards - 1) if data.shards > 1 else 0
    size = len(levels)

    def draw_prices(high: float) -> tuple[int, ...]:
        return tuple(int(v) for v in rng.uniform(0, high, size) * (rng.random(size) < 0.5) * SCALE)

    unit = float(data.attention.max())
    certificate = LevelCertificate(
        levels,
        (home, other),
        int(rng.integers(0, (home if data.shards == 1 else min(home, other)) + 1)),
        (tuple(int(rng.integers(0, home + 1)) for _ in levels), tuple(int(rng.integers(0, other + 1)) for _ in levels)),
        (draw_prices(unit / data.token_cap), draw_prices(unit / data.token_cap)),
        draw_prices(unit),
        int(rng.uniform(0, unit) * SCALE),
    )
    assert certificate.value(data) <= problem.score(cells).makespan


def giant(shards: int = 2, rows: int = 2, slots: int = 2) -> ScoreData:
    """One sample as long as the cap of 100, and small ones that fill every other cell to 95."""
    cells = shards * rows * slots
    lengths = np.array([100] + [19] * (5 * (cells - 1)))
    attention = np.where(lengths == 100, 1000, 19)
    return ScoreData(attention, -(-int(attention.sum()) // slots), lengths, lengths, 1, int(lengths.sum()), 100, rows, shards, slots, 1)


def test_a_shard_that_holds_a_giant_cannot_be_emptied_elsewhere():
    data = giant()
    certificate = capacity_bound(data)
    assert aggregation_value(data) == 799  # (ceil(1665 / 2) + 765) / 2
    # The home shard holds at least 765 - 400 = 365 tokens, 200 of them in the giant's row: 1000 + (365 - 200) / 2 attention, 365 expert
    assert certificate.value(data) == 1448
    assert cover_value(data) == 911  # four row-shards of 200 tokens must open: 1000 + 3 * 19 = 1057 attention; (1057 + 765) / 2
    assert surrogate_value(data) == 799  # spreads the giant's attention over the slots


@pytest.mark.parametrize(
    "change",
    [
        {"levels": (1000, 19)},
        {"levels": (19,)},
        {"levels": (19, 1000, 2000)},
        {"kind_weight": (SCALE, SCALE)},
        {"kind_weight": (SCALE, -1)},
        {"expert_weight": SCALE},
        {"home_price": -1},
        {"cover_price": (0,)},
        {"mean_weight": ((SCALE, SCALE), (SCALE, SCALE))},
        {"token_price": ((-1, 0), (0, 0))},
    ],
)
def test_multipliers_out_of_range_are_refused(change):
    good = LevelCertificate((19, 1000), (SCALE // 2, SCALE // 2), SCALE // 2, ((0, 0), (0, 0)), ((0, 0), (0, 0)), (0, 0), 0)
    assert good.value(giant()) > 0
    with pytest.raises(InvalidCertificate):
        replace(good, **change).value(giant())


def test_every_dth_largest_attention_counts_only_over_half_the_cap():
    # 3, 1, 1, e, e with two row-shards of two slots: 3 + 1 is no bound, because 1, 1 and e fit beside 3
    data = ScoreData(np.array([300, 100, 100, 1, 1]), 252, np.array([30, 30, 30, 1, 1]), np.zeros(5, np.int64), 1, 0, 100, 2, 1, 2, 1)
    assert cover_value(data) == 300  # 92 tokens fit one row-shard: only the longest counts
    over_half = replace(data, lengths=np.array([60, 60, 60, 1, 1]))
    assert cover_value(over_half) == 400  # three of them need three cells: two row-shards


def test_subset_tables_match_plain_loops():
    values = np.array([5, 2, 9])
    assert subset_sums(values).tolist() == [0, 5, 2, 7, 9, 14, 11, 16]


def test_a_row_shard_is_impossible_when_the_rest_would_not_fit():
    problem = LayoutProblem(np.ones((3, 1, 1), np.int64), np.ones((3, 1), np.int64), np.array([5, 5, 5]), np.ones(3, np.int64), 10, 2, 1, 1)
    costs = subset_costs(problem)
    assert costs[0b001] == 2  # one unit: attention 1, expert 1; the other two fill the other cell
    assert costs[0b111] > 10**9  # nothing left for the second row
    assert costs[0] > 10**9  # no cell is empty


def test_prices_of_another_size_or_too_large_are_refused():
    instance, placement, rows = random_window(3)
    problem = LayoutProblem.of(instance, placement, rows)
    with pytest.raises(InvalidCertificate, match="prices"):
        RowShardCertificate(np.zeros(problem.num_units + 1, np.int64)).value(problem)
    with pytest.raises(InvalidCertificate, match="2\\*\\*50"):
        RowShardCertificate(np.full(problem.num_units, 1 << 60)).value(problem)


def test_a_proof_with_the_wrong_certificate_is_refused():
    instance, placement, rows = random_window(3)
    for kind in ("capacity", "dantzig-wolfe", "guess"):
        with pytest.raises(InvalidCertificate):
            recompute_proof(instance, placement, rows, ScoreProof(kind, 10**9, False))


def test_a_window_too_large_to_list_has_no_row_shard_bound():
    rng = np.random.default_rng(0)
    count = MAX_UNITS + 1
    ones = np.ones((count, 1, 1), np.int64)
    problem = LayoutProblem(ones, ones[:, 0], rng.integers(1, 9, count), ones[:, 0, 0], 100, 2, 1, 2)
    with pytest.raises(InvalidCertificate, match="at most 20"):
        subset_costs(problem)


def test_any_placement_bounds_hold_for_the_best_placement():
    instance, _, rows = random_window(11)
    window, ranks = instance.window, instance.topology.ep
    rng = np.random.default_rng(0)
    values = []
    for _ in range(20):
        row = np.arange(window.num_experts) % ranks
        placement = Placement(np.stack([rng.permutation(row) for _ in range(window.num_layers)]))
        cells = random_layout(LayoutProblem.of(instance, placement, rows), 5)
        values.append(LayoutProblem.of(instance, placement, rows).score(cells).makespan)
    assert best_bound(instance, None, rows).value <= min(values)
