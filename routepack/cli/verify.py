"""`routepack verify`: recompute every constraint, the score and the certificates of a plan."""

from pathlib import Path
from typing import Any

import click

from routepack.certificate import RowProof
from routepack.cli.arguments import takes_window
from routepack.cli.output import number, print_json, print_table
from routepack.cost import Cost
from routepack.errors import InvalidCertificate, InvalidInstance, InvalidPlan
from routepack.instance import Instance
from routepack.verify import Claims, verify


@click.command()
@takes_window
@click.argument("plan", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(instance: Instance, plan: Path, as_json: bool) -> None:
    """
    Recompute everything that PLAN claims about WINDOW; trust nothing in it.

    Give the same options as to solve: they are part of what was planned.

    \b
    Example:
      routepack verify window.npz plan.json
    """
    from routepack.instances.files import read_plan

    try:
        decisions, claims = read_plan(plan)
    except InvalidPlan as fault:
        raise InvalidInstance(str(fault)) from None  # not a wrong plan but no plan file: bad input
    try:
        cost, proof = verify(instance, decisions, claims)
    except (InvalidPlan, InvalidCertificate) as fault:
        if as_json:
            print_json({"status": "refused", "message": str(fault)})
        raise
    if as_json:
        print_json(_facts(claims, cost, proof))
    else:
        _print(instance, claims, cost, proof)


def _facts(claims: Claims, cost: Cost, proof: RowProof) -> dict[str, Any]:
    rows = {"count": proof.count, "status": proof.status, "cells_lower_bound": proof.cells_lower_bound}
    bound = {"value": claims.bound.value, "kind": claims.bound.kind}
    return {"status": "verified", "score": [int(part) for part in cost.score], "rows": rows, "bound": bound}


def _print(instance: Instance, claims: Claims, cost: Cost, proof: RowProof) -> None:
    window, options = instance.window, instance.options
    asked = [
        name
        for name, on in (
            ("equal samples", options.equal_samples),
            ("kept-together groups", options.keep_together),
            (f"row multiple {instance.row_multiple}", instance.row_multiple > 1),
        )
        if on
    ]
    checks = [
        ("instance", f"fingerprint {claims.sha256[:12]}"),
        (
            "placement",
            f"{window.num_layers} layers, {window.num_experts // instance.topology.ep} experts on each of {instance.topology.ep} ranks",
        ),
        ("samples", f"{number(window.num_samples)}, each in one cell"),
        ("cells", f"{number(proof.count * instance.topology.dp)}, none empty, none over {number(instance.token_cap)} tokens"),
        ("side constraints", ", ".join(asked) or "none asked"),
        ("rows", f"{proof.count}: {proof.status}"),
        ("row certificate", f"at least {number(proof.cells_lower_bound)} cells needed"),
        ("score", ", ".join(map(number, cost.score))),
        ("bound", f"{number(claims.bound.value)}, {claims.bound.kind}"),
    ]
    print_table(("check", "recomputed"), checks)
    click.echo("verified: every constraint holds and every claimed number is right")
