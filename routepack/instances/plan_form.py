"""Plans as plain dictionaries."""

import math
import re
from typing import Any

import numpy as np

from routepack.certificate import WeightCertificate
from routepack.cost import Score
from routepack.errors import InvalidPlan
from routepack.instances.bound_form import bound_from_dict, bound_to_dict
from routepack.instances.documents import Fields, brief
from routepack.plan import Layout, Placement, Plan
from routepack.result import Result
from routepack.verify import Claims, SolverClaim
from routepack.window import IntArray

FORMAT = "routepack-plan"
PLAN_KEYS = (
    "format",
    "version",
    "instance",
    "rows",
    "placement",
    "layout",
    "score",
    "bound",
    "status",
    "method",
    "versions",
    "placement_bound",
    "solver",
)
NEEDED_PLAN_KEYS = PLAN_KEYS[:-2]
SOURCE_KEYS = ("name", "sha256")
ROW_KEYS = ("count", "cells_lower_bound", "status", "certificate")
CERTIFICATE_KEYS = ("kind", "weights", "limit")
METHOD_KEYS = ("name", "seed", "attempts", "seconds")
STATUSES = ("feasible", "optimal")
SOLVER_KEYS = ("by", "status", "bound", "scope")
SCOPES = ("this placement", "any placement")
ROW_STATUS = r"proved|best known, at least [0-9]+"
SHA256 = r"[0-9a-f]{64}"


def plan_from_dict(document: Any) -> tuple[Plan, Claims]:
    """
    Build a plan and its claims from the JSON form.

    Only the form is checked here; `routepack.verify.verify` says whether the plan holds.

    Parameters
    ----------
    document
        The parsed JSON.

    Raises
    ------
    InvalidPlan
        An unknown or missing key, a value of the wrong type, shape or range; the place is named.
    """
    fields = Fields(document, "", PLAN_KEYS, NEEDED_PLAN_KEYS, InvalidPlan)
    fields.check_format(FORMAT)
    given = fields.values
    plan = Plan(_placement(fields), Layout.from_lists(fields.list("layout", 3)))
    score = fields.list("score")
    if len(score) != 3 or min(score) < 0:
        raise InvalidPlan(f"score = {brief(score)} is not three non-negative numbers; give makespan, sum and peak.")
    fields.choice("status", STATUSES)
    _check_origin(given)
    source = Fields(given["instance"], "instance", SOURCE_KEYS, SOURCE_KEYS, InvalidPlan)
    source.text("name")
    rows = Fields(given["rows"], "rows", ROW_KEYS, ROW_KEYS, InvalidPlan)
    claims = Claims(
        sha256=_matching(source, "sha256", SHA256),
        rows_count=rows.whole("count"),
        cells_lower_bound=rows.whole("cells_lower_bound"),
        rows_status=_matching(rows, "status", ROW_STATUS),
        certificate=_certificate(rows.values["certificate"]),
        score=Score(*score),
        bound=bound_from_dict(given["bound"], "bound"),
        placement_bound=bound_from_dict(given["placement_bound"], "placement_bound") if "placement_bound" in given else None,
        status=given["status"],
        solver=_solver(given["solver"]) if "solver" in given else None,
    )
    return plan, claims


def _solver(values: Any) -> SolverClaim:
    fields = Fields(values, "solver", SOLVER_KEYS, SOLVER_KEYS, InvalidPlan)
    bound = None if fields.values["bound"] is None else fields.whole("bound")
    return SolverClaim(fields.text("by"), fields.choice("status", STATUSES), bound, fields.choice("scope", SCOPES))  # type: ignore[arg-type]


def _placement(fields: Fields) -> Placement:
    layers = fields.list("placement", 2)
    for k, layer in enumerate(layers):
        if len(layer) != len(layers[0]):
            raise InvalidPlan(f"placement[{k}] has {len(layer)} experts, placement[0] has {len(layers[0])}; name every expert's rank.")
    ranks: IntArray = np.array(layers, dtype=np.int64).reshape(len(layers), len(layers[0]) if layers else 0)
    return Placement(ranks)


def _certificate(values: Any) -> WeightCertificate:
    fields = Fields(values, "rows.certificate", CERTIFICATE_KEYS, CERTIFICATE_KEYS, InvalidPlan)
    fields.choice("kind", ("weights",))
    return WeightCertificate(np.array(fields.list("weights"), dtype=np.int64), fields.whole("limit", 1))


def _check_origin(given: dict[str, Any]) -> None:
    method = Fields(given["method"], "method", METHOD_KEYS, METHOD_KEYS, InvalidPlan)
    method.text("name")
    method.whole("seed")
    method.whole("attempts")
    seconds = method.values["seconds"]
    if type(seconds) not in (int, float) or not 0 <= seconds < math.inf:
        raise InvalidPlan(f"method.seconds = {brief(seconds)} is no time; give seconds >= 0.")
    versions = given["versions"]
    if not isinstance(versions, dict) or not all(isinstance(version, str) for version in versions.values()):
        raise InvalidPlan(f"versions = {brief(versions)} does not map names to version strings; do so.")


def _matching(fields: Fields, key: str, pattern: str) -> str:
    text = fields.text(key)
    if not re.fullmatch(pattern, text):
        raise InvalidPlan(f"{fields.place(key)} = {brief(text)} does not have the form {pattern}; take it from the planner.")
    return text


def result_to_dict(result: Result) -> dict[str, Any]:
    """
    Return the JSON form of a result, plain Python values only.

    Two runs that agree in instance, seed and attempt cap differ in ``method.seconds`` alone.
    """
    rows, method, solver = result.rows, result.method, result.solver
    claim = {} if solver is None else {"solver": {"by": solver.by, "status": solver.status, "bound": solver.bound, "scope": solver.scope}}
    document = {
        "format": FORMAT,
        "version": 1,
        "instance": {"name": result.instance_name, "sha256": result.sha256},
        "rows": {
            "count": int(rows.count),
            "cells_lower_bound": int(rows.cells_lower_bound),
            "status": rows.status,
            "certificate": {"kind": "weights", "weights": rows.certificate.weights.tolist(), "limit": int(rows.certificate.limit)},
        },
        "placement": result.placement,
        "layout": result.layout,
        "score": [int(part) for part in result.score],
        "bound": bound_to_dict(result.bound),
        "placement_bound": bound_to_dict(result.placement_bound),
        "status": result.status,
        "method": {
            "name": method.name,
            "seed": int(method.seed),
            "attempts": int(method.attempts),
            "seconds": round(float(method.seconds), 3),
        },
        "versions": dict(sorted(result.versions.items())),
    }
    return document | claim
