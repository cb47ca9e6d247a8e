"""Dumps of SGLang's expert recorder: counts by expert or by slot, or the slots that every token chose."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routepack.errors import InvalidInstance
from routepack.instances.documents import brief
from routepack.instances.readers.loads import Loads, add_tokens, checked
from routepack.instances.readers.model_shape import ModelShape
from routepack.instances.readers.routes import Record, route_array, whole
from routepack.window import IntArray

LARGEST = 1 << 48  # token-slots of one entry; sums of them stay below 2**63


def read(records: Iterable[Record], model: ModelShape) -> Loads:
    """Read one dump, of either mode."""
    dump = one(records)
    return detail(dump, model) if "records" in dump else stat(dump, model)


def one(records: Iterable[Record]) -> Record:
    """
    Return the only dump of a file.

    Raises
    ------
    InvalidInstance
        There are several, or none.
    """
    found = [record for _, record in zip(range(2), records, strict=False)]
    if len(found) != 1 or not isinstance(found[0], Mapping):
        raise InvalidInstance("the file does not hold one dump of the recorder; give the dump of one rank.")
    return found[0]


def stat(dump: Record, model: ModelShape) -> Loads:
    """
    Sum ``logical_count``, shape (steps, layers, E), or ``physical_count`` by the map that was in force.

    Raises
    ------
    InvalidInstance
        Neither is there, or the layers do not add up to the same tokens.
    """
    by_slot = dump.get("logical_count") is None
    key = "physical_count" if by_slot else "logical_count"
    counts = _counts(dump.get(key), key, 3).sum(axis=0)
    if by_slot:
        counts = by_expert(counts, slot_map(dump, model.experts), model.experts)
    return checked(_moe(counts, model), model, _tokens(dump))


def detail(dump: Record, model: ModelShape) -> Loads:
    """
    Sum over passes and ranks: ``topk_ids_of_layer``, shape (layers, tokens, places), or else ``global_physical_count``, (layers, slots).

    Places that the model's k leaves unused hold minus one, and so does a token that was never written.

    Raises
    ------
    InvalidInstance
        A record has neither, or holds slots that the map does not know.
    """
    experts_of_slot = slot_map(dump, model.experts, "last_physical_to_logical_map")
    records = dump.get("records")
    if not isinstance(records, list) or not records:
        raise InvalidInstance(f"records = {brief(records)} is no list of passes; record at least one.")
    counts = np.zeros((len(model.moe_layers), model.experts), dtype=np.int64)
    repeated = np.zeros(len(counts), dtype=np.int64)
    for n, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise InvalidInstance(f"records[{n}] is no object; the dump may be broken.")
        if record.get("topk_ids_of_layer") is not None:
            ids = route_array(record["topk_ids_of_layer"], f"records[{n}].topk_ids_of_layer")
            _add_pass(ids, n, experts_of_slot, model, counts, repeated)
        elif record.get("global_physical_count") is not None:
            slots = _counts(record["global_physical_count"], f"records[{n}].global_physical_count", 2)
            counts += _moe(by_expert(slots, experts_of_slot, model.experts), model)
        else:
            raise InvalidInstance(f"records[{n}] has neither topk_ids_of_layer nor global_physical_count; record in mode per_token.")
    return checked(counts, model, _tokens(dump), repeated)


def _add_pass(ids: NDArray[Any] | None, n: int, experts_of_slot: IntArray, model: ModelShape, counts: IntArray, repeated: IntArray) -> None:
    if ids is None or ids.ndim != 3 or ids.shape[2] < model.top_k:
        raise InvalidInstance(f"records[{n}].topk_ids_of_layer has no shape (layers, tokens, {model.top_k} or more); check the model.")
    for j, position in enumerate(model.positions(len(ids))):
        slots = ids[position].astype(np.int64)
        chosen = (slots != -1).sum(axis=1)
        odd = np.flatnonzero((chosen != 0) & (chosen != model.top_k))
        if len(odd):
            raise InvalidInstance(f"records[{n}] holds {chosen[odd[0]]} slots for token {odd[0]}, not {model.top_k}; check the model.")
        slots = slots[chosen > 0]
        slots = slots[slots != -1].reshape(-1, model.top_k)
        if slots.size and not 0 <= int(slots.min()) <= int(slots.max()) < experts_of_slot.shape[1]:
            raise InvalidInstance(
                f"records[{n}] names a slot outside 0..{experts_of_slot.shape[1] - 1} ({slots.min()} to {slots.max()}); check the map."
            )
        row = position if len(experts_of_slot) == len(ids) else j
        if row >= len(experts_of_slot):
            raise InvalidInstance(f"physical_to_logical_map has {len(experts_of_slot)} layers, the records {len(ids)}; give the same.")
        repeated[j] += add_tokens(experts_of_slot[row][slots], counts[j])


def slot_map(dump: Record, experts: int, key: str = "physical_to_logical_map") -> IntArray:
    """
    Return the expert of every slot, shape (layers, slots).

    Raises
    ------
    InvalidInstance
        The map is missing or names an expert outside the model.
    """
    slots = route_array(dump.get(key), key)
    if slots is None or slots.ndim != 2 or not slots.size:
        raise InvalidInstance(f"{key} is missing or not of shape (layers, slots); counts by slot are nothing without it.")
    if int(slots.min()) < 0 or int(slots.max()) >= experts:
        raise InvalidInstance(f"{key} names experts {slots.min()} to {slots.max()}, outside 0..{experts - 1}; check the model.")
    return slots.astype(np.int64)


def by_expert(counts: IntArray, experts_of_slot: IntArray, experts: int) -> IntArray:
    """
    Sum counts by slot, shape (layers, slots), into counts by expert, shape (layers, E).

    Raises
    ------
    InvalidInstance
        Counts and map have different shapes.
    """
    if counts.shape != experts_of_slot.shape:
        raise InvalidInstance(f"counts have shape {counts.shape}, their map {experts_of_slot.shape}; give the map that was in force.")
    total = np.zeros((len(counts), experts), dtype=np.int64)
    np.add.at(total, (np.arange(len(counts))[:, None], experts_of_slot), counts)
    return total


def _counts(values: Any, key: str, ndim: int) -> IntArray:
    counts = route_array(values, key)
    if counts is None or counts.ndim != ndim or not counts.size:
        raise InvalidInstance(f"{key} is missing or not of {ndim} dimensions; record again.")
    if int(counts.min()) < 0 or int(counts.max()) * counts.shape[0] > LARGEST:
        raise InvalidInstance(f"{key} holds counts from {counts.min()} to {counts.max()}; record again.")
    return counts.astype(np.int64)


def _moe(counts: IntArray, model: ModelShape) -> IntArray:
    if counts.shape[1] != model.experts:
        raise InvalidInstance(f"counts are of {counts.shape[1]} experts, the model has {model.experts}; check the model.")
    chosen: IntArray = counts[model.positions(len(counts))]
    return chosen


def _tokens(dump: Record) -> int | None:
    return None if dump.get("tokens") is None else whole(dump["tokens"], "tokens")
