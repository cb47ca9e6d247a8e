"""The demand that a trainer hands over, or lengths in its place."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routepack.errors import InvalidInstance
from routepack.heuristics.placement import identity
from routepack.topology import Topology
from routepack.window import IntArray


def demand_or_lengths(
    demand: ArrayLike | None, placement: ArrayLike | None, lengths: IntArray, topology: Topology
) -> tuple[NDArray[Any], ArrayLike, Topology]:
    """
    Return demand, shape (N, L, E), the placement it is projected through, shape (L, E), and the topology that fits them.

    Without demand one expert takes every token, on one EP rank; without a placement experts lie in contiguous blocks.

    Raises
    ------
    InvalidInstance
        Demand does not fit the samples or the ranks, or there is a placement without it.
    """
    if demand is None:
        if placement is not None:
            raise InvalidInstance("placement is given without demand; give the token-slots of each sample for each expert.")
        return lengths.astype(np.int32)[:, None, None], np.zeros((1, 1), dtype=np.int64), Topology(topology.dp, 1, topology.edp)
    counts = np.asarray(demand)
    if counts.ndim != 3 or len(counts) != len(lengths) or counts.shape[2] % topology.ep:
        raise InvalidInstance(
            f"demand has shape {counts.shape}; (N, L, E) with N = {len(lengths)} and E a multiple of {topology.ep} needed."
        )
    now = identity(counts.shape[1], counts.shape[2], topology.ep) if placement is None else placement
    return counts, now, topology
