"""The samples of one optimizer step, and the checks of every array that comes from outside."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routepack.errors import InvalidInstance
from routepack.topology import positive

IntArray = NDArray[np.int64]
Ids = tuple[str, ...] | tuple[int, ...]

INT32_MAX = (1 << 31) - 1


def integer_array(name: str, values: ArrayLike, dtype: type[np.signedinteger[Any]], ndim: int, low: int, high: int) -> NDArray[Any]:
    """
    Check that values are integers of the right shape and range, and return them read-only.

    Raises
    ------
    InvalidInstance
        Naming the first offending entry.
    """
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError):
        raise InvalidInstance(f"{name} is ragged or out of range; all rows must have the same length.") from None
    if array.ndim != ndim:
        raise InvalidInstance(f"{name} has shape {array.shape}; {ndim} dimension{'s' if ndim > 1 else ''} needed.")
    if array.size and array.dtype.kind not in "iu":
        raise InvalidInstance(f"{name} has values of type {array.dtype}; whole numbers of at most {high} needed.")
    if array.size and (int(array.min()) < low or int(array.max()) > high):
        where = tuple(int(k) for k in np.argwhere((array < low) | (array > high))[0])
        place = "".join(f"[{k}]" for k in where)
        side = f"below {low}" if int(array[where]) < low else f"above {high}"
        raise InvalidInstance(f"{name}{place} = {array[where]} is {side}; give values from {low} to {high}.")
    array = np.ascontiguousarray(array, dtype=dtype).view()
    array.setflags(write=False)
    return array


def _ids(name: str, values: Any, count: int) -> Ids | None:
    if values is None:
        return None
    ids = tuple(values.tolist() if isinstance(values, np.ndarray) else values)
    if len(ids) != count:
        raise InvalidInstance(f"{name} has {len(ids)} entries; one for each of the {count} samples needed.")
    if all(isinstance(x, str) for x in ids) and not any("\0" in x for x in ids):
        return ids
    if all(isinstance(x, int) and not isinstance(x, bool) and -(1 << 63) <= x < 1 << 63 for x in ids):
        return ids
    raise InvalidInstance(f"{name} mixes types; all must be strings without NUL, or all 64-bit integers.")


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """
    The finished samples of one optimizer step.

    Parameters
    ----------
    lengths
        Tokens of each sample, shape (N,), at least 1.
    demand
        Token-slots that sample i sends to logical expert e at MoE layer l, shape (N, L, E). A C-contiguous int32 array is used without
        a copy and must not be changed afterwards.
    sample_ids, prompt_ids
        Names of the samples and of the prompts they answer, length N.
    moe_layers
        Model layer number of each of the L layers.
    top_k
        Experts a token chooses; where given, demand is checked against it.

    Raises
    ------
    InvalidInstance
        Wrong type, shape or range, with the first offending entry named.
    """

    lengths: IntArray
    demand: NDArray[np.int32]
    sample_ids: Ids | None = None
    prompt_ids: Ids | None = None
    moe_layers: IntArray | None = None
    top_k: int | None = None

    def __post_init__(self) -> None:
        lengths = integer_array("lengths", self.lengths, np.int64, 1, 1, INT32_MAX)
        demand = integer_array("demand", self.demand, np.int32, 3, 0, INT32_MAX)
        if not len(lengths):
            raise InvalidInstance("lengths is empty; a window has at least one sample.")
        if demand.shape[0] != len(lengths) or 0 in demand.shape:
            raise InvalidInstance(f"demand has shape {demand.shape}; (N, L, E) with N = {len(lengths)} and L, E >= 1 needed.")
        object.__setattr__(self, "lengths", lengths)
        object.__setattr__(self, "demand", demand)
        object.__setattr__(self, "sample_ids", _ids("sample_ids", self.sample_ids, len(lengths)))
        object.__setattr__(self, "prompt_ids", _ids("prompt_ids", self.prompt_ids, len(lengths)))
        if self.moe_layers is not None:
            layers = integer_array("moe_layers", self.moe_layers, np.int64, 1, 0, INT32_MAX)
            if len(layers) != demand.shape[1] or (np.diff(layers) <= 0).any():
                raise InvalidInstance(
                    f"moe_layers must rise and name the {demand.shape[1]} layers of demand; it has {len(layers)} entries."
                )
            object.__setattr__(self, "moe_layers", layers)
        if self.top_k is not None:
            object.__setattr__(self, "top_k", positive("top_k", self.top_k))
            self._check_top_k()

    def _check_top_k(self) -> None:
        assert self.top_k is not None
        if self.top_k > self.num_experts:
            raise InvalidInstance(f"top_k = {self.top_k} exceeds the {self.num_experts} experts of a layer.")
        slots = self.demand.sum(axis=2, dtype=np.int64)  # (sample, layer)
        for what, load, limit in (
            ("sum of demand", slots, self.top_k * self.lengths),
            ("largest entry of demand", self.demand.max(axis=2), self.lengths),
        ):
            over = np.argwhere(load > limit[:, None])
            if len(over):
                i, layer = (int(k) for k in over[0])
                raise InvalidInstance(
                    f"{what}[{i}][{layer}] = {load[i, layer]} exceeds {limit[i]} (lengths[{i}] = {self.lengths[i]}, top_k = {self.top_k}); "
                    "count each token once for each expert it chose."
                )

    @property
    def num_samples(self) -> int:
        """Samples N."""
        return len(self.lengths)

    @property
    def num_layers(self) -> int:
        """MoE layers L."""
        return int(self.demand.shape[1])

    @property
    def num_experts(self) -> int:
        """Logical experts E of a layer."""
        return int(self.demand.shape[2])

    def label(self, i: int) -> str:
        """Name a sample for a message: its index, and its id if it has one."""
        return f"sample {i}" if self.sample_ids is None else f"sample {i} ({self.sample_ids[i]})"
