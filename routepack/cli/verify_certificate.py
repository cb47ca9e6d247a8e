"""`routepack verify-certificate`: recompute what a row certificate proves."""

from pathlib import Path

import click

from routepack.cli.output import number, print_json


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a file.")
def command(files: tuple[Path, ...], as_json: bool) -> None:
    """
    Recompute what each of FILES proves; trust nothing in it, need no solver.

    \b
    Example:
      routepack rows window.npz --certificates proofs/
      routepack verify-certificate proofs/*.json
    """
    from routepack.instances.certificates import read_certificate

    for file in files:
        proof = read_certificate(file)
        cells = proof.check()
        if as_json:
            print_json({"file": str(file), "status": "proved", "items": len(proof.lengths), "capacity": proof.capacity, "cells": cells})
        else:
            items = f"{number(len(proof.lengths))} items under a cap of {number(proof.capacity)}"
            click.echo(f"{file}: proved: {items} need at least {number(cells)} cells")
