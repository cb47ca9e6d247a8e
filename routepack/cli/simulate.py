"""`routepack simulate`: replay the step under a plan."""

import json
from pathlib import Path
from typing import Any

import click

from routepack.cli.arguments import check_output, takes_window
from routepack.cli.output import number, percent, print_json, print_table
from routepack.errors import InvalidInstance, InvalidPlan
from routepack.instance import Instance


@click.command()
@takes_window
@click.argument("plan", type=click.Path(path_type=Path))
@click.option("--pp", type=click.IntRange(1), default=1, show_default=True, help="Pipeline stages, by the 1F1B schedule.")
@click.option("--dispatch", type=click.FloatRange(0), default=0.0, show_default=True, help="Ticks that moving one token-slot costs.")
@click.option("--trace", "trace_file", type=click.Path(path_type=Path), help="Write a trace for Perfetto or chrome://tracing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(instance: Instance, plan: Path, pp: int, dispatch: float, trace_file: Path | None, as_json: bool) -> None:
    """
    Replay the step that PLAN makes of WINDOW: how long it takes, and which ranks wait.

    The plan is verified first. Give the same options as to solve. Without --dispatch and --pp the time equals the score.

    \b
    Example:
      routepack simulate window.npz plan.json --pp 4 --trace step.json
    """
    from routepack.instances.atomic import write_atomically
    from routepack.instances.files import read_plan
    from routepack.studies.simulator import simulate
    from routepack.studies.trace import trace
    from routepack.verify import verify

    check_output(trace_file)
    try:
        decisions, claims = read_plan(plan)
    except InvalidPlan as fault:
        raise InvalidInstance(str(fault)) from None  # not a wrong plan but no plan file: bad input
    cost, _ = verify(instance, decisions, claims)
    replay = simulate(instance, decisions, pp=pp, dispatch=dispatch)
    if trace_file is not None:
        content = json.dumps(trace(replay, instance.name)).encode()
        write_atomically(trace_file, lambda file: _put(file, content))
    idle = replay.idle_share
    facts = {
        "time": replay.time,
        "score": cost.score.makespan,
        "pp": pp,
        "dispatch": dispatch,
        "tokens_per_tick": replay.tokens_per_tick,
        "idle_share": {"mean": float(idle.mean()), "least": float(idle.min()), "most": float(idle.max()), "ranks": idle.tolist()},
    }
    print_json(facts) if as_json else _print(facts)


def _put(file: Any, content: bytes) -> None:
    file.write(content)


def _print(facts: dict[str, Any]) -> None:
    idle = facts["idle_share"]
    rows = [
        ("time, ticks", number(facts["time"])),
        ("score of the plan, ticks", number(facts["score"])),
        ("tokens per tick", number(facts["tokens_per_tick"])),
        ("idle share, mean of the ranks", percent(idle["mean"])),
        ("idle share, busiest rank", percent(idle["least"])),
        ("idle share, idlest rank", percent(idle["most"])),
    ]
    print_table(("replay", f"pp {facts['pp']}, dispatch {facts['dispatch']:g}"), rows)
