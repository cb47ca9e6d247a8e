"""What is asked: a window on a topology under a token cap, with its cost model and side constraints, validated once."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from routepack.cost_model import CostModel
from routepack.errors import Infeasible, InvalidInstance
from routepack.topology import Topology, positive
from routepack.window import INT32_MAX, IntArray, Window, integer_array

Oversize = Literal["error", "own_row"]
Sync = Literal["shard", "row"]


@dataclass(frozen=True, slots=True)
class Options:
    """
    Side constraints of a plan.

    Parameters
    ----------
    oversize
        A sample longer than the cap makes the window infeasible (``"error"``) or lies alone in its cell (``"own_row"``).
    equal_samples
        Every slot gets the same number of samples.
    keep_together
        Groups of sample indices that may not be split over cells.
    sync
        Shards meet at the end of the step (``"shard"``) or in every row (``"row"``).
    """

    oversize: Oversize = "error"
    equal_samples: bool = False
    keep_together: tuple[tuple[int, ...], ...] = ()
    sync: Sync = "shard"

    def __post_init__(self) -> None:
        for key, choices in (("oversize", get_args(Oversize)), ("sync", get_args(Sync))):
            if getattr(self, key) not in choices:
                raise InvalidInstance(f"options.{key} = {getattr(self, key)!r} is unknown; choose {' or '.join(choices)}.")
        if not isinstance(self.equal_samples, bool):
            raise InvalidInstance(f"options.equal_samples = {self.equal_samples!r} is not true or false.")
        try:
            groups = tuple(tuple(sorted(int(i.__index__()) for i in group)) for group in self.keep_together)
        except (TypeError, AttributeError):
            raise InvalidInstance("options.keep_together must be a list of lists of sample indices.") from None
        seen: set[int] = set()
        for k, group in enumerate(groups):
            repeated = [i for n, i in enumerate(group) if i in seen or i in group[:n]]
            if repeated:
                raise InvalidInstance(f"options.keep_together[{k}] names sample {repeated[0]} a second time; a sample is in one group.")
            seen.update(group)
        object.__setattr__(self, "keep_together", tuple(sorted(g for g in groups if len(g) > 1)))


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """
    One planning problem: a window on a topology, under a token cap.

    Parameters
    ----------
    window, topology
        The samples, and the ranks that train on them.
    token_cap
        Tokens C that a cell may hold, aligned lengths counted.
    name
        Free text.
    length_multiple
        Trainers pad a sample to a multiple of this many tokens.
    row_multiple
        The number of rows is a multiple of this (virtual-pipeline groups).
    cost
        Attention against expert work; its default stage is filled in here.
    options
        Side constraints.
    current_placement
        EP rank of each expert now, shape (L, E), for moving as few experts as possible.

    Raises
    ------
    InvalidInstance
        The parts do not fit each other.
    """

    window: Window
    topology: Topology
    token_cap: int
    name: str = ""
    length_multiple: int = 1
    row_multiple: int = 1
    cost: CostModel = field(default_factory=CostModel)
    options: Options = field(default_factory=Options)
    current_placement: IntArray | None = None

    def __post_init__(self) -> None:
        for key in ("token_cap", "length_multiple", "row_multiple"):
            size = positive(key, getattr(self, key))
            if size > INT32_MAX:
                raise InvalidInstance(f"{key} = {size} exceeds {INT32_MAX}; give a smaller number.")
            object.__setattr__(self, key, size)
        if not isinstance(self.name, str):
            raise InvalidInstance(f"name = {self.name!r} is not a string.")
        experts, ranks = self.window.num_experts, self.topology.ep
        if experts % ranks:
            raise InvalidInstance(f"demand has {experts} experts, which ep = {ranks} ranks do not divide; every rank holds E/P experts.")
        for k, group in enumerate(self.options.keep_together):
            if group[0] < 0 or group[-1] >= self.window.num_samples:
                raise InvalidInstance(f"options.keep_together[{k}] names a sample outside 0..{self.window.num_samples - 1}.")
        object.__setattr__(self, "cost", self.cost.for_window(self.window.lengths))
        if self.current_placement is not None:
            current = integer_array("current_placement", self.current_placement, np.int64, 2, 0, INT32_MAX)
            fault = placement_fault("current_placement", current, self.window.num_layers, experts, ranks)
            if fault:
                raise InvalidInstance(fault)
            object.__setattr__(self, "current_placement", current)

    @property
    def aligned_lengths(self) -> IntArray:
        """Tokens of the cap that each sample occupies, shape (N,)."""
        return -(-self.window.lengths // self.length_multiple) * self.length_multiple

    @property
    def unit_of_sample(self) -> IntArray:
        """The unit that each sample belongs to: itself, or its ``keep_together`` group; units are numbered by their first sample."""
        first = np.arange(self.window.num_samples)
        for group in self.options.keep_together:
            first[list(group)] = group[0]
        unit: IntArray = np.unique(first, return_inverse=True)[1].astype(np.int64)
        return unit

    def per_unit(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sum a per-sample array, shape (N, ...), over the samples of each unit."""
        if not self.options.keep_together:
            return values
        unit = self.unit_of_sample
        total: NDArray[Any] = np.zeros((int(unit.max()) + 1, *values.shape[1:]), dtype=values.dtype)
        np.add.at(total, unit, values)
        return total

    def unit_lengths(self) -> IntArray:
        """
        Tokens of the cap that each unit occupies, shape (units,); an oversize unit that gets its own cell counts as the cap.

        Raises
        ------
        Infeasible
            A unit exceeds the cap and ``oversize`` is ``"error"``.
        """
        lengths = self.per_unit(self.aligned_lengths)
        over = np.flatnonzero(lengths > self.token_cap)
        if len(over) and self.options.oversize == "error":
            members = np.flatnonzero(self.unit_of_sample == over[0])
            what = self.window.label(int(members[0])) if len(members) == 1 else f"kept-together group {members.tolist()}"
            raise Infeasible(
                f"{what} has {lengths[over[0]]} aligned tokens and exceeds token_cap = {self.token_cap}",
                'raise the cap or pass oversize="own_row"',
                has_samples=self.window.num_samples,
            )
        clipped: IntArray = np.minimum(lengths, self.token_cap)
        return clipped

    def rows_for(self, cells: int) -> int:
        """Rows that so many non-empty cells fill, rounded up to the slots and to ``row_multiple``."""
        rows = -(-cells // self.topology.dp)
        return -(-rows // self.row_multiple) * self.row_multiple

    def sha256(self) -> str:
        """Fingerprint of everything that is asked, whatever file it came from."""
        cost = {"kind": self.cost.kind, "share": self.cost.share, "expert_cost": self.cost.expert_cost}
        options = self.options
        head = {
            "name": self.name,
            "topology": [self.topology.dp, self.topology.ep, self.topology.edp],
            "limits": [self.token_cap, self.length_multiple, self.row_multiple],
            "cost": cost | {"stages": [[s.name, s.linear, s.quadratic] for s in self.cost.stages]},
            "options": [options.oversize, options.equal_samples, options.keep_together, options.sync],
            "ids": [self.window.sample_ids, self.window.prompt_ids, self.window.top_k],
            "shape": self.window.demand.shape,
            "layers": None if self.window.moe_layers is None else self.window.moe_layers.tolist(),
            "current": None if self.current_placement is None else self.current_placement.tolist(),
        }
        digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
        digest.update(self.window.lengths.astype("<i8", copy=False).data)
        digest.update(self.window.demand.astype("<i4", copy=False).data)
        return digest.hexdigest()


def placement_fault(name: str, ranks: NDArray[Any], num_layers: int, num_experts: int, num_ranks: int) -> str | None:
    """Say where a placement, shape (L, E), does not hold exactly E/P experts of each layer on every rank; ``None`` if it does."""
    if ranks.shape != (num_layers, num_experts):
        return f"{name} has shape {ranks.shape}; (L, E) = ({num_layers}, {num_experts}) needed."
    for layer, row in enumerate(ranks):
        out = np.flatnonzero((row < 0) | (row >= num_ranks))
        if len(out):
            return f"{name}[{layer}][{out[0]}] = {row[out[0]]} is no EP rank; give 0 to {num_ranks - 1}."
        counts = np.bincount(row, minlength=num_ranks)
        wrong = np.flatnonzero(counts != num_experts // num_ranks)
        if len(wrong):
            held = num_experts // num_ranks
            return f"{name}[{layer}] puts {counts[wrong[0]]} experts on rank {wrong[0]}; each of {num_ranks} ranks holds {held}."
    return None
