"""The figures of a study report."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from routepack.studies.curves import Points, curves
from routepack.studies.page import Figure
from routepack.studies.records import Record
from routepack.studies.statistics import optimality_gap, performance_profiles, value_of

TARGET = 0.01
SHORTEST = 1e-3  # seconds
MOMENTS = 100
LEAST = 0.01  # percent; smaller gaps are drawn as this


def longest_runs(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Runs of each method under the longest limit that it had."""
    limits: dict[str, dict[tuple[float, int], list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        limits[record.method][record.time_limit or 0.0, record.attempts_limit or 0].append(record)
    return {method: groups[max(groups)] for method, groups in sorted(limits.items())}


def study_figures(suite: str, runs: dict[str, list[Record]]) -> list[Figure]:
    """All figures of a suite that its records can fill."""
    best = _best_known(record for group in runs.values() for record in group)
    searched = {name: group for name, group in runs.items() if any(record.trajectory for record in group)}
    figures = [gap_profile(suite, runs), performance_profile(suite, runs)]
    if searched:
        figures += [time_to_target(suite, searched, best), anytime(suite, searched, best)]
    return figures


def _best_known(records: Iterable[Record]) -> dict[tuple[str, str], int]:
    best: dict[tuple[str, str], int] = {}
    for record in records:
        value, window = value_of(record), (record.instance, record.sha256)
        if value is not None:
            best[window] = min(best.get(window, value), value)
    return best


def _shares(values: Sequence[float], count: int, first: float) -> list[tuple[float, float]]:
    """Share of ``count`` runs, in percent, up to each value; from the first x on."""
    ends = np.sort(np.maximum(values, first))
    steps = {float(x): 100 * (n + 1) / count for n, x in enumerate(ends)}
    return list(({first: 0.0} | steps).items())


def gap_profile(suite: str, runs: dict[str, list[Record]]) -> Figure:
    """Share of runs within a gap."""
    series: list[tuple[str, Points]] = []
    for name, group in runs.items():
        gaps = [record.gap if (gap := optimality_gap(record)) is None else gap for record in group]
        series.append((name, _shares([100 * gap for gap in gaps if gap is not None], len(group), LEAST)))
    chart = curves(
        series, label=f"Gap profiles of {suite}", axes=(f"gap, % ({LEAST:g} or less at the left)", "runs within the gap, %"), log_x=True
    )
    return Figure(f"{_slug(suite)}-gap-profile", "Gap profiles: higher and further left is better.", chart)


def performance_profile(suite: str, runs: dict[str, list[Record]]) -> Figure:
    """Share of windows within a ratio of the best method."""
    profiles = performance_profiles(record for group in runs.values() for record in group)
    series = [
        (name, list(({LEAST: 0.0} | {max(100 * (ratio - 1), LEAST): 100 * share for ratio, share in steps}).items()))
        for name, steps in profiles.items()
    ]
    axes = (f"above the best method, % ({LEAST:g} or less at the left)", "windows, %")
    chart = curves(series, label=f"Performance profiles of {suite}", axes=axes, log_x=True)
    return Figure(f"{_slug(suite)}-performance-profile", "Performance profiles (Dolan and More), medians over seeds.", chart)


def time_to_target(suite: str, runs: dict[str, list[Record]], best: dict[tuple[str, str], int]) -> Figure:
    """Share of runs that are within a percent of the best known, over time."""
    series: list[tuple[str, Points]] = []
    for name, group in runs.items():
        times = []
        for record in group:
            target = best.get((record.instance, record.sha256), 0) * (1 + TARGET)
            times += [next(step.seconds for step in record.trajectory if step.score <= target)] if _reaches(record, target) else []
        series.append((name, _shares(times, len(group), SHORTEST)))
    axes = ("seconds", "runs at the target, %")
    chart = curves(series, label=f"Time to target of {suite}", axes=axes, log_x=True)
    return Figure(f"{_slug(suite)}-time-to-target", f"Time to a score within {TARGET:.0%} of the best known.", chart)


def _reaches(record: Record, target: float) -> bool:
    return any(step.score <= target for step in record.trajectory)


def anytime(suite: str, runs: dict[str, list[Record]], best: dict[tuple[str, str], int]) -> Figure:
    """Mean distance above the best known over time, from when every run of a method has a plan."""
    series: list[tuple[str, Points]] = []
    for name, group in runs.items():
        searched = [record for record in group if record.trajectory and best.get((record.instance, record.sha256))]
        if searched:
            series.append((name, _mean_curve(searched, best)))
    axes = ("seconds", f"above the best known, % ({LEAST:g} or less at the bottom)")
    highest = max((y for _, points in series for _, y in points), default=0.0)
    chart = curves(series, label=f"Anytime curves of {suite}", axes=axes, log_x=True, top=max(10 * LEAST, highest), floor=LEAST)
    return Figure(f"{_slug(suite)}-anytime", "Anytime curves: mean over runs, from when each of them has a plan.", chart)


def _mean_curve(records: list[Record], best: dict[tuple[str, str], int]) -> list[tuple[float, float]]:
    start = max(SHORTEST, *(record.trajectory[0].seconds for record in records))
    moments = np.geomspace(start, max(start * 1.001, *(record.seconds for record in records)), MOMENTS)
    total = np.zeros(MOMENTS)
    for record in records:
        known = best[record.instance, record.sha256]
        gaps = np.array([100 * (step.score / known - 1) for step in record.trajectory])
        reached = np.searchsorted([step.seconds for step in record.trajectory], moments * (1 + 1e-9), side="right")
        total += gaps[np.maximum(reached - 1, 0)]
    return [(float(x), float(y)) for x, y in zip(moments, total / len(records), strict=True)]


def _slug(name: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name) or "suite"
