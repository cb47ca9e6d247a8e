"""What the shipped windows give today, under attempt caps, so that it is the same on every run."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from routepack.bounds.score import SCORE_BOUNDS
from routepack.budget import Budget
from routepack.errors import RoutePackError
from routepack.instance import Instance
from routepack.instances import library
from routepack.instances.library.small import SmallCase, load_small
from routepack.plan import Placement
from routepack.planner import solve
from routepack.result import Result
from routepack.rows import settle
from routepack.score_proof import recompute_proof
from routepack.studies.suites import SUITES
from routepack.verify import verify_plan

CONSTRUCTIVE = ("lpt-ffd", "identity-ffd", "kk")
SMALL_ATTEMPTS = {"anneal": 20_000, "annealing-single": 5_000, "multi-start": 5_000} | dict.fromkeys(CONSTRUCTIVE, 0)
SHIPPED_ATTEMPTS = {"anneal": 300_000, "annealing-single": 300_000, "multi-start": 300_000} | dict.fromkeys(CONSTRUCTIVE, 0)
ROW_ROUNDS = 30
SEED = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    What a method or a bound gives on a window.

    Parameters
    ----------
    suite, window, name
        ``small``, ``shipped`` or ``rows``; the window; the method or, for a bound, ``bound:`` and its kind.
    value
        Score, or the single number of a bound or of rows; empty where there is none.
    digest
        Fingerprint of the plan, for methods whose plan follows from the input by fixed rules for ties.
    optimum
        Proven optimum that the value is held against.
    fault
        What is wrong whatever was recorded.
    """

    suite: str
    window: str
    name: str
    value: tuple[int, ...]
    digest: str = ""
    optimum: tuple[int, ...] = ()
    fault: str = ""

    @property
    def is_bound(self) -> bool:
        """Whether larger is better."""
        return self.name.startswith("bound:")


def outcomes(only: Callable[[str], bool] = lambda window: True) -> Iterator[Outcome]:
    """Yield what every method and every bound gives on the shipped windows whose names are wanted."""
    for case in load_small():
        if only(case.instance.name):
            yield from _small(case)
    for name in library.names():
        if name.startswith("tinymoe") and only(name):
            yield from _shipped(library.load(name))
    for name in SUITES["rows"].names():
        if only(name):
            yield from _rows(name)


def _small(case: SmallCase) -> Iterator[Outcome]:
    instance, name, optimum = case.instance, case.instance.name, tuple(case.optimum)
    attained = verify_plan(instance, case.plan).score
    fault = "" if attained == case.optimum else f"the recorded optimal plan scores {list(attained)}, not {list(optimum)}"
    yield Outcome("small", name, "recorded plan", tuple(attained), optimum=optimum, fault=fault)
    for method, attempts in SMALL_ATTEMPTS.items():
        yield _method("small", instance, method, attempts, case)
    for kind in SCORE_BOUNDS:
        yield _bound("small", instance, kind, case.plan.placement, case.rows, optimum)


def _shipped(instance: Instance) -> Iterator[Outcome]:
    best: tuple[int, ...] = ()
    for method, attempts in SHIPPED_ATTEMPTS.items():
        outcome = _method("shipped", instance, method, attempts, None)
        best = min(best or outcome.value, outcome.value or best)
        yield outcome
    rows = solve(instance, method="lpt-ffd").rows.count
    for kind in SCORE_BOUNDS:
        yield _bound("shipped", instance, kind, None, rows, best)


def _method(suite: str, instance: Instance, method: str, attempts: int, case: SmallCase | None) -> Outcome:
    try:
        result = solve(instance, method=method, budget=Budget(attempts=attempts), seed=SEED, threads=1, replace=case is None)
        again = verify_plan(instance, result.plan).score
    except RoutePackError as error:
        return Outcome(suite, instance.name, method, (), fault=f"no verified plan: {error}")
    fault = "" if again == result.score else f"the plan scores {list(again)}, its result says {list(result.score)}"
    comparable = case is not None and np.array_equal(result.plan.placement.rank_of_expert, case.plan.placement.rank_of_expert)
    optimum = tuple(case.optimum) if case is not None and comparable else ()
    if optimum and tuple(result.score) < optimum:
        fault = f"score {list(result.score)} is below the proven optimum {list(optimum)}"
    return Outcome(suite, instance.name, method, tuple(result.score), _digest(result) if method in CONSTRUCTIVE else "", optimum, fault)


def _digest(result: Result) -> str:
    return hashlib.sha256(json.dumps([result.placement, result.layout]).encode()).hexdigest()[:16]


def _bound(suite: str, instance: Instance, kind: str, placement: Placement | None, rows: int, best: tuple[int, ...]) -> Outcome:
    """Compute a bound, check its proof, and hold it against the optimum or, where that is not known, the best plan."""
    name = f"bound:{kind}"
    try:
        proof = SCORE_BOUNDS[kind](instance, placement, rows)  # type: ignore[index]
        checked = None if proof is None else recompute_proof(instance, placement, rows, proof)
    except RoutePackError as error:
        return Outcome(suite, instance.name, name, (), fault=f"no checked bound: {error}")
    if proof is None:
        return Outcome(suite, instance.name, name, ())
    fault = "" if checked == proof.value else f"the bound is {proof.value}, its proof gives {checked}"
    if best and proof.value > best[0]:
        fault = f"bound {proof.value} exceeds {'the optimum' if suite == 'small' else 'a plan of'} {best[0]}"
    return Outcome(suite, instance.name, name, (proof.value,), optimum=best[:1], fault=fault)


def _rows(name: str) -> Iterator[Outcome]:
    question = SUITES["rows"].load(name)
    lengths, fewest = question.instance.unit_lengths(), question.fewest_cells
    found = settle(lengths, question.instance.token_cap, budget=Budget(attempts=ROW_ROUNDS))
    load = np.bincount(found.cell_of_unit, weights=lengths)
    fault = "" if load.max() <= question.instance.token_cap else f"a cell holds {load.max():.0f} tokens"
    if found.needed > found.cells or (fewest is not None and not found.needed <= fewest <= found.cells):
        fault = f"{found.cells} cells found and {found.needed} needed, {fewest} known"
    optimum = () if fewest is None else (fewest,)
    yield Outcome("rows", name, "settle", (found.cells,), optimum=optimum, fault=fault)
    yield Outcome("rows", name, "bound:rows", (found.needed,), optimum=optimum, fault=fault)
