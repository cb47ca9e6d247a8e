"""The numbers that commands print, as plain values."""

import dataclasses
import math
from typing import Any

import numpy as np

from routepack.instance import Instance
from routepack.result import Result
from routepack.score_proof import ScoreProof
from routepack.verify import SolverClaim


def unknown_token_slots(instance: Instance) -> int | None:
    """Token-slots whose expert was not recorded; ``None`` where ``top_k`` is not known."""
    window = instance.window
    if window.top_k is None:
        return None
    return window.top_k * int(window.lengths.sum()) * window.num_layers - int(window.demand.sum(dtype=np.int64))


def oversize_samples(instance: Instance) -> list[int]:
    """Samples of units over the cap."""
    over = instance.per_unit(instance.aligned_lengths) > instance.token_cap
    return [int(i) for i in np.flatnonzero(over[instance.unit_of_sample])]


def window_facts(instance: Instance) -> dict[str, Any]:
    """What is asked, whatever the answer."""
    window, topology = instance.window, instance.topology
    return {
        "name": instance.name,
        "samples": window.num_samples,
        "tokens": int(window.lengths.sum()),
        "layers": window.num_layers,
        "experts": window.num_experts,
        "topology": {"dp": topology.dp, "ep": topology.ep, "edp": topology.edp, "parts_per_slot": topology.parts_per_slot},
        "token_cap": instance.token_cap,
        "padding_tokens": int((instance.aligned_lengths - window.lengths).sum()),
        "flagged": oversize_samples(instance),
        "unknown_token_slots": unknown_token_slots(instance),
    }


def cost_facts(result: Result) -> dict[str, Any]:
    """What a plan costs, in ticks."""
    return {
        "score": [int(part) for part in result.score],
        "expert_peak_sum": int(result.cost.expert.sum()),
        "largest_peak": result.cost.largest_peak,
        "attention": int(result.cost.attention.sum()),
    }


def bound_facts(bound: ScoreProof) -> dict[str, Any]:
    """What a bound says; its certificate is in the plan file."""
    return {"value": bound.value, "kind": bound.kind, "placement": "any" if bound.any_placement else "this"}


def claim_facts(claim: SolverClaim | None) -> dict[str, Any] | None:
    """What an engine claims, if one was asked."""
    return None if claim is None else dataclasses.asdict(claim)


def status_line(status: str, proved: bool, claim: dict[str, Any] | None) -> str:
    """Status in words: proved is what the bound shows, claimed is what an engine says."""
    if proved:
        return "optimal: proved by its bound"
    if claim is None:
        return status
    engine, _, ended = claim["by"].partition(": ")
    if status == "optimal":
        what = "plans" if claim["scope"] == "any placement" else "layouts under this placement"
        return f"optimal, claimed by {engine} for {what}"
    if claim["bound"] is None:
        return f"{status}; {engine} claims nothing: {ended}"
    what = "plan" if claim["scope"] == "any placement" else "layout under this placement"
    return f"{status}; {engine} claims no {what} below {claim['bound']:,}"


def layer_facts(instance: Instance, result: Result) -> dict[str, int]:
    """How many layers no other permutation improves, and how many no permutation can balance."""
    from routepack.heuristics.placement_report import describe

    loads = instance.window.demand.sum(axis=0, dtype=np.int64)
    report = describe(result.plan.placement.rank_of_expert, loads, instance.topology.ep)
    return {"layers_at_their_bound": sum(report.no_permutation_helps), "layers_too_uneven_to_balance": sum(report.hot)}


def solve_facts(instance: Instance, result: Result, baseline: Result | None) -> dict[str, Any]:
    """Everything that `solve` says about a plan."""
    rows, method = result.rows, result.method
    makespan = result.score.makespan
    facts = {
        "status": result.status,
        "proved": result.proved,
        "solver": claim_facts(result.solver),
        "interrupted": result.interrupted,
        "instance": window_facts(instance) | {"sha256": result.sha256},
    }
    facts |= cost_facts(result)
    facts |= {
        "rows": {"count": rows.count, "status": rows.status, "cells_lower_bound": rows.cells_lower_bound, "needed": rows.needed},
        "rows_tried": [{"count": row.count, "makespan": row.makespan, "cost": row.cost} for row in result.rows_tried],
        "method": {"name": method.name, "seed": method.seed, "attempts": method.attempts},
        "seconds": round(method.seconds, 3),
        "bound": bound_facts(result.bound),
        "gap": result.gap,
        "placement_bound": bound_facts(result.placement_bound),
        "placement_gap": result.placement_bound.gap(makespan),
        "baseline": None if baseline is None else {"method": baseline.method.name, "rows": baseline.rows.count} | cost_facts(baseline),
        "gain": None if baseline is None else gain(makespan, baseline.score.makespan),
    }
    return facts | layer_facts(instance, result)


def gain(plan: int, baseline: int) -> float | None:
    """How many times more the baseline costs; ``None`` where the plan costs nothing."""
    return baseline / plan if plan and math.isfinite(baseline / plan) else None
