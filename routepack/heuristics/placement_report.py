"""What a placement does to the loads of a window, layer by layer, and whether another could do better."""

from dataclasses import dataclass

from routepack.certificate import placement_bounds
from routepack.heuristics.placement import checked_loads, rank_loads
from routepack.window import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class PlacementReport:
    """
    Largest loads of each layer beside what any placement must have.

    Parameters
    ----------
    loads
        Load of each EP rank in token-slots, shape (L, P).
    largest_expert
        Load of the heaviest expert, shape (L,).
    bounds
        Lower bound on the largest rank load, over all placements, shape (L,).
    experts_per_rank
        E/P.
    """

    loads: IntArray
    largest_expert: IntArray
    bounds: IntArray
    experts_per_rank: int

    @property
    def max_rank_load(self) -> list[int]:
        """Largest rank load of each layer."""
        return [int(x) for x in self.loads.max(axis=1)]

    @property
    def max_over_mean(self) -> list[float | None]:
        """Largest rank load over the mean; ``None`` for a layer without load."""
        return self._over_mean(self.max_rank_load, self.loads.shape[1])

    @property
    def max_over_mean_expert(self) -> list[float | None]:
        """Heaviest expert over the mean expert; ``None`` for a layer without load."""
        return self._over_mean([int(x) for x in self.largest_expert], self.loads.shape[1] * self.experts_per_rank)

    def _over_mean(self, largest: list[int], count: int) -> list[float | None]:
        totals = self.loads.sum(axis=1).tolist()
        return [x * count / total if total else None for x, total in zip(largest, totals, strict=True)]

    @property
    def ranks_without_load(self) -> list[int]:
        """Ranks of each layer that receive no token."""
        return [int(x) for x in (self.loads == 0).sum(axis=1)]

    @property
    def no_permutation_helps(self) -> list[bool]:
        """Whether each layer meets its bound, so that no other placement has a smaller largest rank."""
        return [bool(x) for x in self.loads.max(axis=1) == self.bounds]

    @property
    def hot(self) -> list[bool]:
        """Whether each layer's bound lies above the mean: its experts are too uneven for any placement to balance it."""
        return [bool(x) for x in self.bounds * self.loads.shape[1] >= self.loads.sum(axis=1) + self.loads.shape[1]]


def describe(placement: IntArray, loads: IntArray, num_ranks: int) -> PlacementReport:
    """
    Measure a placement against its loads.

    Parameters
    ----------
    placement
        EP rank of each expert, shape (L, E).
    loads
        Token-slots of each expert, shape (L, E).
    num_ranks
        EP ranks P, a divisor of E.

    Raises
    ------
    InvalidInstance
        A load is no count, or P does not divide E.
    """
    loads = checked_loads(loads, num_ranks)
    bounds = placement_bounds(loads, num_ranks)
    return PlacementReport(rank_loads(placement, loads, num_ranks), loads.max(axis=1), bounds, loads.shape[1] // num_ranks)
