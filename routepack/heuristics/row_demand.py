"""Token-slots of row-shards: what re-placement looks at."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from routepack.compiled import compiled
from routepack.window import IntArray


def row_shard_demand(demand: NDArray[Any], row_shard_of_sample: IntArray, num_row_shards: int) -> IntArray:
    """
    Sum demand over the samples of each row-shard.

    Parameters
    ----------
    demand
        Token-slots of each sample, shape (N, L, E).
    row_shard_of_sample
        Row-shard of each sample, shape (N,), in [0, H).
    num_row_shards
        Row-shards H.

    Returns
    -------
    IntArray
        Token-slots of each row-shard, shape (H, L, E).
    """
    samples, layers, experts = demand.shape
    total = np.zeros((num_row_shards, layers * experts), dtype=np.int64)
    _accumulate(demand.reshape(samples, -1), row_shard_of_sample, total)
    return total.reshape(num_row_shards, layers, experts)


@compiled
def _accumulate(demand: NDArray[Any], row_shard_of_sample: IntArray, total: IntArray) -> None:
    """Add rows of demand, shape (N, L * E), to the rows of total, shape (H, L * E)."""
    for i in range(demand.shape[0]):
        h = row_shard_of_sample[i]
        for c in range(demand.shape[1]):
            total[h, c] += demand[i, c]
