"""At least so many cells, with the weights that prove it."""

import numpy as np

from routepack.bounds.dual_feasible import weighings
from routepack.certificate import WeightCertificate, check_weights
from routepack.window import IntArray


def prove_cells(lengths: IntArray, capacity: int, target: int | None = None) -> WeightCertificate:
    """
    Prove a number of cells by volume, bound L2 and dual feasible functions, whichever proves most.

    Parameters
    ----------
    lengths
        Tokens of each unit, shape (N,), in [1, capacity].
    capacity
        Token cap of a cell.
    target
        Stop as soon as so many cells are proved; the best bound of all if not given.

    Returns
    -------
    WeightCertificate
        Checked; the first of the best.
    """
    distinct, place, counts = np.unique(lengths, return_inverse=True, return_counts=True)
    best, weights, limit = 0, distinct, capacity
    for candidate, bound in weighings(distinct, counts, capacity):
        cells = -(-int(candidate @ counts) // bound)
        if cells > best:
            best, weights, limit = cells, candidate, bound
        if target is not None and best >= target:
            break
    certificate = WeightCertificate(weights[place], limit)
    check_weights(certificate, lengths, capacity)
    return certificate
