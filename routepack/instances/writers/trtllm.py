"""Placements as TensorRT-LLM reads them: YAML keyed by the number of the layer in the model."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from routepack.errors import InvalidInstance
from routepack.instances.writers.expert_maps import physical_to_logical_map


def trtllm_assignments(placement: ArrayLike, num_ranks: int, moe_layers: Sequence[int] | None = None) -> dict[str, Any]:
    """
    Return ``num_slots`` and, for each MoE layer, the list of slot -> expert.

    Parameters
    ----------
    placement
        EP rank of each expert, shape (L, E).
    num_ranks
        EP ranks P.
    moe_layers
        Model layer number of each of the L layers; 0 to L-1 if not given. Dense layers have no entry.

    Raises
    ------
    InvalidInstance
        The placement is none, or a layer has no number of its own.
    """
    slots = physical_to_logical_map(placement, num_ranks)
    numbers = list(range(len(slots))) if moe_layers is None else [int(n) for n in moe_layers]
    if len(numbers) != len(slots) or len(set(numbers)) != len(numbers):
        raise InvalidInstance(f"moe_layers has {len(set(numbers))} numbers for {len(slots)} layers; give one for each.")
    return {"num_slots": len(slots[0]), "initial_global_assignments": dict(zip(numbers, slots, strict=True))}


def trtllm_yaml(placement: ArrayLike, num_ranks: int, moe_layers: Sequence[int] | None = None, layer_updates_per_iter: int = 0) -> str:
    """
    Write the file for ``moe_load_balancer``; 0 updates an iteration keeps the placement as it is.

    The text uses mappings and flow lists of integers only, so any YAML reader takes it.
    """
    document = trtllm_assignments(placement, num_ranks, moe_layers)
    lines = [f"num_slots: {document['num_slots']}", "initial_global_assignments:"]
    lines += [f"  {layer}: [{', '.join(map(str, slots))}]" for layer, slots in document["initial_global_assignments"].items()]
    return "\n".join([*lines, f"layer_updates_per_iter: {int(layer_updates_per_iter)}"]) + "\n"
