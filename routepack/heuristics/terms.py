"""How a search spends its proposals, what happened in it, and what it found."""

from dataclasses import dataclass, field

import numpy as np

from routepack.heuristics.draws import KINDS
from routepack.window import IntArray


@dataclass(frozen=True, slots=True)
class SearchParams:
    """
    How a search spends its proposals.

    Parameters
    ----------
    replicas
        Chains of the population.
    hot, cold
        First and last temperature, as shares of the start's makespan.
    mean
        Weight of the mean shard in a chain's energy, beside 1 for the slowest.
    smooth
        Weight of the sum of squared centred loads over twice the mean load, at the first temperature; it falls as the root of the
        temperature.
    level
        The same for squared cell attention over twice the mean cell; it falls to nothing as the longest unit nears a mean cell, since
        cells cannot be even then, and like cells do better side by side.
    descent
        Share of the budget for the last descent by the exact tuple.
    kinds
        Relative frequency of the move kinds, in the order of `routepack.heuristics.draws.KINDS`.
    culling
        Share of the population that an inverse-temperature step gives up.
    longest_step, shortest_step
        Limits of a step, as shares of the whole way from hot to cold on the logarithmic scale.
    """

    replicas: int = 2
    hot: float = 1e-3
    cold: float = 7e-6
    mean: float = 1.0
    smooth: float = 10.0
    level: float = 3.0
    descent: float = 0.06
    kinds: tuple[float, ...] = (0.3, 0.3, 0.1, 0.1, 3.0, 2.0, 0.03, 0.03, 2.0)
    culling: float = 0.14
    longest_step: float = 0.04
    shortest_step: float = 0.005


@dataclass(slots=True)
class Diagnostics:
    """
    What happened during a search.

    Parameters
    ----------
    proposed, accepted
        Proposals of each kind, shape (kinds,).
    replacements
        Times that the experts of a chain were re-placed.
    steps
        Inverse-temperature steps.
    families, entropy, rho
        Families left at the end, their entropy, and the mean square family size.
    collapses
        Times that fewer than two effective families were left and all chains began new ones.
    log_partition
        Sum of the logarithms of the mean resampling weights: the change of the free energy times -beta.
    """

    proposed: IntArray = field(default_factory=lambda: np.zeros(len(KINDS), dtype=np.int64))
    accepted: IntArray = field(default_factory=lambda: np.zeros(len(KINDS), dtype=np.int64))
    replacements: int = 0
    steps: int = 0
    families: int = 0
    entropy: float = 0.0
    rho: float = 1.0
    collapses: int = 0
    log_partition: float = 0.0


@dataclass(frozen=True, slots=True)
class Found:
    """
    The best answer of a search.

    Parameters
    ----------
    rank_of_expert
        Placement, shape (L, E).
    cells
        Cell of each unit by place, shape (units,).
    score
        Makespan, total and peak.
    attempts
        Proposals made.
    diagnostics
        What happened.
    """

    rank_of_expert: IntArray
    cells: IntArray
    score: tuple[int, int, int]
    attempts: int
    diagnostics: Diagnostics
