"""`routepack report`: one HTML page about a plan or a study."""

from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from routepack.cli.arguments import OPTIONS, check_output, read_window, with_options
from routepack.errors import InvalidInstance, InvalidPlan

if TYPE_CHECKING:
    from routepack.studies.page import Report


def _takes_window_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(OPTIONS[1:]):
        function = option(function)
    return function


@click.command()
@click.argument("subject", type=click.Path(path_type=Path))
@click.option("--window", help="For a plan: the window that was planned, a file or the name of a shipped one.")
@_takes_window_options
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The page to write.")
@click.option("--figures", type=click.Path(path_type=Path), help="Write each figure as an SVG file into this folder, too.")
def command(subject: Path, window: str | None, output: Path, figures: Path | None, **options: Any) -> None:
    """
    Write one self-contained HTML page about SUBJECT: a plan file, or the folder of a study.

    For a plan, give the same options as to solve: they are part of what was planned.

    The page of a plan shows its window before (identity placement, first-fit decreasing) and after, the shards' timelines, and where the
    gap sits. Everything in it is recomputed; a plan that does not hold is refused.

    \b
    Examples:
      routepack report plan.json --window window.npz -o plan.html
      routepack report results/ -o report.html --figures figures/
    """
    from routepack.instances.atomic import write_atomically
    from routepack.studies.page import render, standalone

    check_output(output)
    if figures is not None and figures.exists() and not figures.is_dir():
        raise InvalidInstance(f"figures = {figures} is a file; give a folder.")
    report = _study(subject, window) if subject.is_dir() else _plan(subject, window, options)
    page = render(report).encode()
    write_atomically(output, _writer(page))
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        for figure in report.figures:
            write_atomically(figures / f"{figure.name}.svg", _writer(standalone(figure).encode()))
    click.echo(report.verdict)


def _writer(content: bytes) -> Callable[[IO[bytes]], None]:
    def write(file: IO[bytes]) -> None:
        file.write(content)

    return write


def _study(folder: Path, window: str | None) -> "Report":
    from routepack.studies.records import load
    from routepack.studies.study_report import study_report

    if window is not None:
        raise InvalidInstance(f"window = {window!r} is for plan files, but {folder} is a folder; leave it out.")
    records = load(folder)
    if not records:
        raise InvalidInstance(f"results = {str(folder)!r} has no records yet; run routepack study first.")
    return study_report(records, folder.resolve().name)


def _plan(plan: Path, window: str | None, options: dict[str, Any]) -> "Report":
    from routepack.instances.files import read_plan
    from routepack.studies.plan_report import plan_report

    if window is None:
        raise InvalidInstance("window is missing; give the window that was planned by --window.")
    try:
        decisions, claims = read_plan(plan)
    except InvalidPlan as fault:
        raise InvalidInstance(str(fault)) from None  # not a wrong plan but no plan file: bad input
    return plan_report(with_options(read_window(window), **options), decisions, claims)
