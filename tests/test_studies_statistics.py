"""Statistics of studies, against numbers worked out by hand or published."""

import math

import pytest

from routepack.cost import Score
from routepack.errors import InvalidInstance
from routepack.studies.records import Record, Step
from routepack.studies.statistics import duel, mean, performance_profiles, primal_integral, share, summaries, time_to_target

scipy = pytest.importorskip("scipy")


def record(instance="w", method="m", seed=0, value=10, **more):
    score = None if value is None else Score(value, value, value)
    status = "failed" if value is None else "feasible"
    return Record("s", instance, "ab", method, 1.0, None, seed, status, score=score, **more)


def test_a_share_has_its_clopper_pearson_interval():
    found = share(0, 10)
    assert found.low == 0
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 10))  # the closed form for no hit
    assert share(10, 10).low == pytest.approx(0.025 ** (1 / 10))
    assert share(0, 0) == (None, None, None)


def test_a_mean_has_students_interval():
    found = mean([1.0, 2.0, 3.0])
    assert found.value == 2
    assert found.high - found.value == pytest.approx(4.3027 / math.sqrt(3), abs=1e-4)  # t = 4.3027 for 2 degrees, deviation 1
    assert mean([5.0]) == (5.0, None, None)
    assert mean([]) == (None, None, None)


def test_a_primal_integral_counts_the_gap_while_it_lasts():
    # 1 until the first solution at 1 s, then 20 against 10: gap 0.5 until 3 s, then none until 4 s
    assert primal_integral([Step(1, 0, 20), Step(3, 0, 10)], 10, 4.0) == pytest.approx((1 + 2 * 0.5) / 4)
    assert primal_integral([], 10, 4.0) == 1
    assert primal_integral([Step(9, 0, 10)], 10, 4.0) == 1  # after the horizon
    assert primal_integral([Step(0, 0, 0)], 0, 4.0) == 0
    with pytest.raises(InvalidInstance, match="horizon"):
        primal_integral([], 10, 0.0)


def test_time_to_target_counts_the_time_of_runs_that_missed():
    runs = [
        record(seed=0, seconds=5.0, trajectory=(Step(1.0, 0, 12), Step(2.0, 0, 9))),  # hits 10 after 2 s
        record(seed=1, seconds=5.0, trajectory=(Step(1.0, 0, 12),)),  # misses
        record(seed=2, seconds=5.0, trajectory=(Step(3.0, 0, 10),)),  # hits after 3 s
    ]
    found = time_to_target(runs, 10)
    assert (found.runs, found.hits) == (3, 2)
    assert found.mean.value == (2 + 5 + 3) / 2
    assert found.mean.low < found.mean.value < found.mean.high
    missed = time_to_target(runs, 1)
    assert (missed.mean.value, missed.mean.high) == (None, None)
    assert missed.mean.low == pytest.approx(15 / -math.log(0.025))  # no hit in 15 s: exp(-15 / mean) = 2.5 %
    assert time_to_target([], 1).hit_share.value is None


def test_profiles_rise_to_the_share_of_windows_that_a_method_solves():
    runs = [record("a", "x", value=10), record("a", "y", value=20), record("b", "x", value=30), record("b", "y", value=None)]
    assert performance_profiles(runs) == {"x, 1 s": [(1.0, 1.0)], "y, 1 s": [(2.0, 0.5)]}


def test_a_duel_pairs_windows_and_seeds():
    mine = [record(w, "x", s, v) for w, s, v in (("a", 0, 1), ("a", 1, 2), ("b", 0, 3), ("c", 0, 1), ("d", 0, None))]
    theirs = [record(w, "y", s, v) for w, s, v in (("a", 0, 2), ("a", 1, 2), ("b", 0, 2), ("c", 0, 2), ("d", 0, 2))]
    found = duel(mine, theirs)
    assert (found.wins, found.ties, found.losses, found.windows) == (2, 1, 1, 3)
    assert found.difference == pytest.approx((-0.25 + 0.5 - 0.5) / 3)  # a: mean of -1/2 and 0; b: +1/2; c: -1/2
    assert 0 < found.p_value <= 1
    assert duel(mine[:1], theirs[:1]).p_value is None  # one window tests nothing


def test_a_duel_of_many_windows_that_all_improve_is_significant():
    one = [record(str(n), "x", value=100 - n) for n in range(1, 11)]
    other = [record(str(n), "y", value=100) for n in range(1, 11)]
    assert duel(one, other).p_value == pytest.approx(2 / 2**10)  # all ten signs alike, either way


def test_a_summary_averages_seeds_before_windows():
    runs = [record("a", seed=0, value=10, optimum=10), record("a", seed=1, value=12, optimum=10), record("b", value=10, optimum=10)]
    runs += [record("b", seed=1, value=None, error="x")]
    [found] = summaries(runs)
    assert (found.windows, found.runs, found.failed, found.optima_known) == (2, 4, 1, 3)
    assert found.optimality_gap == pytest.approx(0.05)  # a: mean of 0 and 20 %, b: 0
    assert found.over_best == pytest.approx(0.05)
    assert found.hits == 2
