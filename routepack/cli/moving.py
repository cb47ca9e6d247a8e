"""What moving experts from a current placement takes: the options, the numbers and the line that commands print."""

import dataclasses
from collections.abc import Callable
from typing import Any

import click

from routepack.cli.output import number, plural
from routepack.instance import Instance
from routepack.result import Result

OPTIONS = (
    click.option("--current-placement", help="Where experts are now: a JSON file, or the word contiguous."),
    click.option("--max-moves", type=click.IntRange(min=0), help="Experts of a layer that may leave their rank."),
    click.option("--tolerance", type=click.FloatRange(min=0), help="Leave a layer as it is within this excess over its bound."),
    click.option("--move-cost", type=click.FloatRange(min=0), help="Ticks to move one expert; layers where that pays not stay."),
    click.option("--expert-parameters", type=click.IntRange(1), help="Parameters of one expert, to print the bytes of moves."),
)


def takes_moves(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of moving."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


def with_current(instance: Instance, source: str | None) -> Instance:
    """
    Return the window with the placement that experts have now.

    Raises
    ------
    InvalidInstance
        The file holds no placement of this model and these ranks.
    """
    if source is None:
        return instance
    from routepack.heuristics.placement import identity
    from routepack.instances.placement_files import read_placement

    window, ranks = instance.window, instance.topology.ep
    current = identity(window.num_layers, window.num_experts, ranks) if source == "contiguous" else read_placement(source, ranks)
    return dataclasses.replace(instance, current_placement=current)


def move_facts(instance: Instance, result: Result, parameters: int | None) -> dict[str, Any]:
    """Moved experts and layers, transfer rounds, bytes if an expert's size is known, and the ticks that the slowest shard saves."""
    if instance.current_placement is None:
        return {"moves": None}
    from routepack.cost import cost
    from routepack.instances.moves import list_moves, traffic, transfer_rounds
    from routepack.plan import Placement, Plan

    topology = instance.topology
    moves = list_moves(instance.current_placement, result.placement, topology.ep)
    stay = cost(instance, Plan(Placement(instance.current_placement), result.plan.layout))
    facts: dict[str, Any] = {
        "experts": len(moves),
        "layers": len({move.layer for move in moves}),
        "rounds": len(transfer_rounds(moves)),
        "gain": stay.score.makespan - result.score.makespan,
    }
    if parameters is not None:
        sent = traffic(moves, parameters, shards=topology.edp)
        facts |= {"weight_bytes": sent.weight_bytes, "all_bytes": sent.all_bytes}
    return {"moves": facts}


def print_moves(facts: dict[str, Any] | None) -> None:
    """Say what moves, if there is a current placement."""
    if facts is None:
        return
    size = ""
    if "all_bytes" in facts:
        size = f", {facts['weight_bytes'] / 1e9:,.3f} GB ({facts['all_bytes'] / 1e9:,.3f} GB with optimizer state)"
    click.echo(
        f"moves: {plural(facts['experts'], 'expert')} of {plural(facts['layers'], 'layer')} in {plural(facts['rounds'], 'round')}{size}; "
        f"{number(facts['gain'])} ticks less than the same layout without moves"
    )
