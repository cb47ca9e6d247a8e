"""Make the small suite with proven optima: both engines must agree, and agree with listing all layouts where that is possible."""

import argparse
import itertools
import json
from pathlib import Path

import numpy as np

from routepack.budget import Budget
from routepack.cost import Score
from routepack.cost_model import CostModel, Stage
from routepack.errors import Infeasible
from routepack.exact import Settings, solve_layout
from routepack.fewest_rows import decide_rows
from routepack.heuristics.placement import lpt_swap
from routepack.instance import Instance, Options
from routepack.instances.instance_form import instance_to_dict
from routepack.layout_problem import LayoutProblem, layout_of_cells
from routepack.plan import Placement
from routepack.solvers.outcome import Status
from routepack.topology import Topology
from routepack.window import Window

LISTED = 200_000
# family -> (shards, rows, slots, samples, layers, ranks); rows are what the cap aims at
FAMILIES = {
    "one-shard": [
        (1, 2, 2, 8, 2, 2),
        (1, 2, 4, 10, 3, 2),
        (1, 3, 1, 9, 1, 4),
        (1, 1, 4, 12, 2, 2),
        (1, 2, 2, 12, 6, 2),
        (1, 4, 1, 10, 4, 2),
    ],
    "two-shards": [
        (2, 1, 2, 8, 2, 2),
        (2, 2, 1, 10, 3, 2),
        (2, 2, 2, 12, 2, 2),
        (2, 1, 4, 12, 1, 4),
        (2, 1, 2, 14, 4, 2),
        (2, 3, 1, 10, 2, 4),
    ],
    "four-shards": [
        (4, 1, 1, 8, 2, 2),
        (4, 1, 2, 10, 1, 2),
        (4, 2, 1, 11, 2, 2),
        (4, 1, 1, 12, 5, 2),
        (4, 1, 2, 12, 2, 4),
        (4, 1, 1, 20, 1, 2),
    ],
    "several-stages": [
        (2, 1, 2, 8, 2, 2),
        (1, 2, 2, 10, 3, 2),
        (2, 2, 1, 10, 1, 4),
        (1, 2, 4, 12, 2, 2),
        (2, 2, 2, 11, 2, 2),
        (1, 3, 2, 10, 2, 2),
    ],
    "tight-cap": [
        (1, 2, 2, 9, 2, 2),
        (2, 1, 2, 10, 2, 2),
        (2, 2, 1, 11, 3, 2),
        (1, 2, 4, 14, 2, 2),
        (2, 2, 2, 13, 1, 2),
        (1, 3, 2, 12, 2, 2),
    ],
    "equal-samples": [
        (1, 2, 2, 8, 2, 2),
        (2, 1, 2, 12, 2, 2),
        (2, 2, 1, 10, 3, 2),
        (2, 2, 2, 12, 2, 2),
        (1, 2, 4, 12, 1, 4),
        (1, 3, 1, 9, 2, 2),
    ],
    "giant": [(1, 2, 2, 8, 2, 2), (2, 2, 1, 10, 2, 2), (2, 2, 2, 12, 2, 2), (1, 2, 4, 12, 3, 2), (4, 2, 1, 10, 1, 2), (2, 3, 1, 11, 2, 2)],
    "hot-expert": [
        (1, 2, 2, 8, 3, 4),
        (2, 1, 2, 10, 2, 4),
        (2, 2, 1, 10, 4, 4),
        (2, 2, 2, 11, 2, 4),
        (1, 3, 1, 10, 6, 4),
        (4, 1, 1, 10, 2, 4),
    ],
    "ties": [(1, 2, 2, 8, 1, 2), (2, 1, 2, 8, 1, 2), (2, 2, 1, 10, 2, 2), (2, 2, 2, 10, 1, 2), (1, 2, 4, 10, 1, 2), (4, 1, 1, 9, 1, 2)],
    "split-slots": [
        (2, 2, 1, 8, 2, 2),
        (2, 3, 1, 10, 2, 2),
        (4, 1, 1, 10, 3, 2),
        (1, 3, 1, 9, 2, 4),
        (4, 2, 1, 11, 1, 2),
        (2, 2, 1, 12, 5, 2),
    ],
    "sync-row": [
        (2, 2, 1, 8, 2, 2),
        (2, 2, 2, 11, 2, 2),
        (4, 2, 1, 10, 2, 2),
        (2, 3, 1, 10, 3, 2),
        (2, 1, 2, 9, 2, 2),
        (4, 1, 2, 10, 1, 4),
    ],
    "smallest": [(1, 1, 1, 6, 1, 1), (1, 1, 2, 6, 2, 2), (2, 1, 1, 6, 1, 2), (2, 3, 1, 6, 1, 2), (1, 2, 2, 6, 4, 2), (4, 1, 1, 6, 2, 2)],
}
STAGES = (Stage("linear", 2.0, 0.0), Stage("full", 0.5, 0.01), Stage("sliding", 1.0, 0.002))


def draw(family: str, number: int, shape: tuple[int, int, int, int, int, int]) -> tuple[Instance, Placement]:
    """Draw one window of a family."""
    shards, rows, slots, samples, layers, ranks = shape
    rng = np.random.default_rng([sorted(FAMILIES).index(family), number])
    lengths = np.rint(np.exp(rng.normal(5.5, 0.6, samples))).astype(np.int64)
    if family == "ties":
        lengths = rng.choice([100, 200], samples)
    cells = shards * rows * slots
    if family == "giant":
        lengths[0] = 2 * lengths[1:].sum() // cells
    experts = 2 * ranks
    popularity = rng.dirichlet(np.full(experts, 0.3 if family == "hot-expert" else 2.0), (samples, layers))
    demand = np.rint(popularity * 2 * lengths[:, None, None]).astype(np.int32)
    slack = 1.04 if family == "tight-cap" else float(rng.uniform(1.15, 1.6))
    cap = max(int(lengths.sum() / cells * slack), int(lengths.max()))
    topology = Topology(shards * slots, ranks, shards * slots * 2 if family == "split-slots" else shards)
    options = Options(equal_samples=family == "equal-samples", sync="row" if family == "sync-row" else "shard")
    cost = CostModel(stages=STAGES if family == "several-stages" else ())
    instance = Instance(Window(lengths, demand), topology, cap, name=f"{family}-{number}", cost=cost, options=options)
    return instance, Placement(lpt_swap(demand.sum(axis=0, dtype=np.int64), ranks))


def listed(problem: LayoutProblem) -> Score | None:
    """Optimum over all assignments, where they are few."""
    if problem.num_cells**problem.num_units > LISTED:
        return None
    found = (np.array(cells) for cells in itertools.product(range(problem.num_cells), repeat=problem.num_units))
    return min((problem.score(cells) for cells in found if problem.fault(cells) is None), default=None)


def prove(instance: Instance, placement: Placement, seconds: float) -> dict[str, object] | None:
    """Solve with both engines; a case where one of them does not finish is not used."""
    try:
        rows = decide_rows(instance).count
    except Infeasible:
        return None
    problem = LayoutProblem.of(instance, placement, rows)
    outcomes = [solve_layout(problem, budget=Budget(seconds=seconds), settings=Settings(engine=e, threads=2)) for e in ("cp-sat", "milp")]
    if any(outcome.status is not Status.OPTIMAL for outcome in outcomes):
        return None
    by_listing = listed(problem)
    scores = {outcome.score for outcome in outcomes} | ({by_listing} if by_listing else set())
    assert len(scores) == 1, (instance.name, scores)
    score, cells = outcomes[0].score, outcomes[0].cells
    assert score is not None
    assert cells is not None
    messages = " and ".join(outcome.passes[0].message.split(":")[0] for outcome in outcomes)
    return {
        "instance": instance_to_dict(instance),
        "placement": placement.to_list(),
        "rows": rows,
        "optimum": list(score),
        "proved_by": ("listing, " if by_listing else "") + messages,
        "layout": layout_of_cells(instance, rows, cells).to_list(),
    }


def main() -> None:
    """Write one line for each case that is settled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    lines = []
    for family, shapes in FAMILIES.items():
        for number, shape in enumerate(shapes):
            case = prove(*draw(family, number, shape), arguments.seconds)
            print(f"{family}-{number}", "-" if case is None else f"{case['rows']} rows {case['optimum']} {case['proved_by']}", flush=True)
            if case is not None:
                lines.append(json.dumps(case))
    arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} cases")


if __name__ == "__main__":
    main()
