"""The shipped small suite: its plans are plans, its optima are attained, and bounds and engines agree with it."""

import numpy as np
import pytest

from routepack.bounds.score import SCORE_BOUNDS, best_bound
from routepack.budget import Budget
from routepack.exact import Settings, solve_layout
from routepack.instances.library.small import load_small
from routepack.layout_problem import LayoutProblem, cells_of_layout
from routepack.neighbourhood import improve_by_lns
from routepack.solvers.outcome import Status
from routepack.verify import verify_plan

CASES = load_small()


def test_there_are_sixty_cases_of_every_shape():
    assert len(CASES) >= 60
    topologies = [case.instance.topology for case in CASES]
    assert {t.num_shards for t in topologies} >= {1, 2, 4}
    assert {t.slots_per_shard for t in topologies} >= {1, 2, 4}
    assert {case.instance.window.num_layers for case in CASES} >= {1, 2, 3, 4, 5, 6}
    assert any(t.parts_per_slot > 1 for t in topologies)
    assert any(case.instance.options.equal_samples for case in CASES)
    assert any(case.instance.options.sync == "row" for case in CASES)
    assert any(len(case.instance.cost.stages) > 1 for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.instance.name)
def test_every_plan_attains_its_optimum_and_no_bound_exceeds_it(case):
    assert verify_plan(case.instance, case.plan).score == case.optimum
    assert case.plan.layout.num_rows == case.rows
    for meant in (case.plan.placement, None):
        for make in SCORE_BOUNDS.values():
            proof = make(case.instance, meant, case.rows)
            assert proof is None or proof.value <= case.optimum.makespan


def test_the_best_bound_without_branching_at_least_halves_the_gap_of_aggregation():
    gaps = []
    for case in CASES:
        plain = SCORE_BOUNDS["aggregation"](case.instance, case.plan.placement, case.rows).value
        best = best_bound(case.instance, case.plan.placement, case.rows).value
        gaps.append([(case.optimum.makespan - value) / value for value in (plain, best)])
    plain, best = np.mean(gaps, axis=0)
    assert best <= plain / 2


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["cp-sat", "milp"])
def test_engines_prove_the_suite_again(engine):
    for case in CASES[::4]:
        problem = LayoutProblem.of(case.instance, case.plan.placement, case.rows)
        outcome = solve_layout(problem, budget=Budget(seconds=60), settings=Settings(engine=engine))
        assert outcome.status is not Status.OPTIMAL or outcome.score == case.optimum
        assert outcome.score >= case.optimum


@pytest.mark.slow
def test_neighbourhood_search_never_goes_below_the_optimum():
    for case in CASES[::6]:
        problem = LayoutProblem.of(case.instance, case.plan.placement, case.rows)
        start = cells_of_layout(case.instance, case.plan.layout)
        assert problem.score(improve_by_lns(problem, start, budget=Budget(attempts=2), slice_seconds=0.5)) == case.optimum
