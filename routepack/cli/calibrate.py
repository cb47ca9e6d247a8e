"""`routepack calibrate`: measured microbatch times in, a cost model out, if the times determine one."""

import math
from pathlib import Path
from typing import Any

import click

from routepack.calibration import Calibration, Fit, calibrate
from routepack.cli.arguments import check_output
from routepack.cli.output import number, percent, print_json, print_table


@click.command()
@click.argument("timings", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where the cost model goes (JSON).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(timings: Path, output: Path | None, as_json: bool) -> None:
    """
    Fit attention and expert cost to TIMINGS, a CSV file with one line per microbatch.

    Columns: seconds, tokens and squared_tokens of the slowest slot, and token_slots of the fullest EP rank, added over layers. Kinds of
    attention are told apart by seconds:KIND for each of them and seconds:experts instead of seconds.

    \b
    Examples:
      routepack calibrate timings.csv -o cost.json
      routepack solve window.npz --cost cost.json
    """
    from routepack.instances.timings import read_timings, write_cost

    check_output(output)
    columns = read_timings(timings)
    found = calibrate(columns)
    count = len(next(iter(columns.values())))
    facts = _facts(found, count) | {"output": None if output is None or found.faults else str(output)}
    print_json(facts) if as_json else _print(facts)
    model = found.cost_model()
    if output is not None:
        write_cost(output, model)


def _facts(found: Calibration, count: int) -> dict[str, Any]:
    return {
        "microbatches": count,
        "fits": [_fit_facts(fit) for fit in found.fits],
        "faults": list(found.faults),
        "row_overhead": None if found.faults else found.row_overhead,
    }


def _fit_facts(fit: Fit) -> dict[str, Any]:
    known = [{"name": c.name, "value": c.value, "low": c.low, "high": c.high if math.isfinite(c.high) else None} for c in fit.coefficients]
    condition = fit.condition if math.isfinite(fit.condition) else None
    fitted = bool(known)
    return {
        "of": fit.of,
        "coefficients": known,
        "condition": condition,
        "explained": fit.explained if fitted else None,
        "median_error": fit.error if fitted else None,
        "faults": list(fit.faults),
        "notes": list(fit.notes),
    }


def _print(facts: dict[str, Any]) -> None:
    click.echo(f"{number(facts['microbatches'])} microbatches")
    for fit in facts["fits"]:
        if fit["coefficients"]:
            rows = [(c["name"], *(_seconds(c[key]) for key in ("value", "low", "high"))) for c in fit["coefficients"]]
            print_table((fit["of"], "fitted", "from", "to, 95 %"), rows)
            explained, error = percent(fit["explained"]), percent(fit["median_error"])
            click.echo(f"explains {explained} of the variance, half of the times within {error}; condition {fit['condition']:.3g}")
        for note in fit["notes"]:
            click.echo(f"note: {note}")
        for fault in fit["faults"]:
            click.echo(f"not determined: {fault}")
    if facts["row_overhead"] is not None:
        click.echo(f"row overhead {number(facts['row_overhead'])} ticks: solve --rows auto --row-overhead {facts['row_overhead']}")
    if facts["output"] is not None:
        click.echo(f"wrote {facts['output']}")


def _seconds(value: float | None) -> str:
    return "unbounded" if value is None else f"{value:.4g}"
