"""The planner of a training loop: samples in any order and from any thread, plans in the background, at once when asked."""

import json
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from routepack import Infeasible, InvalidInstance, Options, Topology, plan_window
from routepack.heuristics.placement import identity
from routepack.instances.files import result_to_dict
from routepack.streaming import Planner, warm_up

TOPOLOGY = Topology(2, 2, 2)
LAYERS, EXPERTS, CAP = 2, 4, 40


def samples(count, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 20, count)
    return [(int(t), rng.multinomial(2 * t, [0.4, 0.3, 0.2, 0.1], LAYERS)) for t in lengths]


def planner(**options):
    options = {"token_cap": CAP, "attempts": 200, "backend": "numpy", "threads": 1} | options
    return Planner(TOPOLOGY, LAYERS, EXPERTS, **options)


def fill(to, window):
    for length, demand in window:
        to.add(length, demand)
    return to


def document(result):
    """All of a plan but its time."""
    found = result_to_dict(result)
    return json.dumps(found | {"method": found["method"] | {"seconds": 0}})


def test_a_window_handed_over_sample_by_sample_gives_the_plan_of_the_arrays():
    window = samples(30)
    streamed = fill(planner(seed=3), window).close().result()
    lengths, demand = [t for t, _ in window], np.array([d for _, d in window], dtype=np.int32)
    whole = plan_window(lengths, demand, TOPOLOGY, token_cap=CAP, attempts=200, backend="numpy", seed=3)
    assert document(streamed) == document(whole)


def test_windows_are_planned_side_by_side_and_each_like_alone():
    loop = planner()
    first = fill(loop, samples(20, 1)).close()
    assert len(loop) == 0  # the next window is open while the first is planned
    second = fill(loop, samples(25, 2)).close()
    assert document(second.result()) == document(fill(planner(), samples(25, 2)).close().result())
    assert document(first.result()) == document(fill(planner(), samples(20, 1)).close().result())


def test_samples_from_many_threads_all_arrive():
    loop, window = planner(), samples(64)
    numbers = []
    threads = [
        threading.Thread(target=lambda part=part: [numbers.append(loop.add(*s)) for s in part]) for part in (window[k::8] for k in range(8))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(64))
    assert (loop.loads == sum(d for _, d in window)).all()
    assert sum(len(cell) for slot in loop.close().result().layout for cell in slot) == 64


def test_the_best_plan_comes_at_once_when_asked():
    planning = fill(planner(attempts=None, seconds=600.0), samples(40)).close()
    asked = time.monotonic()
    result = planning.best()
    assert time.monotonic() - asked < 60  # not after ten minutes; how soon is measured elsewhere
    assert planning.done()
    assert result.interrupted
    assert result.rows.count >= result.rows.needed


def test_a_timeout_stops_the_search_and_returns_its_best():
    planning = fill(planner(attempts=None, seconds=600.0), samples(40)).close()
    assert planning.result(timeout=0.05).interrupted


def test_the_deadline_of_a_window_ends_its_search():
    result = fill(planner(attempts=None, seconds=0.05), samples(40)).close().result()
    assert not result.interrupted


@pytest.mark.parametrize("current", [None, "contiguous"])
def test_a_placement_that_comes_first_is_the_placement_of_the_plan(current):
    now = None if current is None else identity(LAYERS, EXPERTS, TOPOLOGY.ep)
    planning = fill(planner(place_first=True), samples(30)).close(now)
    early = planning.placement
    assert early == planning.result().placement


def test_without_place_first_there_is_no_early_placement():
    with pytest.raises(InvalidInstance, match="place_first=True"):
        _ = fill(planner(), samples(10)).close().placement
    with pytest.raises(InvalidInstance, match="drop replace"):
        planner(place_first=True, replace=True)


def test_no_expert_moves_under_max_moves_zero():
    now = identity(LAYERS, EXPERTS, TOPOLOGY.ep)
    result = fill(planner(max_moves=0), samples(30)).close(now).result()
    assert result.placement == now.tolist()


def test_a_window_without_a_plan_raises_where_the_plan_is_asked_for():
    loop = planner()
    loop.add(CAP + 1, np.zeros((LAYERS, EXPERTS), dtype=int), "long")
    loop.add(1, np.zeros((LAYERS, EXPERTS), dtype=int), "short")
    planning = loop.close()
    for _ in range(2):  # each time
        with pytest.raises(Infeasible, match="sample 0 \\(long\\)"):
            planning.result()


def test_options_hold_for_every_window():
    result = fill(planner(options=Options(equal_samples=True)), samples(30)).close().result()
    assert [sum(map(len, slot)) for slot in result.layout] == [15, 15]


@pytest.mark.parametrize(
    ("length", "demand", "text"),
    [
        (0, np.zeros((LAYERS, EXPERTS), dtype=int), "length = 0"),
        (3, np.zeros((1, EXPERTS), dtype=int), "shape"),
        (3, -np.ones((LAYERS, EXPERTS), dtype=int), "below 0"),
    ],
)
def test_a_faulty_sample_is_refused_and_changes_nothing(length, demand, text):
    loop = fill(planner(), samples(3))
    before = loop.loads
    with pytest.raises(InvalidInstance, match=text):
        loop.add(length, demand)
    assert len(loop) == 3
    assert (loop.loads == before).all()


def test_an_empty_window_and_half_given_names_are_refused():
    loop = planner()
    with pytest.raises(InvalidInstance, match="at least one sample"):
        loop.close()
    loop.add(3, np.zeros((LAYERS, EXPERTS), dtype=int), "a")
    loop.add(3, np.zeros((LAYERS, EXPERTS), dtype=int))
    with pytest.raises(InvalidInstance, match="1 of 2 samples have no id"):
        loop.close()


def test_a_program_may_end_while_a_window_is_planned():
    code = (
        "import numpy as np; from routepack import Topology; from routepack.streaming import Planner\n"
        "loop = Planner(Topology(1, 1, 1), 1, 1, token_cap=9, seconds=600.0, backend='numpy')\n"
        "for _ in range(9): loop.add(4, [[4]])\n"
        "loop.close()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_more_samples_than_there_was_room_for():
    loop, window = planner(), samples(150)
    fill(loop, window)
    assert (loop.close().instance.window.demand == np.array([d for _, d in window])).all()


@pytest.mark.slow
def test_warm_up_plans_a_window_of_its_own():
    warm_up()
