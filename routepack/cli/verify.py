"""`routepack verify`: recompute every constraint, the score and the certificates of a plan."""

from pathlib import Path
from typing import Any

import click

from routepack.certificate import RowProof
from routepack.cli.arguments import takes_window
from routepack.cli.facts import bound_facts, claim_facts, status_line
from routepack.cli.output import number, print_json, print_table
from routepack.cost import Cost
from routepack.errors import InvalidCertificate, InvalidInstance, InvalidPlan
from routepack.instance import Instance
from routepack.verify import Claims, optimal_by_bound, verify


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
    facts = {"status": "verified", "score": [int(part) for part in cost.score], "rows": rows}
    facts["plan_status"] = claims.status if optimal_by_bound(cost, claims.bound) or claims.status != "optimal" else "optimal, claimed"
    return facts | {"bound": bound_facts(claims.bound), "claimed": claim_facts(claims.solver)}


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
        *(
            ("bound", f"{number(bound.value)} for {bound.scope}, {bound.kind}")
            for bound in (claims.bound, claims.placement_bound)
            if bound is not None
        ),
    ]
    print_table(("check", "recomputed"), checks)
    click.echo("verified: every constraint holds and every number is right")
    if claims.solver is not None:
        said = status_line(claims.status, optimal_by_bound(cost, claims.bound), claim_facts(claims.solver))
        click.echo(f"{said}; what an engine claims is not checked")
