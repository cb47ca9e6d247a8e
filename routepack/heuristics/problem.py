"""The layout problem for a fixed placement and number of rows, as arrays that kernels can walk."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routepack.cost import attention_ticks
from routepack.instance import Instance
from routepack.window import INT32_MAX, IntArray

LANES = 8


class Problem(NamedTuple):
    """
    Units to be laid out into ``shards * rows * slots`` cells.

    Row-shard h = g * rows + r holds cells h * slots to (h + 1) * slots - 1. The arrays over units end with an empty unit, so that moving a
    unit is exchanging it with nothing.

    Parameters
    ----------
    length
        Aligned tokens, at most the cap, shape (units + 1,).
    size
        Samples of each unit, shape (units + 1,).
    attention
        Ticks of each stage, shape (units + 1, stages).
    load
        Projected load, shape (units + 1, P, L padded to a multiple of eight).
    by_length, rank
        Units in order of length, and the rank of each in that order, shape (units,).
    units, shards, rows, slots
        Counts M, G, R, D.
    cap
        Token cap of a cell.
    parts
        Physical shards that share a slot; divides the expert cost.
    row_sync
        1 when shards meet in every row.
    equal_samples
        1 when every slot keeps its number of samples.
    """

    length: IntArray
    size: IntArray
    attention: IntArray
    load: NDArray[np.int32] | IntArray
    by_length: IntArray
    rank: IntArray
    units: int
    shards: int
    rows: int
    slots: int
    cap: int
    parts: int
    row_sync: int
    equal_samples: int

    @property
    def cells(self) -> int:
        """Cells of the layout."""
        return self.shards * self.rows * self.slots

    @property
    def fits_kernels(self) -> bool:
        """Whether loads are 32-bit, as the compiled kernels need."""
        return self.load.dtype == np.int32


def _with_empty(values: NDArray[np.int64]) -> IntArray:
    return np.concatenate([values, np.zeros_like(values[:1])])


def projected_units(instance: Instance, rank_of_expert: IntArray) -> NDArray[np.int32] | IntArray:
    """Load of each unit, shape (units + 1, P, padded L), 32-bit where every sum over the window fits."""
    demand, ranks = instance.window.demand, instance.topology.ep
    layers = demand.shape[1]
    padded = -(-layers // LANES) * LANES
    order = np.argsort(rank_of_expert, axis=1, kind="stable")
    held = order.shape[1] // ranks
    load = np.zeros((demand.shape[0], ranks, padded), dtype=np.int64)
    for layer in range(layers):
        load[:, :, layer] = demand[:, layer, order[layer]].reshape(-1, ranks, held).sum(axis=2, dtype=np.int64)
    load = _with_empty(instance.per_unit(load))
    return load.astype(np.int32) if int(load.sum(axis=0).max()) <= INT32_MAX else load


def make_problem(instance: Instance, rank_of_expert: IntArray, rows: int) -> Problem:
    """
    Prepare the layout problem of an instance for one placement, shape (L, E), and number of rows.

    Raises
    ------
    Infeasible
        A unit exceeds the cap.
    """
    topology, options = instance.topology, instance.options
    lengths = instance.unit_lengths()
    by_length = np.argsort(lengths, kind="stable")
    return Problem(
        length=_with_empty(lengths),
        size=_with_empty(instance.per_unit(np.ones(instance.window.num_samples, dtype=np.int64))),
        attention=_with_empty(instance.per_unit(attention_ticks(instance))),
        load=projected_units(instance, rank_of_expert),
        by_length=by_length,
        rank=np.argsort(by_length, kind="stable"),
        units=len(lengths),
        shards=topology.num_shards,
        rows=rows,
        slots=topology.slots_per_shard,
        cap=instance.token_cap,
        parts=topology.parts_per_slot,
        row_sync=int(options.sync == "row"),
        equal_samples=int(options.equal_samples),
    )
