"""`routepack rows`: the smallest number of rows, with its proof."""

import csv
import dataclasses
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from routepack.cli.arguments import check_output, read_window
from routepack.cli.output import number, print_json, print_table
from routepack.errors import InvalidInstance
from routepack.instance import Instance
from routepack.window import IntArray

WHAT_IF_CAPS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)


@dataclass(frozen=True, slots=True)
class Answer:
    """What one instance needs, as it is printed; ``milliseconds`` is the time of one check of the proof."""

    name: str
    items: int
    capacity: int
    slots: int
    rows: int
    status: str
    cells: int
    needed: int
    method: str
    seconds: float
    milliseconds: float


@click.command()
@click.argument("source")
@click.option("--time-limit", type=click.FloatRange(0), default=10.0, show_default=True, help="Seconds for each instance.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes for a suite.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write a .csv with one line an instance.")
@click.option(
    "--certificates", type=click.Path(path_type=Path, file_okay=False), help="Write a proof file for each instance into this folder."
)
@click.option("--what-if", is_flag=True, help="Show the rows of a window for other caps and slot counts.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object an instance.")
def command(
    source: str, time_limit: float, jobs: int, output: Path | None, certificates: Path | None, what_if: bool, as_json: bool
) -> None:
    """
    Find the fewest rows of SOURCE and prove that fewer are impossible.

    SOURCE is a window, a bin-packing file in the public text form, a folder of such files, or a .jsonl(.gz) suite.

    \b
    Example:
      routepack rows tinymoe-mixed
      routepack rows suite.jsonl.gz --jobs 2 -o results.csv --certificates proofs/
    """
    check_output(output)
    if certificates is not None:
        certificates.mkdir(parents=True, exist_ok=True)
    answers = []
    for answer in _answers(source, time_limit, jobs, certificates):
        answers.append(answer)
        if as_json:
            print_json(dataclasses.asdict(answer))
        else:
            click.echo(_line(answer))
    if output is not None:
        _write(output, answers)
    if len(answers) > 1 and not as_json:
        closed = sum(answer.status == "proved" for answer in answers)
        median = sorted(answer.seconds for answer in answers)[len(answers) // 2]
        click.echo(f"{number(len(answers))} instances: {number(closed)} proved, median {median:.3f} s")
    if what_if:
        _what_if(source, time_limit)


def _answers(source: str, time_limit: float, jobs: int, certificates: Path | None) -> Iterator[Answer]:
    from routepack.instances.suites import is_suite, read_suite

    if not is_suite(source):
        instance = read_window(source)
        yield _of_window(instance, instance.name or Path(source).stem, time_limit, certificates)
        return
    tasks = ((p.name, p.lengths, p.capacity, 1, 1) for p in read_suite(source))
    settle = partial(_settled, time_limit=time_limit, certificates=certificates)
    if jobs == 1:
        yield from map(settle, tasks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(settle, tasks)


def _of_window(instance: Instance, name: str, time_limit: float, certificates: Path | None) -> Answer:
    task = (name, instance.unit_lengths(), instance.token_cap, instance.topology.dp, instance.row_multiple)
    answer = _settled(task, time_limit, certificates)
    if not instance.options.equal_samples:
        return answer
    from routepack.fewest_rows import decide_rows

    rows = decide_rows(instance).count
    status = "proved" if rows == instance.rows_for(answer.needed) else f"best known, at least {instance.rows_for(answer.needed)}"
    return dataclasses.replace(answer, rows=rows, status=status, cells=rows * instance.topology.dp)


def _settled(task: tuple[str, IntArray, int, int, int], time_limit: float, certificates: Path | None) -> Answer:
    """Settle one instance and time one check of its proof."""
    from routepack.budget import Budget
    from routepack.instances.certificates import CellsProof, write_certificate
    from routepack.rows import settle

    name, lengths, capacity, slots, multiple = task
    started = time.perf_counter()
    found = settle(lengths, capacity, slots, multiple, Budget(time_limit))
    seconds = time.perf_counter() - started
    proof = CellsProof(name, lengths, capacity, found.tree or found.certificate)
    started = time.perf_counter()
    needed = proof.check()
    checked = 1000 * (time.perf_counter() - started)
    if certificates is not None:
        write_certificate(certificates / f"{Path(name).name or 'window'}.json", proof)
    rows, least = (-(-cells // (slots * multiple)) * multiple for cells in (found.cells, needed))
    status = "proved" if rows == least else f"best known, at least {least}"
    return Answer(name, len(lengths), capacity, slots, rows, status, found.cells, needed, found.method, seconds, checked)


def _line(answer: Answer) -> str:
    return (
        f"{answer.name}: rows {number(answer.rows)}: {answer.status}; cells {number(answer.cells)} found, at least {number(answer.needed)} "
        f"needed, by {answer.method}, checked in {answer.milliseconds:.0f} ms"
    )


def _write(path: Path, answers: list[Answer]) -> None:
    import io

    from routepack.instances.atomic import write_atomically

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in dataclasses.fields(Answer)])
    writer.writerows(dataclasses.astuple(answer) for answer in answers)
    content = text.getvalue().encode()

    def put(file: Any) -> None:
        file.write(content)

    write_atomically(path, put)


def _what_if(source: str, time_limit: float) -> None:
    """Print the rows of a window for other caps and slot counts; a dash where a sample exceeds the cap."""
    from routepack.budget import Budget
    from routepack.instances.suites import is_suite
    from routepack.rows import settle

    if is_suite(source):
        raise InvalidInstance("--what-if needs one window, not a suite; name a file.")
    instance = read_window(source)
    lengths, slots = instance.unit_lengths(), instance.topology.dp
    choices = sorted({max(1, slots // 2), slots, 2 * slots})
    table = []
    for cap in sorted({max(1, int(share * instance.token_cap)) for share in WHAT_IF_CAPS}):
        fits = int(lengths.max()) <= cap
        cells = []
        for count in choices:
            found = settle(lengths, cap, count, instance.row_multiple, Budget(time_limit)) if fits else None
            step = count * instance.row_multiple
            rows = [-(-n // step) * instance.row_multiple for n in (found.needed, found.cells)] if found else []
            enough = bool(rows) and rows[1] * count <= len(lengths)
            cells.append("-" if not enough else str(rows[0]) if rows[0] == rows[1] else f"{rows[0]} to {rows[1]}")
        table.append((number(cap), *cells))
    print_table(("rows by token cap", *(f"{count} slots" for count in choices)), table)
