"""`routepack info`: what is in a window, and what could be gained."""

from typing import Any

import click
import numpy as np

from routepack.certificate import placement_bounds
from routepack.cli.arguments import takes_window
from routepack.cli.facts import cost_facts, gain, window_facts
from routepack.cli.output import number, percent, plural, print_json, print_table
from routepack.errors import Infeasible
from routepack.instance import Instance
from routepack.plan import Placement
from routepack.verify import recompute_bound
from routepack.window import IntArray

BASELINE = "identity-ffd"
BINS = 8
BAR = 40
WORST = 5


@click.command()
@takes_window
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(instance: Instance, as_json: bool) -> None:
    """
    Show what is in WINDOW: sizes, lengths, skew of the experts, bounds, and what planning could gain.

    \b
    Example:
      routepack info tinymoe-mixed
    """
    facts = window_facts(instance) | {"lengths": _lengths(instance), "skew": _skew(instance)} | _outlook(instance)
    print_json(facts) if as_json else _print(facts)


def _lengths(instance: Instance) -> dict[str, Any]:
    lengths = instance.window.lengths
    counts, edges = np.histogram(lengths, bins=min(BINS, max(1, int(np.ptp(lengths)))))
    return {
        "min": int(lengths.min()),
        "median": float(np.median(lengths)),
        "p90": float(np.percentile(lengths, 90)),
        "max": int(lengths.max()),
        "histogram": {"edges": [round(float(edge), 1) for edge in edges], "counts": counts.tolist()},
    }


def _skew(instance: Instance) -> list[dict[str, Any]]:
    from routepack.heuristics.placement import identity, lpt_swap, rank_loads

    window, ranks = instance.window, instance.topology.ep
    loads = window.demand.sum(axis=0, dtype=np.int64)  # (layer, expert)
    own = identity(window.num_layers, window.num_experts, ranks)
    peaks = {
        "identity": rank_loads(own, loads, ranks).max(axis=1),
        "placed": rank_loads(lpt_swap(loads, ranks), loads, ranks).max(axis=1),
        "bound": placement_bounds(loads, ranks),
    }
    named = range(window.num_layers) if window.moe_layers is None else window.moe_layers.tolist()
    return [_layer_skew(int(name), loads[k], {key: int(peak[k]) for key, peak in peaks.items()}, ranks) for k, name in enumerate(named)]


def _layer_skew(layer: int, loads: IntArray, peaks: dict[str, int], ranks: int) -> dict[str, Any]:
    total = int(loads.sum())
    over_mean = {key: peak * ranks / total if total else None for key, peak in peaks.items()}
    return {"layer": layer, "expert": int(loads.max()) * len(loads) / total if total else None} | over_mean


def _outlook(instance: Instance) -> dict[str, Any]:
    """Bounds, and what the baseline costs beside them; or why no plan exists."""
    from routepack.bounds.rows import prove_cells
    from routepack.heuristics.placement import identity
    from routepack.planner import solve

    window, topology = instance.window, instance.topology
    own = Placement(identity(window.num_layers, window.num_experts, topology.ep))
    bounds = {"any_placement": recompute_bound(instance, None).value, "identity": recompute_bound(instance, own).value}
    try:
        cells = prove_cells(instance.unit_lengths(), instance.token_cap).cells
        rows = instance.rows_for(cells)
        tokens = int(instance.unit_lengths().sum())
        known = {
            "rows": {"at_least": rows, "cells_at_least": cells},
            "utilisation": tokens / (rows * topology.dp * instance.token_cap),
        }
        baseline = solve(instance, method=BASELINE)
    except Infeasible as fault:
        return {"status": "infeasible", "reason": fault.reason, "remedy": fault.remedy, "bounds": bounds}
    most = gain(bounds["any_placement"], baseline.score.makespan)
    found = {"method": BASELINE, "rows": baseline.rows.count} | cost_facts(baseline)
    return {"status": "feasible"} | known | {"bounds": bounds, "baseline": found, "gain_at_most": most}


def _print(facts: dict[str, Any]) -> None:
    topology = facts["topology"]
    click.echo(f"{facts['name'] or 'window'}: {plural(facts['samples'], 'sample')}, {plural(facts['tokens'], 'token')}")
    click.echo(f"model: {plural(facts['layers'], 'MoE layer')} of {plural(facts['experts'], 'expert')}")
    click.echo(
        f"topology: {topology['dp']} DP slots, {topology['ep']} EP ranks, {topology['edp']} EDP shards; cap {facts['token_cap']:,} tokens"
    )
    if facts["unknown_token_slots"]:
        click.echo(f"routes: {plural(facts['unknown_token_slots'], 'token-slot')} without a recorded expert")
    _print_lengths(facts["lengths"])
    _print_skew(facts["skew"])
    if facts["status"] == "infeasible":
        click.echo(f"no plan exists: {facts['reason']}; {facts['remedy']}")
        return
    rows, bounds, baseline = facts["rows"], facts["bounds"], facts["baseline"]
    click.echo(
        f"rows: at least {rows['at_least']}, for at least {plural(rows['cells_at_least'], 'cell')}; "
        f"so many rows are {percent(facts['utilisation'], 1)} full"
    )
    click.echo(
        f"score: no plan below {number(bounds['any_placement'])} ticks, none below {number(bounds['identity'])} without moving experts"
    )
    click.echo(
        f"{BASELINE}, experts in place and lengths only, would cost {number(baseline['score'][0])} in {plural(baseline['rows'], 'row')}"
    )
    if facts["gain_at_most"] is not None:
        click.echo(f"to gain: at most {facts['gain_at_most']:.2f} times the speed; `routepack solve` shows how much of it")


def _print_lengths(lengths: dict[str, Any]) -> None:
    summary = ", ".join(f"{key} {lengths[key]:,.0f}" for key in ("min", "median", "p90", "max"))
    click.echo(f"lengths: {summary} tokens")
    edges, counts = lengths["histogram"]["edges"], lengths["histogram"]["counts"]
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        bar = "#" * -(-BAR * count // max(counts))
        click.echo(f"  {low:>9,.0f} to {high:>9,.0f}  {count:>6,}  {bar}".rstrip())


def _print_skew(skew: list[dict[str, Any]]) -> None:
    worst = sorted(skew, key=lambda layer: -(layer["identity"] or 0))[:WORST]
    keys = ("expert", "identity", "placed", "bound")
    shown = f"layer, worst {len(worst)} of {len(skew)}" if len(worst) < len(skew) else "layer"
    means = [layer for layer in skew if layer["expert"] is not None]
    rows = [[str(layer["layer"]), *(number(layer[key]) for key in keys)] for layer in worst]
    if means:
        rows.append(["mean of all", *(number(sum(layer[key] for layer in means) / len(means)) for key in keys)])
    click.echo("skew: largest over mean, of the experts, and of the ranks by identity, by LPT + swaps, and by the best that could be")
    print_table((shown, "experts", "ranks, identity", "ranks, placed", "ranks, bound"), rows)
