"""`routepack place`: the placement stage alone."""

import time
from pathlib import Path
from typing import IO, Any

import click
import numpy as np

from routepack.budget import Budget
from routepack.certificate import placement_bounds
from routepack.cli.arguments import check_output, takes_window
from routepack.cli.interrupt import interruptible
from routepack.cli.output import number, percent, print_json, print_table
from routepack.errors import InvalidInstance
from routepack.instance import Instance
from routepack.window import IntArray

METHODS = ("identity", "lpt", "lpt-swap", "cp-sat", "milp")
EXACT = ("cp-sat", "milp")


@click.command()
@takes_window
@click.option("--method", type=click.Choice(METHODS), default="lpt-swap", show_default=True, help="How experts are placed.")
@click.option("--solver", default="highs", show_default=True, help="Solver of the milp method: highs, or any that Pyomo knows.")
@click.option("--time-limit", type=click.FloatRange(0), default=10.0, show_default=True, help="Seconds of an exact method.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Threads of an exact method.")
@click.option("--max-moves", type=click.IntRange(0), help="Experts of a layer that may leave the rank they are on now (exact methods).")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the placement as JSON, [layer][expert] -> EP rank.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(
    instance: Instance,
    method: str,
    solver: str,
    time_limit: float,
    threads: int,
    max_moves: int | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """
    Place the experts of WINDOW on EP ranks and say how far each layer is from its bound.

    \b
    Example:
      routepack place tinymoe-mixed --method cp-sat --time-limit 5
    """
    check_output(output)
    if max_moves is not None and (method not in EXACT or instance.current_placement is None):
        raise InvalidInstance(f"max_moves = {max_moves} needs a current placement in the window and --method cp-sat or milp.")
    loads = instance.window.demand.sum(axis=0, dtype=np.int64)  # (layer, expert)
    started = time.monotonic()
    ranks, bounds = _place(instance, loads, method, solver, time_limit, threads, max_moves)
    seconds = time.monotonic() - started
    peaks = np.array([np.bincount(row, weights, instance.topology.ep).max() for row, weights in zip(ranks, loads, strict=True)])
    facts = {
        "method": method,
        "seconds": round(seconds, 3),
        "peaks": [int(peak) for peak in peaks],
        "bounds": [int(bound) for bound in bounds],
        "optimal_layers": int((peaks == bounds).sum()),
        "placement": ranks.tolist(),
    }
    if output is not None:
        _write(output, facts["placement"])
    print_json(facts) if as_json else _print(facts)


def _place(
    instance: Instance, loads: IntArray, method: str, solver: str, time_limit: float, threads: int, max_moves: int | None
) -> tuple[IntArray, IntArray]:
    from routepack.heuristics import placement as placements

    ranks = instance.topology.ep
    if method == "identity":
        return placements.identity(loads.shape[0], loads.shape[1], ranks), placement_bounds(loads, ranks)
    if method not in EXACT:
        place = placements.lpt if method == "lpt" else placements.lpt_swap
        return place(loads, ranks), placement_bounds(loads, ranks)
    from routepack.exact import Settings
    from routepack.exact_placement import place_exact

    hint = placements.lpt_swap(loads, ranks)
    if max_moves is not None and instance.current_placement is not None:
        hint = np.asarray(instance.current_placement)
    settings = Settings(engine="cp-sat" if method == "cp-sat" else "milp", solver=solver, threads=threads)
    with interruptible() as interrupted:
        budget = Budget(seconds=time_limit, interrupted=interrupted)
        found = place_exact(loads, ranks, hint, current=instance.current_placement, max_moves=max_moves, budget=budget, settings=settings)
    return found.ranks, found.bounds


def _write(path: Path, placement: list[list[int]]) -> None:
    import json

    from routepack.instances.atomic import write_atomically

    def put(file: IO[bytes]) -> None:
        file.write(json.dumps(placement).encode())

    write_atomically(path, put)


def _print(facts: dict[str, Any]) -> None:
    peaks, bounds = facts["peaks"], facts["bounds"]
    gaps = [(peak - bound) / bound if bound else 0.0 for peak, bound in zip(peaks, bounds, strict=True)]
    worst = sorted(range(len(peaks)), key=lambda layer: -gaps[layer])[:5]
    click.echo(
        f"{facts['method']}: {facts['optimal_layers']} of {len(peaks)} layers optimal, "
        f"mean gap {percent(sum(gaps) / len(gaps))}, {facts['seconds']:.2f} s"
    )
    print_table(
        ["layer", "largest rank", "bound", "gap"],
        [[str(layer), number(peaks[layer]), number(bounds[layer]), percent(gaps[layer])] for layer in worst],
    )
