"""What records show: gaps, time to a target, profiles, duels, each with the interval that it deserves."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from routepack.errors import InvalidInstance
from routepack.studies.records import Record, Step

LEVEL = 0.95


class Interval(NamedTuple):
    """An estimate between its confidence limits; ``None`` where the data set no limit."""

    value: float | None
    low: float | None
    high: float | None


class Summary(NamedTuple):
    """
    A method under a limit, over the windows of a suite.

    Gaps are means over windows of means over seeds; ``over_best`` is above the best that any record of the window has. Hits count the
    runs, of those whose optimum is known, that meet it, with their Clopper-Pearson interval. ``None`` where nothing is known.
    """

    suite: str
    method: str
    limit: str
    windows: int
    runs: int
    failed: int
    optima_known: int
    optimality_gap: float | None
    hits: int | None
    hits_low: float | None
    hits_high: float | None
    over_best: float | None
    certified_gap: float | None
    seconds: float


class Duel(NamedTuple):
    """
    Two methods on the same windows, limits and seeds.

    Wins, ties and losses count the pairs. The p-value is Wilcoxon's for the windows' mean relative differences, two-sided: seeds of one
    window are no independent observations. ``None`` for fewer than two windows that differ.
    """

    wins: int
    ties: int
    losses: int
    windows: int
    difference: float
    p_value: float | None


class TimeToTarget(NamedTuple):
    """
    Time until a run reaches a target.

    ``mean`` is all time spent over the hits: the expected time of a method that is started again with a new seed until it hits. Its limits
    are exact where the time of a hit is exponential. ``hit_share`` is of the runs, with its Clopper-Pearson interval.
    """

    runs: int
    hits: int
    hit_share: Interval
    mean: Interval


def value_of(record: Record) -> int | None:
    """What a run is judged by: the first component of its score, or its rows where only rows were asked for."""
    return record.rows if record.score is None else record.score.makespan


def optimality_gap(record: Record) -> float | None:
    """Relative distance above the proven optimum, where one is known."""
    value = value_of(record)
    return None if value is None or not record.optimum else value / record.optimum - 1


def share(hits: int, runs: int) -> Interval:
    """
    Share of runs with its Clopper-Pearson interval.

    References
    ----------
    .. [1] Clopper, C. J., and E. S. Pearson (1934). The use of confidence or fiducial limits illustrated in the case of the binomial.
       *Biometrika* 26(4): 404-413.
    """
    if not runs:
        return Interval(None, None, None)
    limits = _scipy().binomtest(hits, runs).proportion_ci(LEVEL, method="exact")
    return Interval(hits / runs, float(limits.low), float(limits.high))


def mean(values: Sequence[float]) -> Interval:
    """Mean with Student's interval; no limits for a single value."""
    if not values:
        return Interval(None, None, None)
    middle = math.fsum(values) / len(values)
    if len(values) == 1:
        return Interval(middle, None, None)
    half = float(_scipy().t.ppf((1 + LEVEL) / 2, len(values) - 1)) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return Interval(middle, middle - half, middle + half)


def summaries(records: Iterable[Record]) -> list[Summary]:
    """One line for each suite, method and limit, in the order of first appearance of suites and methods by name."""
    groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    best: dict[tuple[str, str], int] = {}
    for record in records:
        groups[record.suite, record.method, record.limit].append(record)
        value = value_of(record)
        if value is not None:
            window = (record.instance, record.sha256)
            best[window] = min(best.get(window, value), value)
    return [_summary(key, group, best) for key, group in sorted(groups.items())]


def _summary(key: tuple[str, str, str], group: list[Record], best: dict[tuple[str, str], int]) -> Summary:
    gaps = {record.key: optimality_gap(record) for record in group}
    known = [gap for gap in gaps.values() if gap is not None]
    hits = sum(gap == 0 for gap in known)
    interval = share(hits, len(known))

    def over_best(record: Record) -> float | None:
        value, least = value_of(record), best.get((record.instance, record.sha256))
        return value / least - 1 if value is not None and least else None

    return Summary(
        *key,
        windows=len({(record.instance, record.sha256) for record in group}),
        runs=len(group),
        failed=sum(record.status == "failed" for record in group),
        optima_known=len(known),
        optimality_gap=_by_window((record, gaps[record.key]) for record in group),
        hits=hits if known else None,
        hits_low=interval.low,
        hits_high=interval.high,
        over_best=_by_window((record, over_best(record)) for record in group),
        certified_gap=_by_window((record, record.gap) for record in group),
        seconds=math.fsum(record.seconds for record in group) / len(group),
    )


def _by_window(values: Iterable[tuple[Record, float | None]]) -> float | None:
    """Mean over windows of the mean over seeds, of what is known."""
    windows: dict[tuple[str, str], list[float]] = defaultdict(list)
    for record, value in values:
        if value is not None:
            windows[record.instance, record.sha256].append(value)
    means = [math.fsum(window) / len(window) for window in windows.values()]
    return math.fsum(means) / len(means) if means else None


def primal_integral(trajectory: Sequence[Step], best: int, horizon: float) -> float:
    """
    Mean primal gap over the time from 0 to the horizon, in [0, 1]; 1 counts until the first solution.

    References
    ----------
    .. [1] Berthold, T. (2013). Measuring the impact of primal heuristics. *Operations Research Letters* 41(6): 611-614.
    """
    if not horizon > 0:
        raise InvalidInstance(f"horizon = {horizon} is not above 0; give seconds.")
    area, gap, since = 0.0, 1.0, 0.0
    for step in trajectory:
        if step.seconds >= horizon:
            break
        area += gap * (step.seconds - since)
        since = step.seconds
        largest = max(abs(step.score), abs(best))
        gap = 0.0 if step.score == best else min(1.0, abs(step.score - best) / largest)
    return (area + gap * (horizon - since)) / horizon


def time_to_target(records: Iterable[Record], target: int) -> TimeToTarget:
    """
    Time until runs reach a target, from their trajectories; a run that does not reach it is censored at its end.

    References
    ----------
    .. [1] Aiex, R. M., M. G. C. Resende and C. C. Ribeiro (2002). Probability distribution of solution time in GRASP. *Journal of
       Heuristics* 8: 343-373.
    """
    spent, hits, runs = 0.0, 0, 0
    for record in records:
        runs += 1
        reached = next((step.seconds for step in record.trajectory if step.score <= target), None)
        spent += record.seconds if reached is None else reached
        hits += reached is not None
    found = share(hits, runs)
    if not runs or not spent:
        return TimeToTarget(runs, hits, found, Interval(0.0 if hits else None, None, None))
    chi2, tail = _scipy().chi2, (1 - LEVEL) / 2
    low = 2 * spent / float(chi2.ppf(1 - tail, 2 * hits + 2))
    high = 2 * spent / float(chi2.ppf(tail, 2 * hits)) if hits else None
    return TimeToTarget(runs, hits, found, Interval(spent / hits if hits else None, low, high))


def performance_profiles(records: Iterable[Record]) -> dict[str, list[tuple[float, float]]]:
    """
    Share of windows on which each method is within a ratio of the best method: steps (ratio, share), ratios rising.

    A method counts on a window by its median over seeds. A window without a result has an infinite ratio.

    References
    ----------
    .. [1] Dolan, E. D., and J. J. More (2002). Benchmarking optimization software with performance profiles. *Mathematical Programming*
       91: 201-213.
    """
    values: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    methods: dict[str, None] = {}
    for record in records:
        name = f"{record.method}, {record.limit}"
        methods[name] = None
        value = value_of(record)
        values[record.instance, record.sha256][name].append(math.inf if value is None else value)
    medians = [{name: float(np.median(runs)) for name, runs in window.items()} for window in values.values()]
    profiles = {}
    for name in methods:
        ratios = sorted(_ratio(window.get(name, math.inf), min(window.values())) for window in medians)
        steps = {ratio: (n + 1) / len(ratios) for n, ratio in enumerate(ratios) if math.isfinite(ratio)}
        profiles[name] = list(steps.items())
    return profiles


def _ratio(value: float, best: float) -> float:
    return 1.0 if value == best and math.isfinite(best) else value / best if best and math.isfinite(value) else math.inf


def duel(one: Iterable[Record], other: Iterable[Record]) -> Duel:
    """Compare two methods on the windows, limits and seeds that both have results for; a lower value wins."""
    theirs = {(r.instance, r.sha256, r.limit, r.seed): value_of(r) for r in other}
    wins = ties = losses = 0
    differences: dict[tuple[str, str], list[float]] = defaultdict(list)
    for record in one:
        mine, rival = value_of(record), theirs.get((record.instance, record.sha256, record.limit, record.seed))
        if mine is None or rival is None:
            continue
        wins, ties, losses = wins + (mine < rival), ties + (mine == rival), losses + (mine > rival)
        differences[record.instance, record.sha256].append((mine - rival) / rival if rival else float(mine - rival))
    means = [math.fsum(window) / len(window) for window in differences.values()]
    apart = [value for value in means if value]
    p_value = float(_scipy().wilcoxon(apart).pvalue) if len(apart) > 1 else None
    return Duel(wins, ties, losses, len(means), math.fsum(means) / len(means) if means else 0.0, p_value)


def _scipy() -> Any:
    try:
        from scipy import stats
    except ImportError:
        raise InvalidInstance("statistics need scipy, which is not installed; pip install 'routepack[studies]'.") from None
    return stats
