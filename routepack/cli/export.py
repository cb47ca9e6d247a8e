"""`routepack export`: a plan in the shape that a trainer or a serving engine takes."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import click

from routepack.cli.arguments import OPTIONS, check_output, read_window, with_options
from routepack.errors import InvalidInstance, InvalidPlan
from routepack.instance import Instance
from routepack.plan import Plan


class FormatName(click.ParamType[str]):
    """A key of the registry of forms, which is imported only when it is needed."""

    name = "format"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Show the choices in the help."""
        from routepack.instances.writers.registry import FORMATS

        return f"[{'|'.join(FORMATS)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse an unknown name."""
        from routepack.instances.writers.registry import FORMATS

        if value not in FORMATS:
            self.fail(f"{value!r} is unknown; choose {', '.join(FORMATS)}.", param, ctx)
        return str(value)


def takes_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that belong to a window."""
    for option in reversed(OPTIONS[1:]):
        function = option(function)
    return function


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.option("--format", "form", type=FormatName(), required=True, help="What takes the plan.")
@click.option("--window", help="The window of the plan: its lengths, layer numbers and current placement; the plan is held against it.")
@click.option("--current-placement", help="moves: placement now, a JSON file, or the word contiguous.")
@click.option("--expert-parameters", type=click.IntRange(1), help="moves: parameters of one expert, to print bytes.")
@click.option("--model-layers", type=click.IntRange(1), help="sglang: layers of its map; dense ones get the identity.")
@click.option("--cp", type=click.IntRange(1), default=1, show_default=True, help="megatron: context-parallel ranks of a slot.")
@takes_options
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where the export goes; stdout unless given.")
def command(plan: Path, form: str, window: str | None, output: Path | None, **options: Any) -> None:
    """
    Write PLAN in the shape that a trainer or a serving engine takes; an order of samples has its inverse beside it.

    \b
    Examples:
      routepack export plan.json --format slime -o schedule.json
      routepack export plan.json --window window.npz --format trtllm -o placement.yaml
      routepack export plan.json --format moves --current-placement contiguous --expert-parameters 4718592
    """
    from routepack.instances.writers.registry import text_of

    check_output(output)
    text = text_of(form, _export(plan, window, **options))
    if output is None:
        click.echo(text, nl=False)
        return
    _write(output, text)
    click.echo(f"{form}: wrote {output}", err=True)


def _export(plan: Path, window: str | None, current_placement: str | None, expert_parameters: int | None, cp: int, **options: Any) -> Any:
    from routepack.instances.files import read_plan
    from routepack.instances.writers.registry import Export

    try:
        decisions, claims = read_plan(plan)
    except InvalidPlan as fault:
        raise InvalidInstance(str(fault)) from None  # not a wrong plan but no plan file: bad input
    model_layers = options.pop("model_layers")
    export = Export(decisions, parameters=expert_parameters, cp=cp, model_layers=model_layers)
    current = None if current_placement is None else _current(current_placement, export)
    if window is not None:
        instance = with_options(read_window(window), **options)
        export = dataclasses.replace(export, **_window_facts(instance, current, decisions, claims.sha256))
    elif any(options.values()):
        raise InvalidInstance("--oversize, --equal-samples, --keep-together, --sync and --cost belong to a window; give --window.")
    return export if current is None else dataclasses.replace(export, current=current)


def _window_facts(instance: Instance, current: Any, plan: Plan, sha256: str) -> dict[str, Any]:
    from routepack.verify import verify_plan

    if instance.sha256() != sha256 and current is not None:
        instance = dataclasses.replace(instance, current_placement=current)
    if instance.sha256() != sha256:
        raise InvalidInstance("window is not the one that was planned; give that one, with the options of routepack solve.")
    verify_plan(instance, plan)
    numbers: Sequence[int] | None = None if instance.window.moe_layers is None else instance.window.moe_layers.tolist()
    return {
        "lengths": instance.aligned_lengths.tolist(),
        "moe_layers": numbers,
        "current": instance.current_placement,
        "shards": instance.topology.edp,
    }


def _current(source: str, export: Any) -> Any:
    from routepack.instances.placement_files import read_placement

    if source == "contiguous":
        from routepack.heuristics.placement import identity

        layers, experts = export.plan.placement.rank_of_expert.shape
        return identity(layers, experts, export.num_ranks)
    return read_placement(source, export.num_ranks)


def _write(path: Path, text: str) -> None:
    from routepack.instances.atomic import write_atomically

    def put(file: IO[bytes]) -> None:
        file.write(text.encode())

    write_atomically(path, put)
