"""Engines: every way to end has a status of ours, limits hold, and nothing is believed."""

import time

import numpy as np
import pytest
from small_windows import random_window

from routepack.budget import Budget
from routepack.errors import InvalidInstance
from routepack.exact import Settings, solve_layout
from routepack.formulations.edp_layout import EdpLayout
from routepack.formulations.language import CpSatLanguage, Encoding, PyomoLanguage, language
from routepack.layout_problem import LayoutProblem
from routepack.solvers import cp_sat, milp
from routepack.solvers.outcome import Status

ENGINES = [("cp-sat", "highs"), ("milp", "highs"), ("milp", "appsi_highs")]


def run(encoding: Encoding, engine: tuple[str, str], budget: Budget, **more):
    objective = encoding.objectives[0]
    if engine[0] == "cp-sat":
        return cp_sat.solve(encoding.model, encoding.decisions, objective, budget, **more)
    return milp.solve(encoding.model, encoding.decisions, objective, budget, solver=engine[1], **more)


def knapsack(engine: str, least: int) -> Encoding:
    """Cheapest subset of 3, 5, 7 that weighs at least so much."""
    say = language(engine)
    x = [say.boolean() for _ in range(3)]
    say.add(say.weighted(x, [3, 5, 7]) >= least)
    return Encoding(say.model, [say.weighted(x, [3, 5, 7])], x)


def hard(seed: int = 0, units: int = 60) -> LayoutProblem:
    """Too large to be proved in seconds."""
    rng = np.random.default_rng(seed)
    t = rng.integers(10, 100, units)
    loads = rng.integers(0, 100, (units, 4, 4))
    return LayoutProblem(loads, t[:, None] ** 2 // 20, t, np.ones(units, np.int64), int(t.sum() / 8 * 1.2), 2, 2, 2)


def spread(problem: LayoutProblem) -> np.ndarray:
    """Longest first into the emptiest cell."""
    cells, tokens = np.zeros(problem.num_units, np.int64), np.zeros(problem.num_cells, np.int64)
    for i in np.argsort(-problem.lengths).tolist():
        cells[i] = tokens.argmin()
        tokens[cells[i]] += problem.lengths[i]
    assert problem.fault(cells) is None
    return cells


@pytest.mark.parametrize("engine", ENGINES)
def test_an_optimum_is_claimed_with_its_bound(engine):
    outcome = run(knapsack(engine[0], 9), engine, Budget())
    assert (outcome.status, outcome.objective, outcome.bound) == (Status.OPTIMAL, 10, 10)  # 3 + 7
    assert outcome.values == (1, 0, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_infeasible_is_no_error(engine):
    outcome = run(knapsack(engine[0], 16), engine, Budget())  # 3 + 5 + 7 = 15
    assert outcome.status in (Status.INFEASIBLE, Status.UNBOUNDED_OR_INFEASIBLE)
    assert outcome.values == ()
    assert outcome.objective is None


@pytest.mark.parametrize("engine", ENGINES[:2])
def test_no_solution_at_the_limit_is_unknown(engine):
    encoding = EdpLayout(hard(units=120)).encode(engine[0])
    outcome = run(encoding, engine, Budget(seconds=0.0))
    assert outcome.status is Status.UNKNOWN
    assert outcome.values == ()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES[:2])
@pytest.mark.parametrize("seconds", [0.1, 1.0])
def test_the_time_limit_holds_to_a_second_and_the_hint_is_kept(engine, seconds):
    problem = hard()
    hint = spread(problem)
    started = time.monotonic()
    outcome = solve_layout(problem, hint, budget=Budget(seconds=seconds), settings=Settings(engine=engine[0]))
    assert time.monotonic() - started < seconds + 3  # building the models is not the engine's time
    assert outcome.passes[0].seconds < seconds + 1
    assert outcome.status is Status.FEASIBLE
    assert outcome.score <= problem.score(hint)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES[:2])
def test_an_interruption_keeps_the_incumbent(engine):
    problem = hard()
    started = time.monotonic()
    budget = Budget(seconds=60, interrupted=lambda: time.monotonic() - started > 3)
    outcome = solve_layout(problem, spread(problem), budget=budget, settings=Settings(engine=engine[0]))
    assert time.monotonic() - started < 20
    assert outcome.status is Status.FEASIBLE
    assert problem.fault(outcome.cells) is None


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES[:2])
def test_incumbents_and_bounds_are_streamed_and_the_log_is_written(engine, tmp_path):
    seen = []
    log = tmp_path / "engine.log"
    problem = hard()
    settings = Settings(engine=engine[0], log=log)
    outcome = solve_layout(problem, spread(problem), budget=Budget(seconds=4, report=seen.append), settings=settings)
    assert any(p.score is not None for p in seen)
    assert any(p.bound is not None for p in seen)
    assert log.stat().st_size > 0
    assert max(p.bound for p in seen if p.bound is not None) <= outcome.score.makespan


def test_a_solver_that_is_missing_says_how_to_get_it():
    encoding = knapsack("milp", 9)
    with pytest.raises(InvalidInstance, match="not installed; install it"):
        milp.solve(encoding.model, encoding.decisions, encoding.objectives[0], Budget(), solver="glpk_that_is_not_there")


def test_a_model_that_overflows_the_engine_is_an_error_not_infeasible():
    say = CpSatLanguage()
    x, y = say.integer(10**14), say.integer(10**14)
    say.add(100_000 * x + 100_000 * y >= 1)  # or-tools 4352: the sum's range leaves 64 bits
    outcome = cp_sat.solve(say.model, [], x + y, Budget())
    assert outcome.status is Status.ERROR


def test_big_coefficients_do_not_overfill_a_cell():
    # HiGHS 1721: at tolerance 1e-6, two items of 1,000,000 and 1,000,001 "fit" into 2,000,000
    ones = np.ones((2, 1, 1), np.int64)
    for lengths, cells, status in (([1_000_000, 1_000_001], 1, Status.INFEASIBLE), ([1_000_000, 1_000_001], 2, Status.OPTIMAL)):
        problem = LayoutProblem(ones, ones[:, 0], np.array(lengths), ones[:, 0, 0], 2_000_000, cells, 1, 1)
        for engine in ("cp-sat", "milp"):
            outcome = solve_layout(problem, settings=Settings(engine=engine))
            assert outcome.status is status or outcome.contradiction is not None


def test_demand_over_two_to_the_31_in_total_is_solved():
    big = np.full((4, 2, 2), 2**30)
    problem = LayoutProblem(big, np.full((4, 1), 2**31), np.ones(4, np.int64), np.ones(4, np.int64), 4, 1, 2, 1)
    for engine in ("cp-sat", "milp"):
        outcome = solve_layout(problem, settings=Settings(engine=engine))
        assert outcome.status is Status.OPTIMAL
        assert outcome.score.makespan == 2 * 2**31 + 2 * 2 * 2**30  # two units on each shard


def test_numpy_scalars_do_not_wrap_at_the_boundary():
    for say in (CpSatLanguage(), PyomoLanguage()):
        x = say.boolean()
        say.add(x >= 1)
        total = say.weighted([x, x], np.array([2**31 - 1, 2**31 - 1], dtype=np.int32))
        solve = cp_sat.solve if isinstance(say, CpSatLanguage) else milp.solve
        assert solve(say.model, [x], total, Budget()).objective == 2**32 - 2


def test_one_unit_one_cell_and_no_work():
    nothing = np.zeros((1, 2, 2), np.int64)
    problem = LayoutProblem(nothing, np.zeros((1, 1), np.int64), np.ones(1, np.int64), np.ones(1, np.int64), 1, 1, 1, 1)
    for engine in ("cp-sat", "milp"):
        outcome = solve_layout(problem, settings=Settings(engine=engine))
        assert (outcome.status, tuple(outcome.score)) == (Status.OPTIMAL, (0, 0, 0))


def test_a_start_returned_in_the_place_of_the_optimum_is_noticed():
    # HiGHS 1.16.0 with a start of 657 reports 632, the optimum, and returns the start
    instance, placement, rows = random_window(833, 6)
    outcome = solve_layout(LayoutProblem.of(instance, placement, rows), settings=Settings(engine="milp"))
    assert outcome.contradiction is None
    assert (outcome.status, tuple(outcome.score)) == (Status.OPTIMAL, (337, 632, 337))


def test_a_claim_that_recomputation_contradicts_is_reported(monkeypatch):
    ones = np.ones((2, 1, 1), np.int64)
    problem = LayoutProblem(ones, ones[:, 0], np.array([5, 5]), ones[:, 0, 0], 9, 2, 1, 1)
    monkeypatch.setattr(EdpLayout, "decode", lambda self, values: np.zeros(2, np.int64))  # both in one cell: 10 > 9
    outcome = solve_layout(problem)
    assert outcome.status is Status.ERROR
    assert "tokens" in outcome.contradiction
    assert outcome.bound is None


def test_a_hint_that_is_no_layout_is_refused():
    ones = np.ones((2, 1, 1), np.int64)
    problem = LayoutProblem(ones, ones[:, 0], np.array([5, 5]), ones[:, 0, 0], 9, 2, 1, 1)
    with pytest.raises(InvalidInstance, match="hint is no layout"):
        solve_layout(problem, np.zeros(2, np.int64))


def test_a_false_comparison_of_constants_makes_the_model_infeasible():
    say = PyomoLanguage()
    x = say.boolean()
    say.add(say.weighted([], []) >= 1)
    assert milp.solve(say.model, [x], x, Budget()).status in (Status.INFEASIBLE, Status.UNBOUNDED_OR_INFEASIBLE)
