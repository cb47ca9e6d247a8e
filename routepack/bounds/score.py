"""Every lower bound on the score by name: a registry that the command line, studies and tests read."""

from collections.abc import Callable

from routepack.bounds.capacity import capacity_bound
from routepack.bounds.dantzig_wolfe import dantzig_wolfe_bound
from routepack.instance import Instance
from routepack.plan import Placement
from routepack.row_shard_certificate import MAX_UNITS
from routepack.score_certificate import ScoreData, aggregation_value, cover_value, surrogate_value
from routepack.score_proof import ProofKind, ScoreProof, layout_problem

CHEAP_SUMS = 1 << 22  # of units, over sets, layers and experts: well under a second

Maker = Callable[[Instance, Placement | None, int], ScoreProof | None]


def aggregation(instance: Instance, placement: Placement | None, num_rows: int) -> ScoreProof:
    """Means over slots, largest rank totals, mean over shards."""
    return ScoreProof("aggregation", aggregation_value(ScoreData.of(instance, placement, num_rows)), placement is None)


def half_cap(instance: Instance, placement: Placement | None, num_rows: int) -> ScoreProof:
    """Aggregation with the longest samples of row-shards, which must spread by tokens and by samples over half the cap."""
    return ScoreProof("half-cap", cover_value(ScoreData.of(instance, placement, num_rows)), placement is None)


def surrogate(instance: Instance, placement: Placement | None, num_rows: int) -> ScoreProof:
    """Parallel machines with cardinality limits."""
    return ScoreProof("surrogate", surrogate_value(ScoreData.of(instance, placement, num_rows)), placement is None)


def capacity(instance: Instance, placement: Placement | None, num_rows: int) -> ScoreProof | None:
    """Levels of row-shards under the token cap; ``None`` where there is no attention."""
    data = ScoreData.of(instance, placement, num_rows)
    certificate = capacity_bound(data)
    return None if certificate is None else ScoreProof("capacity", certificate.value(data), placement is None, certificate)


def dantzig_wolfe(instance: Instance, placement: Placement | None, num_rows: int) -> ScoreProof | None:
    """Lagrangian bound over row-shards; ``None`` for more than 20 units, or where no row-shards exist."""
    if len(instance.unit_lengths()) > MAX_UNITS:
        return None
    problem, ranks = layout_problem(instance, placement, num_rows)
    certificate = dantzig_wolfe_bound(problem, ranks)
    return None if certificate is None else ScoreProof("dantzig-wolfe", certificate.value(problem, ranks), placement is None, certificate)


SCORE_BOUNDS: dict[ProofKind, Maker] = {
    "aggregation": aggregation,
    "half-cap": half_cap,
    "surrogate": surrogate,
    "capacity": capacity,
    "dantzig-wolfe": dantzig_wolfe,
}


def best_cheap_bound(instance: Instance, closed: ScoreProof, num_rows: int) -> ScoreProof:
    """
    Largest bound for any placement that takes about as long as a plan: a closed form, capacity, and Dantzig-Wolfe for few units.

    Parameters
    ----------
    instance, num_rows
        What is bounded.
    closed
        Best closed form.
    """
    proofs = [closed, capacity(instance, None, num_rows)]
    sets = 1 << min(len(instance.unit_lengths()), MAX_UNITS + 1)
    if sets * instance.window.num_layers * instance.window.num_experts <= CHEAP_SUMS:
        proofs.append(dantzig_wolfe(instance, None, num_rows))
    return max((proof for proof in proofs if proof is not None), key=lambda proof: proof.value)


def best_bound(instance: Instance, placement: Placement | None, num_rows: int) -> ScoreProof:
    """
    Largest of all bounds for a number of rows, for a placement or for any placement where none is given.

    What holds for any placement holds for one, and is the stronger where its weights, means over ranks, suit the row-shards better.

    Raises
    ------
    Infeasible
        A unit exceeds the cap and ``oversize`` is ``"error"``.
    """
    meant = [None] if placement is None else [placement, None]
    proofs = [make(instance, one, num_rows) for one in meant for make in SCORE_BOUNDS.values()]
    return max((proof for proof in proofs if proof is not None), key=lambda proof: proof.value)
