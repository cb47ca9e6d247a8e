"""Bin-packing suites: a folder of files in the public text form, or one instance a line of JSON."""

import gzip
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from routepack.errors import InvalidInstance
from routepack.instances.documents import Fields, parse
from routepack.instances.files import read_instance
from routepack.window import INT32_MAX, IntArray

MAX_ITEMS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """
    A bin-packing instance.

    Parameters
    ----------
    name
        From the file.
    lengths, capacity
        Tokens of each item, shape (N,), and of a cell.
    """

    name: str
    lengths: IntArray
    capacity: int


def is_suite(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder or a ``.jsonl`` or ``.jsonl.gz`` file."""
    return Path(path).is_dir() or Path(path).name.endswith((".jsonl", ".jsonl.gz"))


def read_suite(path: str | os.PathLike[str]) -> Iterator[Packing]:
    """
    Yield the instances of a suite in the order of lines, or of file names.

    A line is an object with ``name``, ``C`` and ``items``, a list of [length, count]; other keys are ignored.

    Raises
    ------
    InvalidInstance
        A file or line is malformed; it is named.
    """
    suite = Path(path)
    if suite.is_dir():
        for file in sorted(f for f in suite.iterdir() if f.is_file()):
            instance = read_instance(file)
            yield Packing(file.stem, instance.unit_lengths(), instance.token_cap)
        return
    opener = gzip.open if suite.name.endswith(".gz") else open
    try:
        with opener(suite, "rb") as lines:
            for number, line in enumerate(lines, start=1):
                yield _packing(line, f"{suite.name} line {number}")
    except (OSError, EOFError) as fault:
        raise InvalidInstance(f"{suite}: cannot be read: {fault}; give a .jsonl or .jsonl.gz file.") from None


def _packing(line: bytes, where: str) -> Packing:
    try:
        document: Any = parse(line)
    except ValueError as fault:
        raise InvalidInstance(f"{where}: {fault}; give one JSON object a line.") from None
    known = tuple(document) if isinstance(document, dict) else ()
    fields = Fields(document, where, known, ("name", "C", "items"), InvalidInstance)
    capacity, items = fields.whole("C", 1, INT32_MAX), fields.list("items", 2)
    if not items or any(len(item) != 2 or not 1 <= item[0] <= capacity or item[1] < 1 for item in items):
        raise InvalidInstance(f"{where}.items must be a list of [length from 1 to C = {capacity}, count of at least 1].")
    if sum(count for _, count in items) > MAX_ITEMS:
        raise InvalidInstance(f"{where}.items has more than {MAX_ITEMS} items; split the instance.")
    lengths, counts = np.array(items, dtype=np.int64).T
    return Packing(fields.text("name"), np.repeat(lengths, counts), capacity)
