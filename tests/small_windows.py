"""Random small instances of every shape, and the optimum by listing all layouts: oracles of the exact side."""

import itertools

import numpy as np

from routepack.cost import Score
from routepack.cost_model import CostModel, Stage
from routepack.instance import Instance, Options
from routepack.layout_problem import LayoutProblem
from routepack.plan import Placement
from routepack.topology import Topology
from routepack.window import Window

SHAPES = [
    (1, 1, 2),
    (2, 1, 2),
    (1, 2, 2),
    (2, 2, 1),
    (2, 1, 1),
    (1, 3, 1),
    (2, 2, 2),
    (3, 1, 1),
    (1, 1, 4),
    (2, 1, 3),
]  # (shards, rows, slots)
STAGES = [
    (),
    (Stage("full", 1.0, 0.01),),
    (Stage("linear", 2.0, 0.0), Stage("full", 0.5, 0.02)),
    (Stage("free", 0.0, 0.0),),
]


def random_window(seed: int, units: int = 7) -> tuple[Instance, Placement, int]:
    """Draw an instance, a placement and a number of rows; some cannot be laid out."""
    rng = np.random.default_rng(seed)
    shards, rows, slots = SHAPES[int(rng.integers(len(SHAPES)))]
    cells = shards * rows * slots
    count = max(cells, int(rng.integers(cells, max(cells, units) + 1)))
    layers, ranks = int(rng.integers(1, 4)), int(rng.choice([1, 2, 4]))
    experts = ranks * int(rng.integers(1, 3))
    lengths = rng.integers(1, 60, count)
    if rng.random() < 0.4:
        lengths[0] = 90  # a giant
    demand = rng.integers(0, 20, (count, layers, experts)) * (rng.random((count, layers, experts)) < 0.7)
    if rng.random() < 0.2:
        demand[:, 0] = 0  # a layer without work
    cap = max(int(lengths.max()), int(lengths.sum() / cells * rng.uniform(1.05, 2.0)))
    split = slots == 1 and rng.random() < 0.3
    topology = Topology(shards * slots, ranks, shards * (2 if split else 1))
    equal = bool(rng.random() < 0.2 and count % (shards * slots) == 0)
    together = ((0, 1),) if rng.random() < 0.15 and count > cells and not equal and lengths[0] + lengths[1] <= cap else ()
    options = Options(sync="row" if rng.random() < 0.3 else "shard", equal_samples=equal, keep_together=together)
    stages = STAGES[int(rng.integers(len(STAGES)))]
    instance = Instance(Window(lengths, demand.astype(np.int32)), topology, cap, cost=CostModel(stages=stages), options=options)
    placement = Placement(np.stack([rng.permutation(np.arange(experts) % ranks) for _ in range(layers)]))
    return instance, placement, rows


def best_by_listing(problem: LayoutProblem) -> Score | None:
    """Optimum over all assignments of units to cells."""
    best = None
    for cells in itertools.product(range(problem.num_cells), repeat=problem.num_units):
        answer = np.array(cells)
        if problem.fault(answer) is None:
            score = problem.score(answer)
            best = score if best is None else min(best, score)
    return best
