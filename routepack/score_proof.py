"""A lower bound on the slowest shard for a number of rows, of any kind, with what is needed to recompute it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from routepack.errors import InvalidCertificate
from routepack.instance import Instance
from routepack.layout_problem import LayoutProblem
from routepack.plan import Placement
from routepack.row_shard_certificate import RowShardCertificate
from routepack.score_certificate import LevelCertificate, ScoreData, aggregation_value, cover_value, surrogate_value

ProofKind = Literal["aggregation", "half-cap", "surrogate", "capacity", "dantzig-wolfe"]
PROOF_KINDS: tuple[ProofKind, ...] = get_args(ProofKind)
CLOSED_FORMS: dict[ProofKind, Callable[[ScoreData], int]] = {
    "aggregation": aggregation_value,
    "half-cap": cover_value,
    "surrogate": surrogate_value,
}


@dataclass(frozen=True, slots=True, eq=False)
class ScoreProof:
    """
    A claim that no plan with so many rows has a makespan below ``value``.

    Parameters
    ----------
    kind
        ``aggregation``, ``half-cap`` and ``surrogate`` are closed forms; ``capacity`` and ``dantzig-wolfe`` bring a certificate.
    value
        Ticks.
    any_placement
        Whether it holds for every placement, or for one.
    certificate
        Multipliers or prices.
    """

    kind: ProofKind
    value: int
    any_placement: bool
    certificate: LevelCertificate | RowShardCertificate | None = None

    @property
    def scope(self) -> Literal["any placement", "this placement"]:
        """What it holds for, in words."""
        return "any placement" if self.any_placement else "this placement"

    def gap(self, makespan: int) -> float | None:
        """Relative distance of a score above the bound; ``None`` where the bound is 0 and the score is not."""
        if not self.value:
            return None if makespan else 0.0
        return (makespan - self.value) / self.value


def layout_problem(instance: Instance, placement: Placement | None, num_rows: int) -> tuple[LayoutProblem, int | None]:
    """Layout problem of a placement; or, for any placement, the one whose loads are of logical experts, and the number of ranks."""
    window, ranks = instance.window, instance.topology.ep
    if placement is not None:
        return LayoutProblem.of(instance, placement, num_rows), None
    alone = LayoutProblem.of(
        instance, Placement(np.tile(np.arange(window.num_experts), (window.num_layers, 1))), num_rows, window.num_experts
    )
    return alone, ranks


def recompute_proof(instance: Instance, placement: Placement | None, num_rows: int, proof: ScoreProof) -> int:
    """
    Recompute the bound from the data alone; its ``value`` is not looked at.

    Parameters
    ----------
    instance, num_rows
        What is bounded.
    placement
        The placement that the bound is meant for; not used where it holds for any.
    proof
        The claim.

    Raises
    ------
    InvalidCertificate
        The kind is unknown, its certificate is missing or another's, or does not check.
    """
    meant = None if proof.any_placement else placement
    certificate = proof.certificate
    if proof.kind == "dantzig-wolfe" and isinstance(certificate, RowShardCertificate):
        if instance.window.num_samples > 1 << 12:
            raise InvalidCertificate("row-shard certificate: the window is too large to be listed.")
        return certificate.value(*layout_problem(instance, meant, num_rows))
    data = ScoreData.of(instance, meant, num_rows)
    if proof.kind == "capacity" and isinstance(certificate, LevelCertificate):
        return certificate.value(data)
    closed = CLOSED_FORMS.get(proof.kind)
    if closed is None or certificate is not None:
        raise InvalidCertificate(f"bound.kind = {proof.kind!r} is unknown or comes with the wrong certificate; recompute it.")
    return closed(data)
