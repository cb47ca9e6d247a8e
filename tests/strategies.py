"""Small random instances and plans that cover every option of the kernel."""

import numpy as np
from hypothesis import strategies as st

from routepack import CostModel, Instance, Options, Stage, Topology, Window
from routepack.plan import Layout, Placement, Plan

COSTS = st.one_of(
    st.builds(CostModel, share=st.sampled_from([0.0, 0.25, 0.5, 0.75])),
    st.builds(
        lambda stages, expert: CostModel("absolute", expert_cost=expert, stages=tuple(stages)),
        st.lists(st.builds(Stage, st.just("s"), st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=3),
        st.sampled_from([0.5, 1.0, 2.0]),
    ),
)
TOPOLOGIES = [(1, 1, 1), (1, 2, 1), (2, 2, 1), (2, 2, 2), (4, 2, 2), (1, 2, 3), (2, 2, 4), (3, 1, 3), (2, 4, 1)]


@st.composite
def instances(draw, max_samples=6, max_layers=2, topologies=TOPOLOGIES):
    """Draw an instance whose samples may or may not fit, with any option set."""
    topology = Topology(*draw(st.sampled_from(topologies)))
    samples = draw(st.integers(1, max_samples))
    layers = draw(st.integers(1, max_layers))
    experts = topology.ep * draw(st.integers(1, 2))
    numbers = st.integers(0, 9)
    demand = draw(st.lists(numbers, min_size=samples * layers * experts, max_size=samples * layers * experts))
    options = Options(
        oversize=draw(st.sampled_from(["error", "own_row"])),
        equal_samples=draw(st.booleans()) and samples % topology.dp == 0,
        keep_together=draw(st.sampled_from([(), ((0, samples - 1),)])) if samples > 2 else (),
        sync=draw(st.sampled_from(["shard", "row"])),
    )
    return Instance(
        Window(draw(st.lists(st.integers(1, 9), min_size=samples, max_size=samples)), np.reshape(demand, (samples, layers, experts))),
        topology,
        draw(st.integers(8, 24)),
        length_multiple=draw(st.sampled_from([1, 1, 4])),
        row_multiple=draw(st.sampled_from([1, 1, 2])),
        cost=draw(COSTS),
        options=options,
    )


@st.composite
def plans(draw, instance):
    """Draw a placement that is a permutation and a layout of every sample that often, but not always, keeps the constraints."""
    ranks, experts = instance.topology.ep, instance.window.num_experts
    row = sorted(list(range(ranks)) * (experts // ranks))
    placement = [draw(st.permutations(row)) for _ in range(instance.window.num_layers)]
    slots, samples = instance.topology.dp, instance.window.num_samples
    rows = draw(st.integers(1, max(1, samples // slots)))
    cells = [[[] for _ in range(rows)] for _ in range(slots)]
    for n, i in enumerate(draw(st.permutations(range(samples)))):
        c = n if n < slots * rows and draw(st.integers(0, 19)) else draw(st.integers(0, slots * rows - 1))
        cells[c % slots][c // slots].append(i)
    return Plan(Placement(np.array(placement)), Layout.from_lists(cells))
