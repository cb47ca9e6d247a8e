"""Counter-based random numbers and the schedule of move kinds: the same for compiled kernels and for the numpy reference."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from routepack.compiled import inlined

MOVE, SWAP, GUIDED_MOVE, GUIDED_SWAP, NEAR_SWAP, PAIR_SWAP, CELL_SWAP, ROW_SHARD_SWAP, LEVEL_SWAP = range(9)
KINDS = ("move", "swap", "guided move", "guided swap", "near swap", "pair swap", "cell swap", "row-shard swap", "level swap")

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_A = np.uint64(0xBF58476D1CE4E5B9)
MIX_B = np.uint64(0x94D049BB133111EB)
U27, U30, U31, U32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)

NEAR = 16

LEVELS = 4096
UPHILL: NDArray[np.float64] = -np.log((np.arange(LEVELS) + 0.5) / LEVELS)
UPHILL.setflags(write=False)


def mix(key: Any, counter: Any) -> Any:
    """
    Draw 64 random bits for each (key, counter), 64-bit unsigned, elementwise.

    References
    ----------
    .. [1] Steele, G., D. Lea, and C. Flood (2014). Fast splittable pseudorandom number generators. *OOPSLA*: 453-472.
    """
    z = key + GOLDEN * counter
    z = (z ^ (z >> U30)) * MIX_A
    z = (z ^ (z >> U27)) * MIX_B
    return z ^ (z >> U31)


mix_scalar = inlined(mix)


def below(bits: Any, n: int) -> Any:
    """Map 32 random bits to 0..n-1, elementwise."""
    return ((bits * np.uint64(n)) >> U32).astype(np.int64)


@inlined
def below_scalar(bits: Any, n: int) -> Any:
    """Map 32 random bits to 0..n-1."""
    return np.int64((bits * np.uint64(n)) >> U32)


def schedule(kinds: tuple[float, ...], count: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Kinds of the next proposals, drawn with the given weights; all replicas share them."""
    edges = np.cumsum(np.asarray(kinds, dtype=np.float64))
    drawn: NDArray[np.uint8] = np.searchsorted(edges, rng.random(count) * edges[-1], side="right").astype(np.uint8)
    return drawn
