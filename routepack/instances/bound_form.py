"""Bounds on the score and their certificates as plain dictionaries."""

from typing import Any

import numpy as np

from routepack.errors import InvalidPlan
from routepack.instances.documents import Fields
from routepack.row_shard_certificate import RowShardCertificate
from routepack.score_certificate import LevelCertificate
from routepack.score_proof import CLOSED_FORMS, PROOF_KINDS, ScoreProof

KEYS = ("value", "kind", "placement", "certificate")
SCOPES = ("any", "this")
LEVEL_KEYS = ("levels", "kind_weight", "expert_weight", "mean_weight", "token_price", "cover_price", "home_price")
ROW_SHARD_KEYS = ("prices",)


def bound_from_dict(values: Any, where: str) -> ScoreProof:
    """
    Build a bound; without ``placement`` it is meant for the plan's own.

    Parameters
    ----------
    values
        The parsed JSON.
    where
        Its place in the document.

    Raises
    ------
    InvalidPlan
        An unknown or missing key, or a value of the wrong type or shape.
    """
    fields = Fields(values, where, KEYS, KEYS[:2], InvalidPlan)
    kind, value = fields.choice("kind", PROOF_KINDS), fields.whole("value")
    scope = fields.choice("placement", SCOPES) if "placement" in values else "this"
    certificate = None
    if kind in CLOSED_FORMS:
        if "certificate" in values:
            raise InvalidPlan(f"{fields.place('certificate')} is given, but {kind} needs none; leave it out.")
    elif "certificate" not in values:
        raise InvalidPlan(f"{fields.place('certificate')} is missing; give it.")
    else:
        certificate = (_levels if kind == "capacity" else _row_shards)(values["certificate"], fields.place("certificate"))
    return ScoreProof(kind, value, scope == "any", certificate)  # type: ignore[arg-type]


def _levels(values: Any, where: str) -> LevelCertificate:
    fields = Fields(values, where, LEVEL_KEYS, LEVEL_KEYS, InvalidPlan)
    for key, depth in (("kind_weight", 1), ("mean_weight", 2), ("token_price", 2)):
        if len(fields.list(key, depth)) != 2:
            raise InvalidPlan(f"{fields.place(key)} has {len(values[key])} items; one for the home and one for the other shards needed.")
    mean, token = ((tuple(home), tuple(other)) for home, other in (values["mean_weight"], values["token_price"]))
    return LevelCertificate(
        levels=tuple(fields.list("levels")),
        kind_weight=tuple(values["kind_weight"]),
        expert_weight=fields.whole("expert_weight"),
        mean_weight=mean,
        token_price=token,
        cover_price=tuple(fields.list("cover_price")),
        home_price=fields.whole("home_price"),
    )


def _row_shards(values: Any, where: str) -> RowShardCertificate:
    fields = Fields(values, where, ROW_SHARD_KEYS, ROW_SHARD_KEYS, InvalidPlan)
    return RowShardCertificate(np.array(fields.list("prices"), dtype=np.int64))


def bound_to_dict(bound: ScoreProof) -> dict[str, Any]:
    """Return the JSON form, plain Python values only."""
    document = {"value": int(bound.value), "kind": bound.kind, "placement": "any" if bound.any_placement else "this"}
    match bound.certificate:
        case None:
            return document
        case RowShardCertificate(prices=prices):
            return document | {"certificate": {"prices": prices.tolist()}}
        case levels:
            return document | {"certificate": {key: getattr(levels, key) for key in LEVEL_KEYS}}
