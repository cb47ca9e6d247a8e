"""Placements in files: a plain table, a plan, or a map from slots to experts."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from routepack.errors import InvalidInstance
from routepack.instances.documents import parse, whole_lists
from routepack.instances.writers.expert_maps import checked_placement, from_physical_to_logical_map
from routepack.window import IntArray

MAX_BYTES = 1 << 26
KEYS = ("placement", "expert_to_ep_rank", "physical_to_logical_map")


def read_placement(path: str | os.PathLike[str], num_ranks: int) -> IntArray:
    """
    Read the EP rank of each expert, shape (L, E).

    Parameters
    ----------
    path
        JSON: a table [layer][expert] -> rank as ``routepack place`` writes it, a plan, or an object with ``physical_to_logical_map``.
    num_ranks
        EP ranks P.

    Raises
    ------
    InvalidInstance
        The file cannot be read, holds no placement, or one of other ranks.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MAX_BYTES:
            raise InvalidInstance(f"{file}: a placement file has at most 2**26 bytes.")
        document = parse(file.read_bytes())
    except OSError as fault:
        raise InvalidInstance(f"{file}: cannot be read: {fault.strerror}; check the path.") from None
    except ValueError as fault:
        if isinstance(fault, InvalidInstance):
            raise
        raise InvalidInstance(f"{file}: {fault}; give a placement as JSON.") from None
    try:
        return _placement(document, num_ranks)
    except InvalidInstance as fault:
        raise InvalidInstance(f"{file}: {fault}") from None


def _placement(document: Any, num_ranks: int) -> IntArray:
    key = "placement"
    if isinstance(document, dict):
        key = next((name for name in KEYS if name in document), "")
        if not key:
            raise InvalidInstance(f"no placement inside; one of the keys {', '.join(KEYS)} needed.")
        document = document[key]
    whole_lists(key, document, 2, InvalidInstance)
    if key == "physical_to_logical_map":
        return np.array(from_physical_to_logical_map(document, num_ranks), dtype=np.int64)
    return checked_placement(document, num_ranks)
