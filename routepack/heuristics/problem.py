"""The layout problem for a fixed placement and number of rows, as arrays that kernels can walk."""

from typing import Any, NamedTuple

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
        Projected load above the mean rank, times P so that it stays whole, shape (units + 1, P, L padded to a multiple of eight).
    mass
        Projected load summed over ranks and layers, shape (units + 1,).
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
    mass: IntArray
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

    @property
    def mean_attention(self) -> float:
        """Mean attention of a cell over all stages, in ticks."""
        return float(self.attention.sum()) / self.cells or 1.0

    @property
    def mean_load(self) -> float:
        """Mean load of a rank in a layer of a row-shard, in the scale of ``load``."""
        layers = max(1, int((self.load != 0).any(axis=(0, 1)).sum()))
        return float(self.mass.sum()) / (layers * self.shards * self.rows) or 1.0


def nanoseconds(problem: Problem) -> float:
    """Time of a proposal on one core, roughly, by what it touches: what budgets are divided by before anything is measured."""
    return 100 + 1.2 * float(problem.load[0].size)


def _with_empty(values: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([values, np.zeros_like(values[:1])])


def no_load(instance: Instance) -> NDArray[np.int32] | IntArray:
    """Nothing, in the smallest integer type that holds the centred loads of every row-shard, and their differences, under any placement."""
    totals = instance.per_unit(instance.window.demand.sum(axis=2, dtype=np.int64)).max(axis=1)  # (unit,)
    tokens = instance.topology.slots_per_shard * instance.token_cap
    densest = float((totals / instance.unit_lengths()).max()) * tokens
    fits = 2 * instance.topology.ep * min(densest, int(totals.sum())) < INT32_MAX
    return np.zeros((0, 0, 0), dtype=np.int32) if fits else np.zeros((0, 0, 0), dtype=np.int64)


def with_placement(problem: Problem, instance: Instance, rank_of_expert: IntArray, before: IntArray | None = None) -> Problem:
    """Return the same problem under another placement, shape (L, E); only layers that differ from ``before``, if given, are projected."""
    window, ranks, dtype = instance.window, instance.topology.ep, problem.load.dtype
    if before is None:
        load = np.zeros((problem.units + 1, ranks, -(-window.num_layers // LANES) * LANES), dtype=dtype)
        layers = np.arange(window.num_layers)
        mass = _with_empty(instance.per_unit(window.demand.sum(axis=(1, 2), dtype=np.int64)))
    else:
        load, mass = problem.load.copy(), problem.mass
        layers = np.flatnonzero((rank_of_expert != before).any(axis=1))
    for layer in layers.tolist():
        order = np.argsort(rank_of_expert[layer], kind="stable").reshape(ranks, -1)
        demand = window.demand[:, layer]
        held: NDArray[Any] = demand[:, order[:, 0]].astype(dtype)  # (sample, rank)
        for column in order.T[1:]:
            held += demand[:, column]
        held = instance.per_unit(held)
        load[:-1, :, layer] = ranks * held - held.sum(axis=1, dtype=dtype, keepdims=True)
    return problem._replace(load=load, mass=mass)


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
    problem = Problem(
        length=_with_empty(lengths),
        size=_with_empty(instance.per_unit(np.ones(instance.window.num_samples, dtype=np.int64))),
        attention=_with_empty(instance.per_unit(attention_ticks(instance))),
        load=no_load(instance),
        mass=np.zeros(0, dtype=np.int64),
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
    return with_placement(problem, instance, rank_of_expert)
