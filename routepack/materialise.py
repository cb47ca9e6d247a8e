"""Bring expert weights and all that belongs to them into the order of a placement, in place, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from routepack.errors import InvalidInstance
from routepack.instances.writers.expert_maps import checked_placement, expert_of_slot, slot_of_expert
from routepack.window import IntArray


@dataclass(frozen=True, slots=True)
class _Leaf:
    """An array of the state and where it stands."""

    where: str
    array: Any


def apply_placement(
    layers: Sequence[Any], placement: ArrayLike, num_ranks: int, *, current: ArrayLike | None = None, axis: int | None = 0
) -> None:
    """
    Permute the experts of every MoE layer, in place, so that slot s holds the expert that the placement puts there.

    Slots are numbered rank by rank, inside a rank by rising expert id; rank p owns slots p * E/P onwards. Only what is handed over
    moves: router rows, expert bias, statistics and replayed ids stay logical, and `slot_of_expert` maps a choice to its slot after
    top-k. Everything is checked before the first value moves. One expert's worth of each array is held beside it.

    Parameters
    ----------
    layers
        For each MoE layer what moves with its experts: NumPy arrays, torch tensors or parameters, nested in lists, tuples and mappings,
        such as ``[layer.w1, layer.w2, optimizer.state[layer.w1], optimizer.state[layer.w2]]``: weights, gradients, master weights, moments,
        scales. ``None`` and numbers (a step count) are passed over.
    placement
        EP rank of each expert next, shape (L, E).
    num_ranks
        EP ranks P.
    current
        EP rank of each expert now, shape (L, E); contiguous, which is the logical order, if not given.
    axis
        Axis of every array that runs over the E experts; arrays without axes are passed over. ``None`` where each expert has parameters of
        its own: then a layer is a sequence of E states alike, and values move between them.

    Raises
    ------
    InvalidInstance
        A placement is none, or an array does not run over the experts; it is named and nothing has moved.
    """
    after = checked_placement(placement, num_ranks)
    before = _contiguous(after, num_ranks) if current is None else checked_placement(current, num_ranks, "current_placement")
    if before.shape != after.shape or len(layers) != len(after):
        raise InvalidInstance(
            f"{len(layers)} layers, current_placement of shape {before.shape} and placement of shape {after.shape} do not fit; "
            "give the state of each MoE layer."
        )
    sources = np.take_along_axis(slot_of_expert(before, num_ranks), expert_of_slot(after, num_ranks), axis=1)  # (layer, slot)
    seen: set[Any] = set()
    groups = [_slots_of(f"layers[{k}]", state, after.shape[1], axis, seen) for k, state in enumerate(layers)]
    for source, arrays in zip(sources, groups, strict=True):
        for slots in arrays:
            _rotate(slots, source)


def restore_logical(layers: Sequence[Any], placement: ArrayLike, num_ranks: int, *, axis: int | None = 0) -> None:
    """
    Undo `apply_placement`: bring the experts back into logical order, as a checkpoint names them.

    Parameters
    ----------
    layers, num_ranks, axis
        As for `apply_placement`.
    placement
        EP rank of each expert now, shape (L, E).

    Raises
    ------
    InvalidInstance
        As `apply_placement`.
    """
    now = checked_placement(placement, num_ranks)
    apply_placement(layers, _contiguous(now, num_ranks), num_ranks, current=now, axis=axis)


def _contiguous(placement: IntArray, num_ranks: int) -> IntArray:
    layers, experts = placement.shape
    return np.tile(np.arange(experts) // (experts // num_ranks), (layers, 1))


def _slots_of(where: str, state: Any, experts: int, axis: int | None, seen: set[Any]) -> list[list[Any]]:
    """Views of the E slots of each array in the state of a layer; memory that was seen before is left out."""
    if axis is not None:
        leaves = [leaf for leaf in _leaves(where, state) if leaf.array.ndim]
        return [_split(leaf, experts, axis) for leaf in leaves if _is_new(leaf.array, seen)]
    if not isinstance(state, Sequence) or len(state) != experts:
        raise InvalidInstance(f"{where} is no sequence of {experts} states, one for each expert; give that, or an axis.")
    columns = [_leaves(f"{where}[{e}]", own) for e, own in enumerate(state)]
    for column in columns:
        if [(leaf.array.shape, leaf.array.dtype) for leaf in column] != [(leaf.array.shape, leaf.array.dtype) for leaf in columns[0]]:
            raise InvalidInstance(f"the arrays of {where} differ from expert to expert; give states that are alike.")
    rows = [[leaf.array for leaf in row] for row in zip(*columns, strict=True)]
    for row in rows:
        if sum(_is_new(array, seen) for array in row) not in (0, experts):
            raise InvalidInstance(f"{where} holds one array for several experts; give each its own, or an axis.")
    return rows


def _leaves(where: str, state: Any) -> list[_Leaf]:
    """All arrays of a nested state, in order."""
    if hasattr(state, "ndim") and hasattr(state, "shape"):
        return [_Leaf(where, state.detach() if hasattr(state, "detach") else state)]
    if state is None or isinstance(state, int | float):
        return []
    if isinstance(state, Mapping):
        return [leaf for key, value in state.items() for leaf in _leaves(f"{where}[{key!r}]", value)]
    if isinstance(state, list | tuple):
        return [leaf for k, value in enumerate(state) for leaf in _leaves(f"{where}[{k}]", value)]
    raise InvalidInstance(f"{where} is of type {type(state).__name__}; give arrays, nested in lists and mappings.")


def _is_new(array: Any, seen: set[Any]) -> bool:
    """Whether memory is met for the first time: what is listed twice must move once."""
    address = array.data_ptr() if hasattr(array, "data_ptr") else array.__array_interface__["data"][0]
    key = (address, tuple(array.shape))
    new = key not in seen or not address
    seen.add(key)
    return new


def _split(leaf: _Leaf, experts: int, axis: int) -> list[Any]:
    """Views of single slots."""
    array = leaf.array
    if not -array.ndim <= axis < array.ndim or array.shape[axis] != experts:
        raise InvalidInstance(
            f"{leaf.where} has shape {tuple(array.shape)}, whose axis {axis} does not run over {experts} experts; "
            "leave out what does not move with experts, or give its axis."
        )
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        raise InvalidInstance(f"{leaf.where} is read-only; give an array that can be changed in place.")
    moved = array.movedim(axis, 0) if hasattr(array, "movedim") else np.moveaxis(array, axis, 0)
    return [moved[s : s + 1] for s in range(experts)]


def _rotate(slots: list[Any], source: IntArray) -> None:
    """Give slot s the value of slot ``source[s]``, cycle by cycle, with one slot's worth of memory."""
    done = np.zeros(len(slots), dtype=np.bool_)
    for start in range(len(slots)):
        if done[start] or source[start] == start:
            continue
        kept = slots[start].clone() if hasattr(slots[start], "clone") else slots[start].copy()
        slot = start
        while int(source[slot]) != start:
            slots[slot][...] = slots[int(source[slot])]
            done[slot] = True
            slot = int(source[slot])
        slots[slot][...] = kept
        done[slot] = True
