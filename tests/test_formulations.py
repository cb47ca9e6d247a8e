"""
Formulations without an engine's search: a known solution fits the model and comes back from it; with an engine: all agree with listing.

Mutations that these tests catch: dropping any of (1) to (9) of `EdpLayout`, (1) to (4) of `LayerPlacement`, or (J1) to (J3) of `JointPlan`;
ordering first use by other units than `canonical` does; cuts above the optimum; `decode` with rows and shards swapped.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_windows import best_by_listing, random_window

from routepack.budget import Budget
from routepack.certificate import placement_bounds
from routepack.exact import Settings, solve_layout
from routepack.exact_placement import place_exact, solve_joint
from routepack.formulations.edp_layout import EdpLayout
from routepack.formulations.layer_placement import LayerPlacement
from routepack.formulations.symmetry import canonical, families, size_order
from routepack.layout_problem import LayoutProblem
from routepack.neighbourhood import improve_by_lns
from routepack.plan import Placement
from routepack.solvers.outcome import Status


def any_layout(problem: LayoutProblem, seed: int = 0) -> np.ndarray | None:
    rng = np.random.default_rng(seed)
    for _ in range(200):
        cells = rng.integers(problem.num_cells, size=problem.num_units)
        cells[rng.permutation(problem.num_units)[: problem.num_cells]] = np.arange(problem.num_cells)
        if problem.fault(cells) is None:
            return cells
    return None


def drawn(seed: int, units: int = 6) -> tuple[LayoutProblem, np.ndarray | None]:
    instance, placement, rows = random_window(seed, units)
    problem = LayoutProblem.of(instance, placement, rows)
    return problem, any_layout(problem, seed)


@given(st.integers(0, 10**9))
@settings(max_examples=100, deadline=None)
def test_relabelling_by_first_use_keeps_the_score(seed):
    problem, cells = drawn(seed, 9)
    if cells is not None:
        order = size_order(problem)
        same = canonical(problem, cells, order)
        assert problem.fault(same) is None
        assert problem.score(same) == problem.score(cells)
        for family in families(problem):
            first = [min(k for k, i in enumerate(order.tolist()) if same[i] in group) for group in family]
            assert first == sorted(first)  # groups open in order


def pyomo_residual(model, objectives) -> tuple[float, list[int]]:
    """Largest violation of a Pyomo model's constraints at its variables' initial values, and the objectives there."""
    import pyomo.environ as pyomo

    worst = 0.0
    for row in model.component_data_objects(pyomo.Constraint, active=True):
        body = pyomo.value(row.body)
        if row.has_ub():
            worst = max(worst, body - pyomo.value(row.upper))
        if row.has_lb():
            worst = max(worst, pyomo.value(row.lower) - body)
    return worst, [round(pyomo.value(x)) for x in objectives]


@given(st.integers(0, 10**9), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_known_layout_satisfies_every_constraint_at_its_own_score(seed, symmetry):
    problem, cells = drawn(seed, 8)
    if cells is not None:
        formulation = EdpLayout(problem, symmetry=symmetry)
        encoding = formulation.encode("milp", cells)
        worst, objectives = pyomo_residual(encoding.model, encoding.objectives)
        assert worst <= 0
        assert objectives == list(problem.score(cells))
        back = formulation.decode([round(x.value) for x in encoding.decisions])
        assert problem.score(back) == problem.score(cells)


@given(st.integers(0, 10**9))
@settings(max_examples=25, deadline=None)
def test_engines_agree_with_listing_all_layouts(seed):
    agree(seed)


@pytest.mark.slow
@given(st.integers(0, 10**9))
@settings(max_examples=250, deadline=None)
def test_engines_agree_with_listing_all_layouts_on_many(seed):
    agree(seed)


def agree(seed: int) -> None:
    instance, placement, rows = random_window(seed, 6)
    problem = LayoutProblem.of(instance, placement, rows)
    if problem.num_cells**problem.num_units > 5000:
        return
    optimum = best_by_listing(problem)
    for engine in ("cp-sat", "milp"):
        outcome = solve_layout(problem, budget=Budget(seconds=20), settings=Settings(engine=engine))
        assert outcome.contradiction is None
        if optimum is None:
            assert outcome.status is Status.INFEASIBLE
        else:
            assert outcome.status is Status.OPTIMAL
            assert outcome.score == optimum
            assert outcome.bound == optimum.makespan


@pytest.mark.parametrize("symmetry", [False, True])
@pytest.mark.parametrize("cuts", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_symmetry_breaking_and_cuts_do_not_move_the_optimum(symmetry, cuts, seed):
    from routepack.exact import lexicographic

    problem, cells = drawn(seed, 6)
    if cells is None or problem.num_cells**problem.num_units > 5000:
        return
    found = lexicographic(
        EdpLayout(problem, symmetry=symmetry, cuts=cuts),
        lambda x: (problem.fault(x), problem.score(x)),
        cells,
        Budget(seconds=20),
        Settings(),
    )
    assert found.score == best_by_listing(problem)


def test_equal_samples_is_met_with_groups_of_two_sizes():
    ones = np.ones((4, 1, 1), np.int64)
    # sizes 3, 1, 2, 2 on two slots: only {3, 1} and {2, 2} have four samples each
    problem = LayoutProblem(
        ones, np.array([[9], [9], [1], [1]]), np.ones(4, np.int64), np.array([3, 1, 2, 2]), 9, 2, 1, 2, equal_samples=True
    )
    for engine in ("cp-sat", "milp"):
        outcome = solve_layout(problem, settings=Settings(engine=engine))
        slot = outcome.cells % 2
        assert slot[0] == slot[1] != slot[2] == slot[3]
        assert outcome.score == best_by_listing(problem)


@pytest.mark.parametrize("engine", ["cp-sat", "milp"])
def test_a_layer_is_placed_exactly(engine):
    # 8 7 6 5 4 3 on two ranks of three experts: 33 tokens, 17 and 16: 8 + 5 + 4 = 17
    loads = np.array([[8, 7, 6, 5, 4, 3]])
    outcome = place_exact(loads, 2, np.array([[0, 0, 0, 1, 1, 1]]), settings=Settings(engine=engine))
    assert outcome.peaks.tolist() == [17] == outcome.bounds.tolist()
    assert np.bincount(outcome.ranks[0]).tolist() == [3, 3]


@pytest.mark.parametrize("engine", ["cp-sat", "milp"])
def test_moves_are_bounded(engine):
    loads, now = np.array([[9, 8, 1, 1]]), np.array([[0, 0, 1, 1]])
    still = place_exact(loads, 2, now, current=now, max_moves=1, settings=Settings(engine=engine))
    assert still.ranks.tolist() == now.tolist()  # one expert alone cannot move: ranks hold two each
    swapped = place_exact(loads, 2, now, current=now, max_moves=2, settings=Settings(engine=engine))
    assert swapped.peaks.tolist() == [10]  # 9 + 1 against 8 + 1
    assert int((swapped.ranks != now).sum()) == 2


def test_placement_hints_satisfy_the_model():
    rng = np.random.default_rng(0)
    loads, ranks = rng.integers(0, 99, 12), rng.permutation(np.arange(12) % 4)
    formulation = LayerPlacement(loads, 4)
    encoding = formulation.encode("milp", ranks)
    worst, objectives = pyomo_residual(encoding.model, encoding.objectives)
    assert worst <= 0
    assert objectives == [max(int(loads[ranks == p].sum()) for p in range(4))]
    assert objectives[0] >= placement_bounds(loads[None], 4)[0]


@pytest.mark.parametrize("seed", [2, 5, 8, 9, 14])
def test_joint_plans_are_no_worse_than_the_best_layout_of_any_placement(seed):
    instance, _, rows = random_window(seed, 5)
    window, ranks = instance.window, instance.topology.ep
    problem = LayoutProblem.of(instance, Placement(np.tile(np.arange(window.num_experts) % ranks, (window.num_layers, 1))), rows)
    if problem.num_cells**problem.num_units > 3000 or ranks**window.num_experts > 300 or window.num_layers > 1:
        return
    import itertools

    scores = []
    for row in itertools.product(range(ranks), repeat=window.num_experts):
        if np.bincount(row, minlength=ranks).tolist() == [window.num_experts // ranks] * ranks:
            score = best_by_listing(LayoutProblem.of(instance, Placement(np.array([row])), rows))
            scores += [] if score is None else [score]
    for engine in ("cp-sat", "milp"):
        outcome = solve_joint(instance, rows, settings=Settings(engine=engine), budget=Budget(seconds=30))
        assert outcome.score == (min(scores) if scores else None)


def test_a_neighbourhood_search_never_worsens_and_finds_a_planted_optimum():
    rng = np.random.default_rng(1)
    b = np.repeat([50, 40, 30, 20], 4)[:, None]
    loads = rng.integers(1, 5, (16, 1, 2))
    problem = LayoutProblem(loads, b, np.ones(16, np.int64), np.ones(16, np.int64), 4, 4, 1, 4)
    mixed = np.argsort(rng.permutation(16)) % 16
    cells = improve_by_lns(problem, mixed, budget=Budget(attempts=12), seed=0)
    assert problem.fault(cells) is None
    assert problem.score(cells) < problem.score(mixed)
    like = problem.attention[:, 0][np.argsort(cells)].reshape(4, 4)
    assert (like == like[:, :1]).mean() >= 0.75  # rows of like attention waste none


def test_a_neighbourhood_search_keeps_equal_samples_and_sync_row():
    for sync in ("shard", "row"):
        rng = np.random.default_rng(4)
        b = rng.integers(1, 90, (16, 2))
        loads = rng.integers(0, 60, (16, 2, 2))
        problem = LayoutProblem(loads, b, rng.integers(1, 9, 16), np.ones(16, np.int64), 30, 2, 2, 2, sync=sync, equal_samples=True)
        start = np.arange(16) % 8
        cells = improve_by_lns(problem, start, budget=Budget(attempts=4), seed=0, slice_seconds=0.2)
        assert problem.fault(cells) is None
        assert problem.score(cells) <= problem.score(start)


def test_fixed_row_shards_count_towards_the_score():
    problem, cells = drawn(21, 6)
    fixed = problem.row_shards(cells)
    everything = EdpLayout(problem, fixed=np.full_like(fixed, -1))
    encoding = everything.encode("milp", cells)
    assert pyomo_residual(encoding.model, encoding.objectives)[1] == list(problem.score(cells))
