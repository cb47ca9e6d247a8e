"""Measured microbatch times as CSV, and the cost models that follow from them as JSON."""

import csv
import math
import os
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from routepack.cost_model import CostModel
from routepack.errors import InvalidInstance
from routepack.instances.atomic import write_atomically
from routepack.instances.documents import Fields, brief, dump, parse
from routepack.instances.instance_form import cost_from_dict, cost_to_dict

FORMAT = "routepack-cost"
KEYS = ("format", "version", "cost")
MAX_BYTES = 1 << 26


def read_timings(path: str | os.PathLike[str]) -> dict[str, NDArray[np.float64]]:
    """
    Read columns of non-negative numbers under a line of names.

    Raises
    ------
    InvalidInstance
        The file cannot be read, or an entry is no such number; its line and column are named.
    """
    lines = list(csv.reader(_text(path).decode("utf-8-sig", errors="replace").splitlines()))
    name = os.fspath(path)
    if not lines or not any(lines[0]):
        raise InvalidInstance(f"{name} is empty; begin with a line of column names.")
    names = [entry.strip() for entry in lines[0]]
    twice = next((column for n, column in enumerate(names) if column in names[:n]), None)
    if twice is not None:
        raise InvalidInstance(f"{name}: column {brief(twice)} stands twice; name each once.")
    columns: list[list[float]] = [[] for _ in names]
    for n, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        if len(line) != len(names):
            raise InvalidInstance(f"{name}: line {n} has {len(line)} entries for {len(names)} columns; complete it.")
        for column, key, entry in zip(columns, names, line, strict=True):
            column.append(_number(f"{name}: line {n}, {key}", entry))
    return {key: np.array(column) for key, column in zip(names, columns, strict=True)}


def _number(place: str, entry: str) -> float:
    try:
        value = float(entry)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise InvalidInstance(f"{place} = {brief(entry)} is no number of at least 0; correct it or leave the line out.")
    return value


def read_cost(path: str | os.PathLike[str]) -> CostModel:
    """
    Read a cost model.

    Raises
    ------
    InvalidInstance
        The file cannot be read or is malformed; the place is named.
    """
    try:
        fields = Fields(parse(_text(path)), "", KEYS, KEYS, InvalidInstance)
        fields.check_format(FORMAT)
        return cost_from_dict(fields.values["cost"])
    except ValueError as fault:
        raise InvalidInstance(f"{os.fspath(path)}: {fault}") from None


def write_cost(path: str | os.PathLike[str], model: CostModel) -> None:
    """Write a cost model atomically, in the form that instances have."""
    document: dict[str, Any] = {"format": FORMAT, "version": 1, "cost": cost_to_dict(model)}

    def put(file: IO[bytes]) -> None:
        file.write(dump(document))

    write_atomically(path, put)


def _text(path: str | os.PathLike[str]) -> bytes:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as fault:
        raise InvalidInstance(f"{os.fspath(path)}: cannot be read: {fault.strerror or fault}; check the path.") from None
    if len(content) > MAX_BYTES:
        raise InvalidInstance(f"{os.fspath(path)} is larger than {MAX_BYTES} bytes; leave lines out.")
    return content
