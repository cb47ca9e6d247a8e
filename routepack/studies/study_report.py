"""What the records of a study show: tables, gap profiles, time to target, anytime curves."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from routepack.studies import study_figures
from routepack.studies.page import Figure, Report, Section, Table
from routepack.studies.records import Record
from routepack.studies.statistics import LEVEL, Duel, Summary, duel, summaries, value_of

COLUMNS = (
    "method",
    "limit",
    "windows",
    "runs",
    "failed",
    "above the optimum",
    "optimum hit",
    f"{LEVEL:.0%} interval",
    "above the best known",
    "certified gap",
    "seconds",
)


def study_report(records: Sequence[Record], title: str = "study") -> Report:
    """
    Describe the records of a study.

    Parameters
    ----------
    records
        At least one, of `routepack.studies.records.load`.
    title
        Name of the study.

    Raises
    ------
    InvalidInstance
        The package for statistics is not installed.
    """
    lines = summaries(records)
    suites: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        suites[record.suite].append(record)
    sections = [_suite(name, group, [line for line in lines if line.suite == name]) for name, group in sorted(suites.items())]
    failed = [record for record in records if record.status == "failed"]
    sections += [_failures(failed)] if failed else []
    windows = len({(r.instance, r.sha256) for r in records})
    methods = {r.method for r in records}
    facts: dict[str, Any] = {
        "runs": len(records),
        "windows": windows,
        "statuses": dict(Counter(r.status for r in records)),
        "summaries": [line._asdict() for line in lines],
    }
    cards = (
        ("Runs", f"{len(records):,}", f"{len(failed):,} failed"),
        ("Windows", f"{windows:,}", f"{len(suites):,} suites" if len(suites) > 1 else "1 suite"),
        ("Methods", f"{len(methods):,}", f"{len({r.seed for r in records}):,} seeds at most"),
        ("Optimal", f"{sum(r.status == 'optimal' for r in records):,}", "by a bound or an engine's claim"),
    )
    return Report(title, _verdict(records, lines), cards, (*sections, _provenance(records)), facts)


def _verdict(records: Sequence[Record], lines: list[Summary]) -> str:
    known = [line for line in lines if line.over_best is not None and line.failed < line.runs]
    if not known:
        return f"{len(records):,} runs, none with a plan."
    best = []
    for suite in sorted({line.suite for line in known}):
        line = min((line for line in known if line.suite == suite), key=lambda line: (line.over_best, line.seconds))
        beyond = f"{_percent(line.optimality_gap)} above the proven optimum" if line.optimality_gap is not None else ""
        beyond = beyond or f"{_percent(line.over_best)} above the best known"
        best.append(f"{suite}: {line.method} ({line.limit}) comes closest, {beyond} on average")
    return ". ".join(best) + "."


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.3f} %"


def _suite(name: str, records: list[Record], lines: list[Summary]) -> Section:
    rows = tuple(
        (
            line.method,
            line.limit,
            f"{line.windows:,}",
            f"{line.runs:,}",
            f"{line.failed:,}",
            _percent(line.optimality_gap),
            "-" if line.hits is None else f"{line.hits:,}",
            "-" if line.hits_low is None or line.hits_high is None else f"{100 * line.hits_low:.0f} to {100 * line.hits_high:.0f} %",
            _percent(line.over_best),
            _percent(line.certified_gap),
            f"{line.seconds:.3g}",
        )
        for line in lines
    )
    table = Table("Means over windows of means over seeds", COLUMNS, rows)
    longest = study_figures.longest_runs(records)
    figures: list[Figure] = study_figures.study_figures(name, longest)
    text = "Curves are of each method's longest limit. A gap is above the proven optimum where one is known, else above a bound."
    return Section(f"Suite {name}", text, (table, *figures, *_duels(longest, lines)))


def _duels(runs: dict[str, list[Record]], lines: list[Summary]) -> list[Table]:
    """Hold the method that comes closest against each of the others, where they share windows, limits and seeds."""
    known = [line for line in lines if line.over_best is not None and line.method in runs]
    if len(runs) < 2 or not known:
        return []
    best = min(known, key=lambda line: (line.over_best, line.seconds)).method
    rows = [(name, *_duel_row(duel(runs[best], runs[name]))) for name in runs if name != best]
    columns = (f"{best} against", "windows", "wins", "ties", "losses", "mean difference", "p-value")
    return [
        Table("Same windows, limits and seeds; p-values of Wilcoxon's signed-rank test over windows", columns, tuple(rows), folded=True)
    ]


def _duel_row(found: Duel) -> tuple[str, ...]:
    p_value = "-" if found.p_value is None else f"{found.p_value:.2g}"
    return (f"{found.windows:,}", f"{found.wins:,}", f"{found.ties:,}", f"{found.losses:,}", _percent(found.difference), p_value)


def _failures(failed: list[Record]) -> Section:
    rows = tuple((r.instance, r.method, r.limit, str(r.seed), r.error or "") for r in failed[:100])
    caption = f"{len(rows)} of {len(failed):,}" if len(rows) < len(failed) else f"{len(failed):,}"
    table = Table(caption, ("window", "method", "limit", "seed", "error"), rows)
    return Section("Failed runs", "They count as runs and have no gap; the study tries them again when it is continued.", (table,))


def _provenance(records: Sequence[Record]) -> Section:
    where = Counter((r.machine, ", ".join(f"{name} {version}" for name, version in sorted(r.versions.items()))) for r in records)
    rows = tuple((machine or "unknown", versions, f"{count:,}") for (machine, versions), count in where.most_common())
    verified = sum(value_of(r) is not None for r in records)
    text = f"{verified:,} answers; every plan was verified before it was recorded."
    return Section("Where it ran", text, (Table("Machines and versions", ("machine", "versions", "runs"), rows, folded=True),))
