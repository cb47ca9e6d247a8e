"""Plans for NeMo RL: bins dealt out in turn, and the fields of each slot's part."""

from collections.abc import Sequence
from typing import Any

from routepack.errors import InvalidPlan
from routepack.instances.writers.order import Cells, checked, with_inverse


def nemo_bins(layout: Cells) -> list[list[int]]:
    """Flat list of bins in which bin j goes to slot j mod S: row r of slot d stands at ``r * S + d``."""
    return [list(cell) for row in zip(*checked(layout), strict=True) for cell in row]


def nemo_document(layout: Cells, lengths: Sequence[int] | None = None) -> dict[str, Any]:
    """
    Return the bins, their order with its inverse and, with padded lengths, what each slot's part carries.

    Parameters
    ----------
    layout
        Samples of each cell, ``[slot][row] -> samples``.
    lengths
        Padded tokens of each sample, shape (N,).

    Returns
    -------
    dict[str, Any]
        ``bins``, ``permutation``, ``inverse``; with lengths also, per slot, ``micro_batch_indices`` ([start, end] of each row in the slot's
        part) and ``micro_batch_lengths`` (padded tokens of each row).
    """
    cells, bins = checked(layout), nemo_bins(layout)
    document: dict[str, Any] = {"bins": bins} | with_inverse([i for bin_ in bins for i in bin_])
    if lengths is None:
        return document
    if len(lengths) != len(document["inverse"]):
        raise InvalidPlan(f"lengths has {len(lengths)} entries for {len(document['inverse'])} samples; give one for each.")
    document["micro_batch_indices"] = [_bounds(slot) for slot in cells]
    document["micro_batch_lengths"] = [[sum(int(lengths[i]) for i in cell) for cell in slot] for slot in cells]
    return document


def _bounds(slot: Sequence[Sequence[int]]) -> list[list[int]]:
    found, start = [], 0
    for cell in slot:
        found.append([start, start + len(cell)])
        start += len(cell)
    return found
