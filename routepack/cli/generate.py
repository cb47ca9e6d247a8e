"""`routepack generate`: windows with the statistics of real training."""

from pathlib import Path
from typing import Any

import click

from routepack.cli.arguments import check_output
from routepack.cli.output import plural


@click.command()
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--preset", help="Model whose layers, experts, top-k and attention are taken, such as ling-3.0-tiny.")
@click.option("--layers", type=int, help="MoE layers, without a preset.")
@click.option("--experts", type=int, help="Experts of a layer, without a preset.")
@click.option("--top-k", type=int, help="Experts that a token chooses, without a preset.")
@click.option("--samples", type=int, default=512, show_default=True, help="Samples of the window.")
@click.option("--prompts", type=int, help="Prompts that they answer; one for eight samples unless given.")
@click.option("--workload", default="math", show_default=True, help="Task whose lengths are drawn, such as gsm8k, long-cot or agent.")
@click.option("--router", default="skewed", show_default=True, help="Popularity of experts: skewed, medium or balanced.")
@click.option("--concentration", type=float, default=69.0, show_default=True, help="Likeness of samples: 69 is hard, 400 easy.")
@click.option("--domains", type=int, default=1, show_default=True, help="Domains that the prompts come from.")
@click.option("--dp", type=int, default=8, show_default=True, help="DP slots.")
@click.option("--ep", type=int, default=8, show_default=True, help="EP ranks of a shard.")
@click.option("--edp", type=int, help="EDP shards; dp / ep unless given.")
@click.option("--cap", "token_cap", type=int, default=8192, show_default=True, help="Tokens of a cell; longer samples are cut to it.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the window; equal options give equal files.")
@click.option("--model-seed", type=int, help="Seed of the expert popularity, so that several windows share a model.")
@click.option("--name", help="Name of the instance.")
def command(output: Path, **options: Any) -> None:
    """
    Make a window and write it to OUTPUT (.npz or .json).

    \b
    Example:
      routepack generate window.npz --preset ling-3.0-tiny --samples 512 --prompts 64 --seed 0
    """
    from routepack.instances.files import write_instance
    from routepack.instances.generators import generate

    check_output(output)
    instance = generate(**options)
    write_instance(output, instance)
    window = instance.window
    click.echo(
        f"{instance.name}: {plural(window.num_samples, 'sample')}, {plural(int(window.lengths.sum()), 'token')}, "
        f"{plural(window.num_layers, 'layer')} of {window.num_experts} experts; wrote {output}"
    )
