"""Exact placement of every layer, and placement and layout decided together."""

from dataclasses import dataclass, replace

import numpy as np

from routepack.budget import Budget
from routepack.certificate import placement_bounds
from routepack.cost import Score
from routepack.exact import ExactOutcome, Settings, lexicographic, run_engine
from routepack.formulations.joint_plan import JointPlan
from routepack.formulations.language import Encoding
from routepack.formulations.layer_placement import LayerPlacement
from routepack.instance import Instance
from routepack.plan import Placement
from routepack.score_proof import layout_problem
from routepack.solvers.outcome import Status
from routepack.window import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class PlacementOutcome:
    """
    Ranks of all layers, recomputed, beside what the engine claims of each.

    Parameters
    ----------
    ranks
        EP rank of each expert, shape (L, E); never worse than the hint in any layer.
    peaks
        Largest rank load of each layer, shape (L,).
    bounds
        Lower bound on it that is proved or that the engine claims, shape (L,); it holds within ``max_moves``, where given.
    """

    ranks: IntArray
    peaks: IntArray
    bounds: IntArray

    @property
    def optimal(self) -> list[bool]:
        """Whether each layer is optimal, shape (L,)."""
        return [bool(x) for x in self.peaks == self.bounds]


def place_exact(
    loads: IntArray,
    num_ranks: int,
    hint: IntArray,
    *,
    current: IntArray | None = None,
    max_moves: int | None = None,
    budget: Budget | None = None,
    settings: Settings | None = None,
) -> PlacementOutcome:
    """
    Minimise the largest rank load of each layer; layers that already meet the cardinality bound are left alone.

    Parameters
    ----------
    loads
        Token-slots of each expert, shape (L, E).
    num_ranks
        EP ranks P, a divisor of E.
    hint
        Rank of each expert in a known placement, shape (L, E), within ``max_moves`` of the current one.
    current, max_moves
        Placement now, shape (L, E), and how many experts of a layer may change rank.
    budget
        Time limit of all layers together, shared evenly among those that are left; interruption keeps the hint.
    settings
        Engine, threads, seed and log.
    """
    budget, settings = budget or Budget(), settings or Settings()
    ranks, bounds = hint.copy(), placement_bounds(loads, num_ranks)
    peaks = np.array([_peak(loads[layer], ranks[layer], num_ranks) for layer in range(len(loads))], dtype=np.int64)
    waiting = np.flatnonzero(peaks > bounds).tolist()
    for position, layer in enumerate(waiting):
        if budget.used(0) >= 1:
            break
        share = None if budget.seconds is None else (budget.seconds - budget.elapsed()) / (len(waiting) - position)
        now = None if current is None else current[layer]
        formulation = LayerPlacement(loads[layer], num_ranks, current=now, max_moves=max_moves)
        encoding = formulation.encode(settings.engine, ranks[layer])
        slice_ = Budget(seconds=share, interrupted=budget.interrupted, report=budget.report)
        outcome = run_engine(encoding, encoding.objectives[0], slice_, settings)
        if outcome.values:
            found = formulation.decode(outcome.values)
            peak = _peak(loads[layer], found, num_ranks)
            held = np.bincount(found, minlength=num_ranks)
            moved = 0 if now is None or max_moves is None else int((found != now).sum()) - max_moves
            if peak < peaks[layer] and (held == len(found) // num_ranks).all() and moved <= 0:
                ranks[layer], peaks[layer] = found, peak
        if outcome.status in (Status.OPTIMAL, Status.FEASIBLE, Status.UNKNOWN) and outcome.bound is not None:
            bounds[layer] = min(max(int(bounds[layer]), outcome.bound), int(peaks[layer]))
    return PlacementOutcome(ranks, peaks, bounds)


def _peak(loads: IntArray, ranks: IntArray, num_ranks: int) -> int:
    total = np.zeros(num_ranks, dtype=np.int64)
    np.add.at(total, ranks, loads)
    return int(total.max())


class _Joint:
    """`JointPlan` whose answers are pairs (cells, ranks)."""

    def __init__(self, formulation: JointPlan) -> None:
        self.formulation = formulation

    def encode(self, engine: str, hint: tuple[IntArray, IntArray] | None = None) -> Encoding:
        return self.formulation.encode(engine, *(hint or (None, None)))

    def decode(self, values: tuple[int, ...]) -> tuple[IntArray, IntArray]:
        return self.formulation.decode(values), self.formulation.decode_placement(values)


def solve_joint(
    instance: Instance,
    num_rows: int,
    hint: tuple[IntArray, Placement] | None = None,
    *,
    budget: Budget | None = None,
    settings: Settings | None = None,
) -> ExactOutcome:
    """
    Place and lay out a tiny window together.

    Parameters
    ----------
    instance, num_rows
        What is planned.
    hint
        Cell of each unit, shape (units,), and placement of a known plan.
    budget, settings
        As in `routepack.exact.solve_exact`.

    Raises
    ------
    Infeasible
        A unit exceeds the cap.
    """
    ranks = instance.topology.ep
    problem, _ = layout_problem(instance, None, num_rows)
    demand = problem.loads

    def judge(answer: tuple[IntArray, IntArray]) -> tuple[str | None, Score]:
        cells, placed = answer
        priced = replace(problem, loads=Placement(placed).project(demand, ranks))
        return priced.fault(cells), priced.score(cells)

    start = None if hint is None else (hint[0], hint[1].rank_of_expert)
    found = lexicographic(_Joint(JointPlan(problem, ranks)), judge, start, budget or Budget(), settings or Settings())
    cells, placed = found.answer if found.answer is not None else (None, None)
    return ExactOutcome(cells, None if placed is None else Placement(placed), found.score, found.passes, found.contradiction)
