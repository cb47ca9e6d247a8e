"""`routepack bound`: every lower bound on the slowest shard, which one is best, and how long each took."""

import time
from typing import Any

import click
import numpy as np

from routepack.cli.arguments import takes_window
from routepack.cli.output import number, print_json, print_table
from routepack.instance import Instance
from routepack.plan import Placement


@click.command()
@takes_window
@click.option("--rows", type=click.IntRange(1), help="Number of rows that the bounds hold for; by default the number that solve would use.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(instance: Instance, rows: int | None, as_json: bool) -> None:
    """
    Show lower bounds on the score of WINDOW: for the placement by LPT and swaps, and for any placement.

    \b
    Example:
      routepack bound tinymoe-mixed
    """
    from routepack.fewest_rows import decide_rows
    from routepack.heuristics.placement import lpt_swap

    count = rows or decide_rows(instance).count
    loads = instance.window.demand.sum(axis=0, dtype=np.int64)
    placed = Placement(lpt_swap(loads, instance.topology.ep))
    found = {"placed": _bounds(instance, placed, count), "any_placement": _bounds(instance, None, count)}
    if as_json:
        print_json({"rows": count} | found)
        return
    click.echo(f"no plan with {count} rows has a slowest shard below, in ticks:")
    table = []
    for kind, placed_value in found["placed"].items():
        other = found["any_placement"][kind]
        seconds = f"{placed_value['seconds'] + other['seconds']:.2f} s"
        table.append([kind, number(placed_value["value"]), number(other["value"]), seconds])
    print_table(["bound", "placed by LPT + swaps", "any placement", "time"], table)
    best = max((entry["value"] or 0, kind) for kind, entry in found["any_placement"].items())
    click.echo(f"best for any placement: {number(best[0])} ({best[1]})")


def _bounds(instance: Instance, placement: Placement | None, rows: int) -> dict[str, dict[str, Any]]:
    from routepack.bounds.score import SCORE_BOUNDS

    found: dict[str, dict[str, Any]] = {}
    for kind, make in SCORE_BOUNDS.items():
        started = time.monotonic()
        proof = make(instance, placement, rows)
        found[kind] = {"value": None if proof is None else proof.value, "seconds": round(time.monotonic() - started, 3)}
    return found
