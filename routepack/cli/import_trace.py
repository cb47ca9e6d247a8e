"""`routepack import`: routed experts that a framework recorded, as a window."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from routepack.cli.arguments import check_output
from routepack.cli.output import plural

if TYPE_CHECKING:
    from routepack.instances.presets import Preset
    from routepack.instances.readers import Trace

NAMED = 5  # samples that a line names at most


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--format", "form", required=True, help="What wrote FILE, such as slime, sglang or verl; docs/traces.md lists them.")
@click.option("--model", required=True, help="Preset such as qwen3-30b-a3b, or the path of a Hugging Face config.json.")
@click.option("--dp", type=int, required=True, help="DP slots.")
@click.option("--ep", type=int, required=True, help="EP ranks of a shard.")
@click.option("--edp", type=int, help="EDP shards; dp / ep unless given.")
@click.option("--token-cap", type=int, required=True, help="Tokens of a cell.")
@click.option(
    "--length-multiple", type=int, default=1, show_default=True, help="The trainer pads a sample to a multiple of so many tokens."
)
@click.option("--on-missing", default="error", show_default=True, help="A sample without routes: error, drop or uniform.")
@click.option("--last-row", default="filler", show_default=True, help="The row of a sample's last token, if it has one: filler or routed.")
@click.option("--name", help="Name of the instance; that of FILE unless given.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Window to write (.npz or .json).")
def command(file: Path, form: str, model: str, output: Path, **options: Any) -> None:
    """
    Read the routed experts in FILE (.jsonl, .json, .npz, .npy or .pt) and write a window.

    \b
    Example:
      routepack import rollout.pt --format slime --model qwen3-30b-a3b --dp 2 --ep 8 --edp 1 --token-cap 20480 -o window.npz
    """
    from routepack.instance import Instance
    from routepack.instances.files import write_instance
    from routepack.instances.model_config import describe
    from routepack.instances.readers import ModelShape, read_trace
    from routepack.topology import Topology

    check_output(output)
    topology = Topology.of(options["dp"], options["ep"], options["edp"])
    sizes = _model(model)
    for line in describe(sizes):
        click.echo(line)
    trace = read_trace(file, form, ModelShape.of(sizes), on_missing=options["on_missing"], last_row=options["last_row"])
    instance = Instance(
        window=trace.window(),
        topology=topology,
        token_cap=options["token_cap"],
        name=options["name"] or file.stem,
        length_multiple=options["length_multiple"],
        cost=sizes.cost,
    )
    write_instance(output, instance)
    _print(trace)
    click.echo(f"wrote {output}")


def _model(name: str) -> "Preset":
    from routepack.errors import InvalidInstance
    from routepack.instances.model_config import read_config
    from routepack.instances.presets import PRESETS, preset

    if name in PRESETS:
        return preset(name)
    if not Path(name).exists():
        raise InvalidInstance(f"model = {name!r} is neither a file nor a preset; give a config.json or one of {', '.join(PRESETS)}.")
    return read_config(Path(name) / "config.json" if Path(name).is_dir() else name)


def _print(trace: "Trace") -> None:
    facts, tokens = trace.facts, int(trace.lengths.sum())
    what = plural(len(trace.lengths), "sample") if trace.has_samples else "no sample boundaries"
    click.echo(f"read: {what}, {plural(tokens, 'token')}, {plural(facts.rows_counted, 'token')} with routes")
    if not trace.has_samples:
        click.echo("note: the sum of all tokens stands as one sample: good for `routepack place`, not for a layout")
    slots = facts.unknown_tokens * trace.model.top_k * len(trace.model.moe_layers)
    unwritten = f", {plural(facts.unwritten_rows, 'row')} of zeros among them" if facts.unwritten_rows else ""
    click.echo(f"unknown: {plural(facts.unknown_tokens, 'token')}, {plural(slots, 'token-slot')}{unwritten}")
    if facts.repeated_choices:
        click.echo(f"repeated: {plural(facts.repeated_choices, 'choice')} of an expert that the token had named already; counted once")
    if facts.repeated_rows:
        click.echo(f"alike: {plural(facts.repeated_rows, 'row')} equal to the row before; many of them hint at a stale buffer")
    for title, names in (("dropped", trace.dropped), ("estimated as uniform", trace.estimated)):
        if names:
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            click.echo(f"{title}: {', '.join(names[:NAMED])}{more}; they have no routes")
