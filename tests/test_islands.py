"""Islands: the same plan on any backend and any number of jobs, from a start that is never made worse."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from small_windows import random_window

from routepack.budget import Budget
from routepack.cli import main
from routepack.errors import Infeasible, InvalidInstance, InvalidPlan
from routepack.instances.generators import generate
from routepack.instances.plan_form import result_to_dict
from routepack.islands import ROUNDS
from routepack.plan import Layout, Plan
from routepack.planner import plan_window, solve
from routepack.topology import Topology
from routepack.verify import verify_plan

pytest.importorskip("joblib")

ATTEMPTS = 6_000


def window(seed=0):
    return generate(samples=24, token_cap=1024, seed=seed, dp=4, ep=2, edp=2, layers=3, experts=8, top_k=2)


def answer(**options):
    """All that a plan file says, but for the seconds."""
    result = solve(window(), **{"budget": Budget(attempts=ATTEMPTS), "seed": 7, "islands": 3, **options})
    document = result_to_dict(result)
    document["method"].pop("seconds")
    return document


def test_any_number_of_jobs_gives_one_plan():
    first = answer(threads=1, island_backend="threading")
    for options in ({"threads": 3, "island_backend": "threading"}, {"threads": 8, "island_backend": "sequential"}):
        assert answer(**options) == first, options


@pytest.mark.slow
def test_threads_and_processes_give_one_plan():
    first = answer(threads=2, island_backend="threading")
    assert answer(threads=2) == answer(threads=1) == first  # processes are the default


def test_another_seed_is_another_search():
    assert answer(island_backend="threading", seed=8)["method"]["seed"] == 8


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_clusters_give_the_same_plan(backend):
    if backend == "dask":
        client = pytest.importorskip("distributed").Client(n_workers=1, threads_per_worker=1, dashboard_address=None)
        close = client.close
    else:
        ray = pytest.importorskip("ray")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        close = ray.shutdown
    try:
        assert answer(island_backend=backend, threads=2) == answer(island_backend="threading")
    finally:
        close()


def test_the_best_of_the_islands_is_verified_and_no_island_gets_more_than_its_part():
    result = solve(window(), budget=Budget(attempts=ATTEMPTS), islands=4, island_backend="threading")
    assert verify_plan(window(), result.plan).score == result.score
    assert 0.9 * ATTEMPTS < result.method.attempts <= ATTEMPTS


@pytest.mark.parametrize("method", ["anneal", "annealing-single", "multi-start"])
def test_a_search_never_ends_above_its_start(method):
    for seed in range(3):
        instance = window(seed)
        start = solve(instance, budget=Budget(attempts=20_000), seed=1)
        for attempts in (0, 500):
            later = solve(instance, method=method, budget=Budget(attempts=attempts), start=start.plan, seed=2)
            assert later.score <= start.score


@pytest.mark.parametrize("seed", range(20))
def test_starts_rows_and_islands_keep_every_option_of_a_window(seed):
    instance, _, _ = random_window(seed)
    budget = Budget(attempts=600)
    try:
        first = solve(instance, rows="auto", row_overhead=3, budget=budget)
    except Infeasible:
        pytest.skip("this window has no plan")
    later = solve(instance, start=first.plan, budget=budget, islands=2, island_backend="sequential", seed=1)
    assert later.score <= first.score
    assert verify_plan(instance, later.plan).score == later.score


def test_a_start_keeps_its_number_of_rows_and_its_placement_where_nothing_is_tried():
    start = solve(window(), rows=4, budget=Budget(attempts=300))
    later = solve(window(), start=start.plan, budget=Budget(attempts=0), replace=False)
    assert later.layout == start.layout
    assert later.placement == start.placement
    assert later.rows.status == start.rows.status


def test_a_start_of_another_window_is_refused():
    start = solve(window(), budget=Budget(attempts=10)).plan
    with pytest.raises(InvalidPlan, match="slots"):
        solve(window(), start=Plan(start.placement, Layout(start.layout.cells[1:])), budget=Budget(attempts=10))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"islands": 0}, "islands = 0 is below 1"),
        ({"islands": 2, "method": "kk"}, "method = 'kk' does not search"),
        ({"islands": 2, "budget": Budget()}, "divide the budget"),
        ({"islands": 2, "island_backend": "nowhere"}, "island_backend = 'nowhere' cannot be used"),
    ],
)
def test_wrong_arguments_are_refused(wrong, message):
    with pytest.raises(InvalidInstance, match=message):
        solve(window(), **{"budget": Budget(attempts=10), **wrong})


def test_a_start_with_other_rows_than_asked_for_is_refused():
    start = solve(window(), budget=Budget(attempts=10))
    with pytest.raises(InvalidInstance, match="but start has"):
        solve(window(), start=start.plan, rows=start.rows.count + 1, budget=Budget(attempts=10))
    with pytest.raises(InvalidInstance, match="keeps its number of rows"):
        solve(window(), start=start.plan, rows="auto", budget=Budget(attempts=10))


def test_an_interruption_ends_the_search_after_a_round():
    seen = []
    budget = Budget(attempts=ATTEMPTS, interrupted=lambda: bool(seen), report=seen.append)
    result = solve(window(), budget=budget, islands=2, island_backend="threading")
    assert result.interrupted
    assert [progress.phase for progress in seen] == [f"round 1 of {ROUNDS}"]


def test_under_a_time_limit_the_rounds_share_the_time():
    result = solve(window(), budget=Budget(seconds=0.4), islands=2, threads=1, island_backend="threading")
    assert result.method.seconds < 3  # loosely: what a machine under load does is not the matter
    verify_plan(window(), result.plan)


def test_rows_that_pay_are_found_on_islands_too():
    result = solve(window(), budget=Budget(attempts=ATTEMPTS), rows="auto", islands=2, island_backend="threading")
    assert result.rows_tried
    assert verify_plan(window(), result.plan)


def test_a_call_of_a_trainer_and_the_command_may_ask_for_islands():
    result = plan_window(
        [5, 6, 7, 8],
        np.ones((4, 1, 2), dtype=np.int32),
        Topology(2, 1, 1),
        token_cap=20,
        attempts=400,
        islands=2,
        island_backend="threading",
    )
    assert result.rows.count == 1
    run = CliRunner().invoke(
        main, ["solve", "two-shards", "--attempts", "400", "--islands", "2", "--island-backend", "threading", "--json"]
    )
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["score"] == [8, 12, 8]


def test_the_page_on_scaling_out_does_what_it_says():
    page = Path(__file__).resolve().parents[1] / "docs" / "scale-out.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    exec(compile("\n".join(blocks), str(page), "exec"), {"__name__": "page"})
