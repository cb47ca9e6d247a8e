"""
The arms of the paper and ours on windows of its sizes, beside what it reports.

What plans are projected to cost stands in columns of its own, ours and the paper's; what the paper measured on hardware stands in another.

References
----------
.. [1] RoutePack (2026). arXiv:2608.12146.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

from routepack.studies.records import Record
from routepack.studies.statistics import mean
from routepack.studies.suites import PAPER_SIZES

REFERENCE = "lpt-ffd"
ARMS = {
    "identity-ffd": "baseline",
    "lpt-ffd": "reorder",
    "anneal:fixed": "packing, experts placed once",
    "anneal": "packing, experts re-placed",
}
COLUMNS = (
    "windows",
    "arm",
    "n",
    "expert peak sum",
    "worst row-layer peak",
    "attention",
    "score",
    "variation of rank load",
    "the paper, projected: peak sum, worst peak, attention, score",
    "the paper, measured on hardware",
)
PROJECTED = {
    ("tiny", "anneal:fixed"): "-3.13 %, -11.04 %, +0.09 %, -1.53 %",
    ("flash", "anneal:fixed"): "-3.24 %, -11.62 %, +0.77 %, -1.35 %",
}
MEASURED = {
    ("tiny", "identity-ffd"): "42.86 k tokens/s",
    ("tiny", "lpt-ffd"): "44.49 k tokens/s",
    ("tiny", "anneal:fixed"): "46.65 k tokens/s",
    ("flash", "identity-ffd"): "68.50 k tokens/s",
    ("flash", "lpt-ffd"): "75.69 k tokens/s",
    ("flash", "anneal:fixed"): "78.70 k tokens/s",
}


def _makespan(record: Record) -> int | None:
    return None if record.score is None else record.score.makespan


QUANTITIES: tuple[Callable[[Record], int | None], ...] = (
    lambda record: record.expert,
    lambda record: record.largest_peak,
    lambda record: record.attention,
    _makespan,
)


def group_of(record: Record) -> str:
    """Windows that are averaged: ``tiny``, ``flash``, or a real trace by itself."""
    size = record.instance.rpartition("-")[0]
    return size if size in PAPER_SIZES else record.instance


def paper_table(records: Iterable[Record]) -> list[list[str]]:
    """
    Rows of the table: changes against the reorder arm on the same window, and the variation of rank load as it is.

    Each is the mean over windows with Student's 95 % interval; runs of one window, under several limits or seeds, are averaged first.

    Parameters
    ----------
    records
        Of the paper suite.

    Returns
    -------
    list[list[str]]
        Cells in the order of `COLUMNS`.
    """
    runs: dict[str, dict[str, dict[str, list[Record]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for record in records:
        if record.score is not None:
            runs[group_of(record)][record.method][record.instance].append(record)
    groups = sorted(runs, key=lambda name: ([*PAPER_SIZES].index(name) if name in PAPER_SIZES else len(PAPER_SIZES), name))
    return [_row(name, arm, runs[name]) for name in groups for arm in ARMS if arm in runs[name]]


def _row(name: str, arm: str, methods: dict[str, dict[str, list[Record]]]) -> list[str]:
    windows, reference = methods[arm], methods.get(REFERENCE, {})
    cells = []
    for quantity in QUANTITIES:
        changes = []
        for instance, records in windows.items():
            mine, theirs = _mean_of(records, quantity), _mean_of(reference.get(instance, []), quantity)
            if mine is not None and theirs:
                changes.append(mine / theirs - 1)
        cells.append("reference" if arm == REFERENCE else _percent(changes))
    variations = [v for v in (_mean_of(records, lambda record: record.rank_variation) for records in windows.values()) if v is not None]
    middle, low, _ = mean(variations)
    spread = "" if low is None or middle is None else f" ± {middle - low:.4f}"
    cells.append("-" if middle is None else f"{middle:.4f}{spread}")
    return [name, ARMS[arm], str(len(windows)), *cells, PROJECTED.get((name, arm), ""), MEASURED.get((name, arm), "")]


def _mean_of(records: list[Record], quantity: Callable[[Record], float | None]) -> float | None:
    values = [value for value in map(quantity, records) if value is not None]
    return sum(values) / len(values) if values else None


def _percent(changes: list[float]) -> str:
    middle, low, _ = mean(changes)
    if middle is None:
        return "-"
    return f"{100 * middle:+.2f} %" + ("" if low is None else f" ± {100 * (middle - low):.2f}")
