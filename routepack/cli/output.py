"""What commands print: numbers, tables, the progress line and JSON."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from routepack.budget import Progress
from routepack.instance import Instance
from routepack.verify import recompute_bound


def number(value: float | None) -> str:
    """Write a count with thousands separated, a ratio with three decimals, and an unknown value as a dash."""
    if value is None:
        return "-"
    return f"{value:,.3f}" if isinstance(value, float) else f"{value:,}"


def percent(value: float | None, digits: int = 2) -> str:
    """Write a share of one, or ``unknown``."""
    return "unknown" if value is None else f"{100 * value:.{digits}f} %"


def plural(count: int, noun: str) -> str:
    """Write a count with its noun."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def print_json(value: dict[str, Any]) -> None:
    """Write one object on one line."""
    click.echo(json.dumps(value))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on stdout, its first column to the left and the others to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for n, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if n else "left", no_wrap=n == 0)
    for row in rows:
        table.add_row(*map(Text, row))
    Console(highlight=False).print(table)


def progress_line(progress: Progress, bound: int) -> str:
    """One line of progress: phase, time, score, gap, temperature, as far as they are known."""
    parts = [progress.phase, f"{progress.seconds:.1f} s"]
    if progress.score is not None:
        parts.append(f"score {progress.score:,}")
        best = max(bound, progress.bound or 0)
        if best:
            parts.append(f"gap {percent((progress.score - best) / best)}")
    if progress.temperature is not None:
        parts.append(f"temperature {progress.temperature:,.3g}")
    return "  ".join(parts)


@contextmanager
def live_progress(quiet: bool, instance: Instance) -> Iterator[Callable[[Progress], None]]:
    """Yield what shows a report: a line on stderr that renews itself, if that is a terminal; the gap is to any placement."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    bound = recompute_bound(instance, None).value
    with Live(console=Console(stderr=True), transient=True, refresh_per_second=8) as live:
        yield lambda progress: live.update(Text(progress_line(progress, bound)))
