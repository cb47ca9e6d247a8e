"""`routepack study`: many runs, written down one by one."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from routepack.cli.output import number, percent, plural, print_json, print_table

if TYPE_CHECKING:
    from routepack.studies.records import Record
    from routepack.studies.statistics import Summary


class Listed(click.ParamType[Any]):
    """Values separated by commas."""

    def __init__(self, kind: Callable[[str], Any], name: str) -> None:
        self.kind, self.name = kind, name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        """Convert each of them."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(self.kind(part.strip()) for part in str(value).split(",") if part.strip())
        except ValueError:
            self.fail(f"{value!r} is no list of {self.name}s separated by commas", param, ctx)


@click.command()
@click.argument("sources", nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder of the records.")
@click.option(
    "--methods", type=Listed(str, "name"), default=(), help="Methods, the suite's own unless given; NAME:fixed does not re-place."
)
@click.option("--time-limits", type=Listed(float, "number"), default=(), help="Seconds; 1 unless --attempts is given.")
@click.option("--attempts", type=Listed(int, "number"), default=(), help="Proposals; such runs are reproducible.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Seeds 0 to SEEDS - 1.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Runs at the same time, of one thread each.")
@click.option("--backend", type=click.Choice(["loky", "ray", "dask"]), default="loky", show_default=True, help="Who does the runs.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.option("--quiet", is_flag=True, help="Print nothing when all goes well.")
def command(
    sources: tuple[str, ...],
    output: Path,
    methods: tuple[str, ...],
    time_limits: tuple[float, ...],
    attempts: tuple[int, ...],
    seeds: int,
    jobs: int,
    backend: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """
    Run methods over SOURCES: the suites small, production, paper and rows, files, folders or patterns.

    Runs that OUTPUT has a record of are not done again, so a study that was stopped goes on; failed runs are tried again.

    \b
    Examples:
      routepack study small --methods anneal,lpt-ffd --time-limits 0.2,1 --seeds 10 -o results/
      routepack study paper --jobs 2 -o results/
    """
    from routepack.studies.runner import Design, run_study
    from routepack.studies.statistics import summaries

    design = Design(sources, methods, time_limits, attempts, seeds)
    with _progress(quiet or as_json) as report:
        records = run_study(design, output, jobs=jobs, backend=backend, report=report)
    found = summaries(records)
    if as_json:
        print_json({"runs": len(records), "failed": sum(r.status == "failed" for r in records), "methods": [s._asdict() for s in found]})
    elif not quiet:
        _print(records, found)


@contextmanager
def _progress(silent: bool) -> Iterator[Callable[[int, int, "Record | None"], None]]:
    """Yield what moves a bar on stderr, with the time to go, if that is a terminal."""
    if silent or not sys.stderr.isatty():
        yield lambda done, total, record: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("to go"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("runs", total=None)

        def show(done: int, total: int, record: "Record | None") -> None:
            name = "runs" if record is None else f"{record.instance} {record.method}"
            bar.update(task, completed=done, total=total, description=name)

        yield show


def _print(records: "list[Record]", found: "list[Summary]") -> None:
    if found and found[0].suite == "paper":
        _print_paper(records)
    for suite in dict.fromkeys(line.suite for line in found):
        _print_suite(suite, [line for line in found if line.suite == suite])
    failed = [record for record in records if record.status == "failed"]
    click.echo(f"{plural(len(records), 'run')}, {number(len(failed))} failed")
    for record in failed[:5]:
        click.echo(f"  {record.instance} {record.method} {record.limit} seed {record.seed}: {record.error}")


def _print_suite(suite: str, found: "list[Summary]") -> None:
    known = any(line.hits is not None for line in found)
    rows = []
    for line in found:
        against = [_share(line.over_best)]
        if known:
            interval = "-" if line.hits is None else f"{percent(line.hits_low, 0)} to {percent(line.hits_high, 0)}"
            against = [_share(line.optimality_gap), "-" if line.hits is None else f"{line.hits}/{line.optima_known}", interval]
        rows.append([line.method, line.limit, number(line.windows), *against, _share(line.certified_gap), f"{line.seconds:.2f} s"])
    against = ["over optimum", "optima hit", "95 %"] if known else ["over best seen"]
    print_table((suite, "limit", "windows", *against, "certified gap", "time"), rows)


def _share(value: float | None) -> str:
    return "-" if value is None else percent(value)


def _print_paper(records: "list[Record]") -> None:
    from routepack.studies.paper import COLUMNS, paper_table

    print_table(COLUMNS, paper_table(records))
