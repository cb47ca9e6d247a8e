"""Steps, resampling and family statistics of population annealing."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from routepack.window import IntArray

Floats = NDArray[np.float64]
BISECTIONS = 50


def inverse_temperature_step(energy: Floats, beta: float, culling: float) -> float:
    """
    Logarithm of the factor on beta at which the culling fraction is as given; infinite where no step reaches it.

    The culling fraction, mean of (1 - tau)+ over normalised weights tau, is the share of the population that resampling gives up; it equals
    one minus the overlap of the energy histograms at the two temperatures [1]_.

    Parameters
    ----------
    energy
        Energies of the population, shape (replicas,).
    beta
        Present inverse temperature, above 0.
    culling
        Wanted share, in (0, 1).

    References
    ----------
    .. [1] Barash, L., M. Weigel, et al. (2017). GPU accelerated population annealing algorithm. *Comput. Phys. Commun.* 220: 341-350.
    """
    above = energy - energy.min()

    def culled(log_factor: float) -> float:
        weights = np.exp(-beta * np.expm1(log_factor) * above)
        return float(np.maximum(1 - weights / weights.mean(), 0).mean())

    low, high = 0.0, 10.0
    if culled(high) < culling:
        return float("inf")
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if culled(middle) < culling else (low, middle)
    return high


def systematic(energy: Floats, weights: Floats, offset: float) -> IntArray:
    """
    Copies of each replica by systematic resampling on replicas sorted by energy; sums to the population size.

    Parameters
    ----------
    energy, weights
        Shape (replicas,); weights need not be normalised.
    offset
        The one random number, in [0, 1).
    """
    order = np.argsort(energy, kind="stable")
    edges = np.cumsum(weights[order]) / weights.sum() * len(weights)
    edges[-1] = len(weights)
    below = np.ceil(edges - offset).clip(0, len(weights))
    copies = np.empty(len(weights), dtype=np.int64)
    copies[order] = np.diff(below, prepend=0.0).astype(np.int64)
    return copies


class Families:
    """Which start each replica descends from."""

    def __init__(self, replicas: int) -> None:
        self.of = np.arange(replicas)
        self.collapses = 0

    def follow(self, source: IntArray) -> None:
        """Note which replica each one copies, shape (replicas,); when fewer than two effective families are left, begin new ones."""
        self.of = self.of[source]
        if len(self.of) > 2 and len(self.of) / self.mean_square() < 2:
            self.collapses += 1
            self.of = np.arange(len(self.of))

    def shares(self) -> Floats:
        """Share of the population that each family left holds."""
        return np.unique(self.of, return_counts=True)[1] / len(self.of)

    def mean_square(self) -> float:
        """Mean square family size rho: R times the sum of squared shares; R / rho is the effective number of families."""
        return float(len(self.of) * (self.shares() ** 2).sum())

    def describe(self, diagnostics: Any) -> None:
        """Write family statistics into the diagnostics of a search."""
        shares = self.shares()
        diagnostics.families = len(shares)
        diagnostics.entropy = float(-(shares * np.log(shares)).sum())
        diagnostics.rho = self.mean_square()
        diagnostics.collapses = self.collapses
