"""Row certificates as files that stand alone: lengths, cap, the number of cells that is claimed, and the proof."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from routepack.certificate import WeightCertificate, check_weights
from routepack.errors import InvalidCertificate
from routepack.instances.atomic import write_atomically
from routepack.instances.documents import Fields, dump, parse
from routepack.tree_certificate import Filter, TreeCertificate, check_tree
from routepack.window import INT32_MAX, IntArray

FORMAT = "routepack-cells"
MAX_BYTES = 1 << 26
MAX_ITEMS = 1 << 16
KEYS = ("format", "version", "name", "capacity", "lengths", "cells", "weights", "limit", "filters", "leaves", "tree")


@dataclass(frozen=True, slots=True, eq=False)
class CellsProof:
    """
    A claim that stands alone.

    Parameters
    ----------
    name
        Of the instance, free text.
    lengths, capacity
        Tokens of each unit, shape (N,), and the cap.
    certificate
        Weights or a tree.
    """

    name: str
    lengths: IntArray
    capacity: int
    certificate: WeightCertificate | TreeCertificate

    def check(self) -> int:
        """
        Return the number of cells that is proved.

        Raises
        ------
        InvalidCertificate
            The proof does not hold.
        """
        if isinstance(self.certificate, TreeCertificate):
            return check_tree(self.certificate, self.lengths, self.capacity)
        return check_weights(self.certificate, self.lengths, self.capacity)


def write_certificate(path: str | os.PathLike[str], proof: CellsProof) -> None:
    """Write a proof atomically; equal proofs give equal bytes."""
    head = {"format": FORMAT, "version": 1, "name": proof.name, "capacity": proof.capacity, "lengths": proof.lengths.tolist()}
    claim = proof.certificate
    body: dict[str, Any]
    if isinstance(claim, TreeCertificate):
        filters = [[*f.weights.tolist(), f.limit] for f in claim.filters]
        body = {"filters": filters, "leaves": [leaf.tolist() for leaf in claim.leaves], "tree": claim.tree}
    else:
        body = {"weights": claim.weights.tolist(), "limit": claim.limit}
    content = dump(head | {"cells": claim.cells} | body)
    write_atomically(path, lambda file: _put(file, content))


def _put(file: Any, content: bytes) -> None:
    file.write(content)


def read_certificate(path: str | os.PathLike[str]) -> CellsProof:
    """
    Read a proof; nothing in it is checked but its form.

    Raises
    ------
    InvalidCertificate
        The file cannot be read, is too large, or is not of the documented form.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MAX_BYTES:
            raise InvalidCertificate(f"{file}: a certificate file has at most 2**26 bytes.")
        document = parse(file.read_bytes())
    except OSError as fault:
        raise InvalidCertificate(f"{file}: cannot be read: {fault.strerror}.") from None
    except ValueError as fault:
        if isinstance(fault, InvalidCertificate):
            raise
        raise InvalidCertificate(f"{file}: {fault}; give a certificate file.") from None
    return _proof(document)


def _proof(document: Any) -> CellsProof:
    tree = isinstance(document, dict) and "tree" in document
    body = ("filters", "leaves", "tree") if tree else ("weights", "limit")
    fields = Fields(document, "", KEYS[:6] + body, KEYS[:2] + KEYS[3:6] + body, InvalidCertificate)
    fields.check_format(FORMAT)
    capacity, cells = fields.whole("capacity", 1, INT32_MAX), fields.whole("cells", 1)
    lengths = fields.list("lengths")
    if not 1 <= len(lengths) <= MAX_ITEMS or min(lengths) < 1 or max(lengths) > capacity:
        raise InvalidCertificate(f"lengths must be 1 to {MAX_ITEMS} whole numbers from 1 to capacity = {capacity}.")
    name = fields.text("name") if "name" in document else ""
    claim: WeightCertificate | TreeCertificate
    if tree:
        filters, leaves = fields.list("filters", 2), fields.list("leaves", 2)
        if not all(filters):
            raise InvalidCertificate("filters has an empty entry; each is the weights of all types and then the limit.")
        claim = TreeCertificate(cells, tuple(Filter(_array(f[:-1]), f[-1]) for f in filters), tuple(map(_array, leaves)), document["tree"])
    else:
        claim = WeightCertificate(_array(fields.list("weights")), fields.whole("limit", 1))
        if claim.weights.shape == (len(lengths),) and claim.cells != cells:
            raise InvalidCertificate(f"cells = {cells} but the weights and the limit say {claim.cells}.")
    return CellsProof(name, _array(lengths), capacity, claim)


def _array(values: list[int]) -> IntArray:
    return np.array(values, dtype=np.int64)
