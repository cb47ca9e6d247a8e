"""What is answered: decisions only."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from routepack.topology import Topology
from routepack.window import IntArray

Cells = tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """
    Which EP rank holds which expert, the same on every shard.

    Parameters
    ----------
    rank_of_expert
        EP rank of logical expert e at layer l, shape (L, E).
    """

    rank_of_expert: IntArray

    def __post_init__(self) -> None:
        ranks = np.ascontiguousarray(self.rank_of_expert, dtype=np.int64).view()
        ranks.setflags(write=False)
        object.__setattr__(self, "rank_of_expert", ranks)

    def project(self, demand: NDArray[Any], num_ranks: int) -> IntArray:
        """Sum demand, shape (..., L, E), over the experts of each rank: shape (..., L, P)."""
        order = np.argsort(self.rank_of_expert, axis=1, kind="stable")
        layers = np.arange(order.shape[0])[:, None]
        grouped = demand[..., layers, order].reshape(*demand.shape[:-1], num_ranks, -1)
        return grouped.sum(axis=-1, dtype=np.int64)  # type: ignore[no-any-return]

    def to_list(self) -> list[list[int]]:
        """Plain ``[layer][expert] -> rank``."""
        return [[int(p) for p in row] for row in self.rank_of_expert]


@dataclass(frozen=True, slots=True)
class Layout:
    """
    Which samples share which cell.

    Parameters
    ----------
    cells
        Sample indices of each cell, ``cells[d][r]`` for slot d and row r.
    """

    cells: Cells

    @classmethod
    def from_lists(cls, cells: Sequence[Sequence[Sequence[int]]]) -> Self:
        """Build from nested lists ``[slot][row] -> samples``."""
        return cls(tuple(tuple(tuple(int(i) for i in cell) for cell in slot) for slot in cells))

    @property
    def num_rows(self) -> int:
        """Rows R of the first slot; `verify` checks that all slots agree."""
        return len(self.cells[0]) if self.cells else 0

    def row_shards(self, topology: Topology) -> Iterator[tuple[int, int, list[tuple[int, ...]]]]:
        """Yield (row, shard, its cells) for each row-shard, row by row."""
        width = topology.slots_per_shard
        for r in range(self.num_rows):
            for g in range(topology.num_shards):
                yield r, g, [self.cells[d][r] for d in range(g * width, (g + 1) * width)]

    def to_list(self) -> list[list[list[int]]]:
        """Plain ``[slot][row] -> samples``."""
        return [[list(cell) for cell in slot] for slot in self.cells]


@dataclass(frozen=True, slots=True)
class Plan:
    """A placement and a layout."""

    placement: Placement
    layout: Layout
