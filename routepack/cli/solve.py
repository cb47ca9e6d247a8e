"""`routepack solve`: a window in, a verified plan out."""

from pathlib import Path
from typing import Any

import click

from routepack.budget import Budget, Progress
from routepack.cli import INTERRUPTED
from routepack.cli.arguments import check_output, takes_window
from routepack.cli.facts import solve_facts, status_line
from routepack.cli.interrupt import interruptible
from routepack.cli.moving import move_facts, print_moves, takes_moves, with_current
from routepack.cli.output import live_progress, number, percent, plural, print_json, print_table
from routepack.errors import Infeasible
from routepack.instance import Instance
from routepack.result import Result

BASELINE = "identity-ffd"
DEFAULT_SECONDS = 1.0
TINY: dict[str, Any] = {"samples": 24, "token_cap": 1024, "seed": 0, "dp": 4, "ep": 2, "edp": 2, "layers": 2, "experts": 8, "top_k": 2}
TINY_ATTEMPTS = 100_000  # enough for experts to be re-placed on the way


class MethodName(click.ParamType[str]):
    """A key of the registry of methods, which is imported only when it is needed."""

    name = "method"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Show the choices in the help."""
        from routepack.planner import METHODS

        return f"[{'|'.join(METHODS)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse an unknown name with one line for each known one."""
        from routepack.planner import METHODS

        if value not in METHODS:
            self.fail(f"{value!r} is unknown; choose:\n" + "\n".join(f"  {name}: {text}" for name, text in METHODS.items()), param, ctx)
        return str(value)


class RowCount(click.ParamType[int | str]):
    """A number of rows, ``min`` or ``auto``."""

    name = "min|auto|N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Refuse what is neither."""
        if value in ("min", "auto") or isinstance(value, int):
            return value  # type: ignore[no-any-return]
        if not value.isdecimal():
            self.fail(f"{value!r} is no number of rows; give min, auto or a number.", param, ctx)
        return int(value)


@click.command()
@takes_window
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where the plan goes (JSON).")
@click.option("--method", type=MethodName(), default="anneal", show_default=True, help="How samples are laid out.")
@click.option("--time-limit", type=click.FloatRange(min=0), help="Seconds of planning; 1 unless --attempts is given.")
@click.option("--attempts", type=click.IntRange(min=0), help="Proposals; makes a run reproducible, byte for byte.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads; all cores unless given. Never changes the plan under --attempts.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of every random draw.")
@click.option(
    "--backend", type=click.Choice(["numba", "numpy"]), default="numba", show_default=True, help="Compiled, or without a compiler."
)
@click.option("--replace/--no-replace", default=True, show_default=True, help="Place experts again for the rows just laid out.")
@takes_moves
@click.option("--rows", type=RowCount(), default="min", show_default=True, help="Fewest rows, as many as pay, or so many.")
@click.option("--row-overhead", type=click.IntRange(min=0), default=0, show_default=True, help="Ticks that a row costs beside its tokens.")
@click.option("--islands", type=click.IntRange(min=1), default=1, show_default=True, help="Searches that exchange the best now and then.")
@click.option("--island-backend", default="loky", show_default=True, help="Where islands run: loky, threading, dask, ray.")
@click.option("--solver", default="highs", show_default=True, help="Of --method milp: highs, or any that Pyomo knows.")
@click.option("--log", type=click.Path(path_type=Path), help="Where the engine of an exact method writes its log.")
@click.option("--baseline/--no-baseline", default=True, show_default=True, help=f"Compare with {BASELINE}, outside the time limit.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.option("--quiet", is_flag=True, help="Print nothing when all goes well.")
@click.pass_context
def command(ctx: click.Context, /, instance: Instance, **options: Any) -> None:
    """
    Plan WINDOW: place experts, prove the rows, lay samples out, verify.

    \b
    Examples:
      routepack solve window.npz -o plan.json --time-limit 5
      routepack solve tinymoe-mixed --attempts 200000 --seed 7 --json
    """
    output, as_json, quiet = options.pop("output"), options.pop("as_json"), options.pop("quiet")
    with_baseline = options.pop("baseline")
    instance, parameters = with_current(instance, options.pop("current_placement")), options.pop("expert_parameters")
    check_output(output)
    try:
        result = _plan(instance, output, quiet or as_json, **options)
    except Infeasible as fault:
        if as_json:
            print_json(_refusal(fault))
        raise
    if not quiet:
        baseline = _baseline(instance, options["seed"]) if with_baseline and not result.interrupted else None
        facts = (
            solve_facts(instance, result, baseline)
            | move_facts(instance, result, parameters)
            | {"output": None if output is None else str(output)}
        )
        print_json(facts) if as_json else _print(facts)
    if result.interrupted:
        click.echo("interrupted: " + ("the best plan so far is written" if output else "no --output, so no plan is written"), err=True)
        ctx.exit(INTERRUPTED)


def _plan(instance: Instance, output: Path | None, silent: bool, time_limit: float | None, attempts: int | None, **options: Any) -> Result:
    from routepack.instances.files import write_result
    from routepack.planner import solve
    from routepack.refinement import load_engine

    if time_limit is None and attempts is None:
        time_limit = DEFAULT_SECONDS
    with interruptible() as interrupted:
        with live_progress(silent, instance) as report:
            if options["backend"] == "numba":
                report(Progress("compile, once after each installation", 0.0))
                _compile()
            report(Progress("load the engine", 0.0))
            load_engine(options["method"])
            result = solve(instance, budget=Budget(time_limit, attempts, interrupted, report), **options)
        if output is not None:
            write_result(output, result)
    return result


def _compile() -> None:
    """Compile the kernels, or load them compiled, by planning a tiny window before the clock starts."""
    from routepack.instances.generators import generate
    from routepack.planner import solve

    solve(generate(**TINY), budget=Budget(attempts=TINY_ATTEMPTS))


def _baseline(instance: Instance, seed: int) -> Result | None:
    from routepack.planner import solve

    try:
        return solve(instance, method=BASELINE, seed=seed)
    except Infeasible:
        return None


def _refusal(fault: Infeasible) -> dict[str, Any]:
    numbers = {key: getattr(fault, key) for key in ("cells_lower_bound", "needs_cells", "has_samples", "has_groups")}
    return {"status": "infeasible", "reason": fault.reason, "remedy": fault.remedy} | numbers


def _costs(facts: dict[str, Any]) -> list[tuple[str, int]]:
    names = ("slowest shard (score)", "all shards", "costliest row-shard")
    rest = (("expert peak sum", "expert_peak_sum"), ("largest peak", "largest_peak"), ("attention", "attention"))
    return [*zip(names, facts["score"], strict=True), *((name, facts[key]) for name, key in rest)]


def _print(facts: dict[str, Any]) -> None:
    window, topology, rows, baseline = facts["instance"], facts["instance"]["topology"], facts["rows"], facts["baseline"]
    click.echo(
        f"{window['name'] or 'window'}: {plural(window['samples'], 'sample')}, {plural(window['tokens'], 'token')}, "
        f"{plural(window['layers'], 'layer')} of {window['experts']} experts; "
        f"dp {topology['dp']}, ep {topology['ep']}, edp {topology['edp']}, cap {window['token_cap']:,}"
    )
    if baseline is None:
        print_table(("ticks", "plan"), [*((name, number(mine)) for name, mine in _costs(facts)), ("rows", str(rows["count"]))])
    else:
        pairs = zip(_costs(facts), _costs(baseline), strict=True)
        costs = [(name, number(mine), number(other), _change(mine, other)) for (name, mine), (_, other) in pairs]
        print_table(("ticks", "plan", BASELINE, "change"), [*costs, ("rows", str(rows["count"]), str(baseline["rows"]), "")])
    if facts["rows_tried"]:
        _print_tried(facts["rows_tried"])
    click.echo(status_line(facts["status"], facts["proved"], facts["solver"]))
    click.echo(f"rows {rows['count']}: {rows['status']}; at least {plural(rows['cells_lower_bound'], 'cell')} needed, certificate checked")
    bound, own = facts["bound"]["value"], facts["placement_bound"]["value"]
    click.echo(f"gap {percent(facts['gap'])}: no placement and layout scores below {bound:,}")
    click.echo(f"gap {percent(facts['placement_gap'])}: no layout scores below {own:,} under this placement")
    if facts["gain"] is not None:
        click.echo(f"{BASELINE} takes {facts['gain']:.2f} times as long, by the slowest shard")
    print_moves(facts["moves"])
    _print_notes(facts)
    method = facts["method"]
    written = f"; wrote {facts['output']}" if facts["output"] else ""
    click.echo(f"{method['name']}, seed {method['seed']}, {plural(method['attempts'], 'attempt')}, {facts['seconds']:.2f} s{written}")


def _print_tried(tried: list[dict[str, int]]) -> None:
    cheapest = min(row["cost"] for row in tried)
    rows = [(str(row["count"]), *(number(row[key]) for key in ("makespan", "cost")), _change(row["cost"], cheapest)) for row in tried]
    print_table(("rows, equal effort", "slowest shard", "with overhead", "extra"), rows)


def _change(mine: int, other: int) -> str:
    return f"{100 * (mine - other) / other:+.1f} %" if other else "-"


def _print_notes(facts: dict[str, Any]) -> None:
    window = facts["instance"]
    if facts["layers_at_their_bound"]:
        layers = f"{facts['layers_at_their_bound']} of {window['layers']} layers"
        click.echo(f"experts: in {layers} no permutation can lower the window's largest rank")
    if facts["layers_too_uneven_to_balance"]:
        click.echo(
            f"experts: no permutation can balance {plural(facts['layers_too_uneven_to_balance'], 'layer')}; single experts are too hot"
        )
    if window["flagged"]:
        click.echo(f"oversize: {plural(len(window['flagged']), 'sample')} over the cap, alone in a cell: {window['flagged'][:20]}")
    if window["padding_tokens"]:
        share = percent(window["padding_tokens"] / window["tokens"])
        click.echo(f"padding: {plural(window['padding_tokens'], 'token')}, {share} of the real ones")
    if window["unknown_token_slots"]:
        click.echo(f"routes: {plural(window['unknown_token_slots'], 'token-slot')} without a recorded expert")
    parts = window["topology"]["parts_per_slot"]
    if parts > 1:
        click.echo(f"split slots: each slot's tokens go over {parts} shards; the parts are taken as equal")
