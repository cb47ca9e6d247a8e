"""Layout for a fixed placement and a fixed number of rows, as plain integers: what bounds and exact models work on."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from routepack.cost import Score, attention_ticks, objective
from routepack.instance import Instance, Sync
from routepack.plan import Layout, Placement
from routepack.window import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class LayoutProblem:
    """
    Units to lay out in cells.

    Row-shards are numbered ``h = g * rows + r`` and cells ``c = h * slots + d`` for planned shard g, row r and slot d of the shard.

    Parameters
    ----------
    loads
        Token-slots q of each unit on each EP rank, shape (units, L, P).
    attention
        Attention ticks b of each unit in each stage, shape (units, stages).
    lengths
        Tokens of the cap that each unit occupies, shape (units,).
    sizes
        Samples in each unit, shape (units,).
    token_cap
        Tokens C of a cell.
    rows, shards, slots, parts
        Rows R, planned shards G, slots D of a shard, physical shards that share a slot.
    sync
        When shards meet.
    equal_samples
        Every slot gets the same number of samples.
    """

    loads: IntArray
    attention: IntArray
    lengths: IntArray
    sizes: IntArray
    token_cap: int
    rows: int
    shards: int
    slots: int
    parts: int = 1
    sync: Sync = "shard"
    equal_samples: bool = False

    @classmethod
    def of(cls, instance: Instance, placement: Placement, num_rows: int, num_ranks: int | None = None) -> Self:
        """
        Project an instance through a placement, on the topology's EP ranks unless another number is given.

        Raises
        ------
        Infeasible
            A unit exceeds the cap and ``oversize`` is ``"error"``.
        """
        topology = instance.topology
        return cls(
            loads=placement.project(instance.per_unit(instance.window.demand.astype(np.int64)), num_ranks or topology.ep),
            attention=instance.per_unit(attention_ticks(instance)),
            lengths=instance.unit_lengths(),
            sizes=instance.per_unit(np.ones(instance.window.num_samples, dtype=np.int64)),
            token_cap=instance.token_cap,
            rows=num_rows,
            shards=topology.num_shards,
            slots=topology.slots_per_shard,
            parts=topology.parts_per_slot,
            sync=instance.options.sync,
            equal_samples=instance.options.equal_samples,
        )

    @property
    def num_units(self) -> int:
        """Units that may not be split over cells."""
        return len(self.lengths)

    @property
    def num_row_shards(self) -> int:
        """Row-shards R * G."""
        return self.rows * self.shards

    @property
    def num_cells(self) -> int:
        """Cells R * G * D."""
        return self.num_row_shards * self.slots

    def fault(self, cell_of_unit: IntArray) -> str | None:
        """Say which constraint an assignment, shape (units,), breaks; ``None`` if it breaks none."""
        if cell_of_unit.shape != (self.num_units,) or ((cell_of_unit < 0) | (cell_of_unit >= self.num_cells)).any():
            return f"cell_of_unit must name a cell from 0 to {self.num_cells - 1} for each of {self.num_units} units."
        tokens = np.zeros(self.num_cells, dtype=np.int64)
        np.add.at(tokens, cell_of_unit, self.lengths)
        over = np.flatnonzero(tokens > self.token_cap)
        if len(over):
            return f"cell {over[0]} holds {tokens[over[0]]} tokens; token_cap = {self.token_cap}."
        samples = np.zeros(self.num_cells, dtype=np.int64)
        np.add.at(samples, cell_of_unit, self.sizes)
        if not samples.all():
            return f"cell {int(np.argmin(samples))} is empty; every cell holds a sample."
        of_slot = samples.reshape(self.shards, self.rows, self.slots).sum(axis=1)
        if self.equal_samples and (of_slot != of_slot.flat[0]).any():
            return f"slots hold {of_slot.ravel().tolist()} samples; equal_samples needs the same number on each."
        return None

    def row_shards(self, cell_of_unit: IntArray) -> IntArray:
        """J[r, g] of an assignment, shape (R, G)."""
        work = np.zeros((self.num_cells, self.attention.shape[1]), dtype=np.int64)
        np.add.at(work, cell_of_unit, self.attention)
        attention = work.reshape(self.num_row_shards, self.slots, -1).max(axis=1).sum(axis=1)
        load = np.zeros((self.num_row_shards, *self.loads.shape[1:]), dtype=np.int64)
        np.add.at(load, cell_of_unit // self.slots, self.loads)
        expert = -(-load.max(axis=2).sum(axis=1) // self.parts)
        costs: IntArray = (attention + expert).reshape(self.shards, self.rows).T
        return costs

    def score(self, cell_of_unit: IntArray) -> Score:
        """The objective of an assignment."""
        return objective(self.row_shards(cell_of_unit), self.sync)


def layout_of_cells(instance: Instance, num_rows: int, cell_of_unit: IntArray) -> Layout:
    """Layout ``[slot][row] -> samples`` of an assignment of units to cells."""
    width = instance.topology.slots_per_shard
    cells: list[list[list[int]]] = [[[] for _ in range(num_rows)] for _ in range(instance.topology.dp)]
    for i, c in enumerate(cell_of_unit[instance.unit_of_sample].tolist()):
        row_shard, d = divmod(c, width)
        g, r = divmod(row_shard, num_rows)
        cells[g * width + d][r].append(i)
    return Layout.from_lists(cells)


def cells_of_layout(instance: Instance, layout: Layout) -> IntArray:
    """Cell of each unit in a layout, shape (units,)."""
    width, unit = instance.topology.slots_per_shard, instance.unit_of_sample
    cell_of_unit = np.zeros(int(unit.max()) + 1, dtype=np.int64)
    for d, slot in enumerate(layout.cells):
        for r, cell in enumerate(slot):
            g, k = divmod(d, width)
            cell_of_unit[unit[list(cell)]] = (g * layout.num_rows + r) * width + k
    return cell_of_unit
