"""Placements as maps between experts and slots: EPLB, SGLang, vLLM, Ascend."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from routepack.errors import InvalidInstance
from routepack.instance import placement_fault
from routepack.window import INT32_MAX, IntArray, integer_array


def checked_placement(placement: ArrayLike, num_ranks: int, name: str = "placement") -> IntArray:
    """
    Return a placement, shape (L, E), or say where it does not hold E/P experts on every rank.

    Raises
    ------
    InvalidInstance
        With the first offending layer.
    """
    ranks = integer_array(name, placement, np.int64, 2, 0, INT32_MAX)
    layers, experts = ranks.shape
    if num_ranks < 1 or not layers or not experts or experts % num_ranks:
        raise InvalidInstance(f"{name} has shape {ranks.shape}, which ep = {num_ranks} ranks do not divide; every rank holds E/P experts.")
    fault = placement_fault(name, ranks, layers, experts, num_ranks)
    if fault:
        raise InvalidInstance(fault)
    return ranks


def expert_of_slot(placement: ArrayLike, num_ranks: int) -> IntArray:
    """
    Logical expert of each slot, shape (L, E); slots are numbered rank by rank, inside a rank by rising expert id.

    Raises
    ------
    InvalidInstance
        The placement is none.
    """
    order: IntArray = np.argsort(checked_placement(placement, num_ranks), axis=1, kind="stable")
    return order


def slot_of_expert(placement: ArrayLike, num_ranks: int) -> IntArray:
    """Slot of each logical expert, shape (L, E): the map that a trainer applies after top-k."""
    inverse: IntArray = np.argsort(expert_of_slot(placement, num_ranks), axis=1)
    return inverse


def physical_to_logical_map(placement: ArrayLike, num_ranks: int) -> list[list[int]]:
    """``[layer][slot] -> expert``; the slot's rank is ``slot // (E / P)``."""
    return [[int(e) for e in row] for row in expert_of_slot(placement, num_ranks)]


def logical_to_physical_map(placement: ArrayLike, num_ranks: int) -> list[list[list[int]]]:
    """``[layer][expert] -> its slots``, one each."""
    return [[[int(slot)] for slot in row] for row in slot_of_expert(placement, num_ranks)]


def logical_replica_count(placement: ArrayLike, num_ranks: int) -> list[list[int]]:
    """``[layer][expert] -> copies``: ones."""
    return [[1] * len(row) for row in checked_placement(placement, num_ranks)]


def expert_to_ep_rank(placement: ArrayLike, num_ranks: int) -> list[list[int]]:
    """``[layer][expert] -> rank``: the placement itself."""
    return [[int(p) for p in row] for row in checked_placement(placement, num_ranks)]


def ascend_table(placement: ArrayLike, num_ranks: int) -> list[list[list[int]]]:
    """``[layer][rank][slot of the rank] -> expert``."""
    slots = expert_of_slot(placement, num_ranks)
    return [[[int(e) for e in rank] for rank in row.reshape(num_ranks, -1)] for row in slots]


def from_physical_to_logical_map(slots: ArrayLike, num_ranks: int) -> list[list[int]]:
    """
    Placement of a map from slots to experts, ``[layer][expert] -> rank``.

    Raises
    ------
    InvalidInstance
        A layer names an expert twice or not at all, or ranks do not divide the slots.
    """
    table = integer_array("physical_to_logical_map", slots, np.int64, 2, 0, INT32_MAX)
    size = table.shape[1]
    if num_ranks < 1 or not size or size % num_ranks:
        raise InvalidInstance(
            f"physical_to_logical_map has {size} slots, which ep = {num_ranks} ranks do not divide; give E slots a layer."
        )
    ranks = np.empty_like(table)
    for layer, row in enumerate(table):
        counts = np.bincount(row, minlength=size)[:size] if row.max() < size else np.zeros(size, dtype=np.int64)
        if (counts != 1).any():
            wrong = next(int(e) for k, e in enumerate(row) if e >= size or e in row[:k])
            raise InvalidInstance(
                f"physical_to_logical_map[{layer}] names expert {wrong} {'out of range' if wrong >= size else 'twice'}; "
                f"each of {size} experts has one slot. Keep the present placement."
            )
        ranks[layer, row] = np.arange(size) // (size // num_ranks)
    return expert_to_ep_rank(ranks, num_ranks)


def for_model_layers(slots: Sequence[Sequence[int]], moe_layers: Sequence[int], num_layers: int) -> list[list[int]]:
    """
    Spread a map over all layers of the model; layers without experts keep the identity, as SGLang expects.

    Parameters
    ----------
    slots
        ``[layer][slot] -> expert`` of the MoE layers.
    moe_layers
        Model layer number of each.
    num_layers
        Layers that the serving engine reports for the model.

    Raises
    ------
    InvalidInstance
        A MoE layer lies outside the model.
    """
    if len(moe_layers) != len(slots):
        raise InvalidInstance(f"moe_layers has {len(moe_layers)} entries for {len(slots)} layers; give one for each.")
    spread = [list(range(len(slots[0]))) for _ in range(num_layers)]
    for layer, row in zip(moe_layers, slots, strict=True):
        if not 0 <= layer < num_layers:
            raise InvalidInstance(f"moe_layers names layer {layer} of a model with {num_layers}; give the layers that the engine reports.")
        spread[layer] = list(row)
    return spread


def eplb_document(placement: ArrayLike, num_ranks: int) -> dict[str, Any]:
    """Return the three results of EPLB for a placement without replicas."""
    return {
        "physical_to_logical_map": physical_to_logical_map(placement, num_ranks),
        "logical_to_physical_map": logical_to_physical_map(placement, num_ranks),
        "logical_replica_count": logical_replica_count(placement, num_ranks),
    }
