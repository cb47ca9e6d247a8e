"""What a plan does to its window, before and after, from verified data alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from routepack.certificate import RowProof
from routepack.cost import Cost
from routepack.errors import Infeasible
from routepack.heuristics.placement_report import PlacementReport, describe
from routepack.instance import Instance
from routepack.plan import Plan
from routepack.planner import solve
from routepack.studies import plan_figures
from routepack.studies.decomposition import Decomposition, decompose
from routepack.studies.page import Report, Section, Table
from routepack.studies.plan_figures import Side
from routepack.studies.simulator import Workload, simulate
from routepack.verify import Claims, verify

BASELINE = "identity-ffd"


@dataclass(frozen=True, slots=True)
class _Study:
    """A plan, recomputed, beside the baseline's."""

    instance: Instance
    claims: Claims
    cost: Cost
    proof: RowProof
    after: Side
    before: Side | None
    parts: Decomposition

    @property
    def gap(self) -> float | None:
        return self.claims.bound.gap(self.cost.score.makespan)

    @property
    def gain(self) -> float | None:
        makespan = self.cost.score.makespan
        return self.before.cost.score.makespan / makespan if self.before and makespan else None


def plan_report(instance: Instance, plan: Plan, claims: Claims) -> Report:
    """
    Verify a plan and describe it beside the baseline: identity placement and first-fit decreasing by length.

    Raises
    ------
    InvalidPlan, InvalidCertificate
        The plan or something that it claims does not hold.
    """
    cost, proof = verify(instance, plan, claims)
    parts = decompose(instance, plan, cost, claims.bound.value)
    study = _Study(instance, claims, cost, proof, _side("after", instance, plan, cost), _baseline(instance), parts)
    sides = [study.before, study.after] if study.before else [study.after]
    layers = describe(plan.placement.rank_of_expert, instance.window.demand.sum(axis=0, dtype=np.int64), instance.topology.ep)
    sections = (
        _time_section(instance, sides),
        _gap_section(study),
        _load_section(instance, sides, layers),
        Section(
            "Cells",
            "Slots of one shard wait in every layer for the one with the most attention: what is dark waits. Where no slot waits for "
            "another, shades show how full cells are.",
            tuple(plan_figures.cells(instance, sides)),
        ),
        Section("Lengths", "Tokens of the samples, prompt and response together.", (plan_figures.lengths(instance),)),
    )
    return Report(instance.name or "window", _verdict(study), _cards(study), sections, _facts(study, layers))


def _side(name: str, instance: Instance, plan: Plan, cost: Cost) -> Side:
    return Side(name, plan, cost, Workload.of(instance, plan), simulate(instance, plan))


def _baseline(instance: Instance) -> Side | None:
    try:
        result = solve(instance, method=BASELINE)
    except Infeasible:
        return None  # first-fit may miss a side constraint that the plan keeps
    return _side("before", instance, result.plan, result.cost)


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.2f} %"


def _scope(claims: Claims) -> str:
    return "the best plan with as many rows" if claims.bound.any_placement else "the best plan with this placement and as many rows"


def _rows(study: _Study) -> str:
    count = study.proof.count
    return f"{count:,} row{'s' if count != 1 else ''}, {study.proof.status}{' fewest' if study.proof.status == 'proved' else ''}"


def _verdict(study: _Study) -> str:
    makespan, before, claims = study.cost.score.makespan, study.before, study.claims
    if before is None:
        first = f"{makespan:,} ticks; {BASELINE} finds no plan to compare with"
    elif study.gain is None:
        first = "This step has no work"
    else:
        first = f"{study.gain:.2f} times the speed of {BASELINE}: {makespan:,} ticks instead of {before.cost.score.makespan:,}"
    if claims.status == "optimal":
        by = f", as {claims.solver.by} claims" if claims.solver is not None and claims.solver.status == "optimal" else ", by its bound"
        last = f"Optimal{by}"
    elif study.gap is None:
        last = "The gap is unknown"
    elif study.gap == 0:
        last = f"As fast as {_scope(claims)}"
    else:
        last = f"At most {_percent(study.gap)} above {_scope(claims)}"
    return f"{first}. {_rows(study)}. {last}."


def _cards(study: _Study) -> tuple[tuple[str, str, str], ...]:
    replay, before = study.after.replay, study.before
    speed = replay.tokens_per_tick
    was = "" if before is None else f"was {_percent(float(before.replay.idle_share.mean()))}"
    return (
        ("Speed", "-" if study.gain is None else f"{study.gain:.2f}x", f"of {BASELINE}"),
        ("Slowest shard", f"{study.cost.score.makespan:,}", "ticks"),
        ("Gap", _percent(study.gap), f"to {study.claims.bound.value:,} ({study.claims.bound.kind}, {study.claims.bound.scope})"),
        ("Rows", f"{study.proof.count:,}", study.proof.status),
        ("Ranks idle", _percent(float(replay.idle_share.mean())), was),
        ("Tokens per kilotick", "-" if speed is None else f"{1000 * speed:,.1f}", f"{replay.tokens:,} tokens"),
    )


def _time_section(instance: Instance, sides: list[Side]) -> Section:
    meeting = "in every row" if instance.options.sync == "row" else "only at the end of the step"
    return Section(
        "Time",
        f"Shards meet {meeting}; the step lasts as long as the slowest. Each row is drawn as its attention, then its experts; "
        "in truth they take turns layer by layer.",
        tuple(plan_figures.timelines(sides)),
    )


def _gap_section(study: _Study) -> Section:
    parts = study.parts
    rows = [(plan_figures.STEPS[name], f"{ticks:+,}", _of(ticks, parts.bound)) for name, ticks in parts.steps.items()]
    ends = ((f"bound ({study.claims.bound.kind})", f"{parts.bound:,}", ""), ("score", f"{parts.score:,}", _of(parts.score, parts.bound)))
    table = Table("The same in numbers", ("from the bound up", "ticks", "of the bound"), (ends[0], *rows, ends[1]))
    return Section(
        "Where the gap sits",
        "Each step is what an ideal would save, after those below it; together they are the gap, to the tick. Not all of it can be saved.",
        (plan_figures.gap(parts), table),
    )


def _of(ticks: int, bound: int) -> str:
    return _percent(ticks / bound) if bound else "-"


def _load_section(instance: Instance, sides: list[Side], layers: PlacementReport) -> Section:
    helped, hot, count = sum(layers.no_permutation_helps), sum(layers.hot), len(layers.hot)
    names = plan_figures.layer_names(instance)
    peaks = [[int(x) for x in side.loads.max(axis=1)] for side in sides]
    mean = layers.loads.sum(axis=1) / instance.topology.ep
    columns = ("layer", *(f"busiest rank {side.name}" for side in sides), "least that any placement has", "over the mean", "verdict")
    rows = []
    for n, name in enumerate(names):
        verdict = "no permutation can help here" if layers.no_permutation_helps[n] else "open"
        verdict += ", too uneven to balance" if layers.hot[n] else ""
        over = f"{peaks[-1][n] / mean[n]:.3f}" if mean[n] else "-"
        rows.append((name, *(f"{peak[n]:,}" for peak in peaks), f"{int(layers.bounds[n]):,}", over, verdict))
    text = (
        f"No permutation of the experts can help in {helped} of {count} layers: there, the busiest rank of the whole window carries the "
        f"least that any placement has. In {hot} the experts are too uneven for any placement to balance. Rows are what counts: a "
        "placement may give up a little here to suit them."
    )
    table = Table("Layer by layer, in token-slots", columns, tuple(rows), folded=True)
    return Section("Load of layers and ranks", text, (*plan_figures.loads(instance, sides), table))


def _facts(study: _Study, layers: PlacementReport) -> dict[str, Any]:
    """The numbers of the page, by the names that ``solve --json`` gives them."""
    proof, bound, before = study.proof, study.claims.bound, study.before
    return {
        "instance": {"name": study.instance.name, "sha256": study.claims.sha256},
        "status": study.claims.status,
        "score": [int(part) for part in study.cost.score],
        "bound": {"value": bound.value, "kind": bound.kind, "scope": bound.scope},
        "gap": study.gap,
        "gap_steps": study.parts.steps,
        "rows": {"count": proof.count, "status": proof.status, "cells_lower_bound": proof.cells_lower_bound, "needed": proof.needed},
        "baseline": None if before is None else {"method": BASELINE, "score": [int(part) for part in before.cost.score]},
        "gain": study.gain,
        "idle_share": {side.name: float(side.replay.idle_share.mean()) for side in (before, study.after) if side is not None},
        "layers_at_their_bound": sum(layers.no_permutation_helps),
        "layers_too_uneven_to_balance": sum(layers.hot),
    }
