"""`routepack check`: every heuristic and bound against proven optima and recorded scores."""

from typing import TYPE_CHECKING

import click

from routepack.cli.output import number, percent, plural, print_json, print_table

if TYPE_CHECKING:
    from routepack.studies.check import Verdict

REGRESSION = 1


@click.command()
@click.option("--update", is_flag=True, help="Record new best scores and values; refused where anything is worse than recorded.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@click.pass_context
def command(ctx: click.Context, update: bool, as_json: bool) -> None:
    """
    Run heuristics and bounds over the shipped windows, under attempt caps, and compare them with what is proved and recorded.

    Fails, with exit code 1, where a score is below a proven optimum, a bound above one, a plan or proof does not verify,
    a mean gap is above its recorded one, or a plan that follows from fixed rules is another than recorded.

    \b
    Example:
      routepack check
    """
    from routepack.studies import check
    from routepack.studies.best_known import read, shipped_file
    from routepack.studies.measured import outcomes

    found = list(outcomes())
    verdicts = check.update(found, shipped_file()) if update else check.judge(found, read(shipped_file()))
    faults = [f"{v.suite} {v.name}: {fault.text}" for v in verdicts for fault in v.faults]
    if as_json:
        groups = [
            {"suite": v.suite, "name": v.name, "windows": v.windows, "gap": v.gap, "recorded_gap": v.recorded_gap, "faults": len(v.faults)}
            for v in verdicts
        ]
        print_json({"passed": not faults, "groups": groups, "faults": faults})
    else:
        _print(verdicts, faults)
    if faults:
        ctx.exit(REGRESSION)


def _print(verdicts: "list[Verdict]", faults: list[str]) -> None:
    rows = [
        (
            f"{v.suite} {v.name}",
            number(v.windows),
            percent(v.gap, 3),
            percent(v.recorded_gap, 3),
            _word(v.gap, v.recorded_gap, bool(v.faults)),
        )
        for v in verdicts
    ]
    print_table(("method or bound", "windows", "mean gap", "recorded", ""), rows)
    for fault in faults[:20]:
        click.echo(fault)
    click.echo(plural(len(faults), "fault") if faults else "nothing got worse")


def _word(gap: float | None, recorded: float | None, failed: bool) -> str:
    if failed:
        return "FAILED"
    return "better" if gap is not None and recorded is not None and gap < recorded else "passed"
