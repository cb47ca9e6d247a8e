"""Whether moving experts pays: what a window saves by it against what the moves cost."""

import dataclasses

import numpy as np

from routepack.errors import InvalidInstance
from routepack.heuristics.migration import keep_unless_worth
from routepack.instance import Instance
from routepack.plan import Layout, Placement, Plan
from routepack.result import Result
from routepack.verify import recompute_bound, verify_plan
from routepack.window import IntArray


def saved_ticks(instance: Instance, layout: Layout, current: Placement, placement: Placement) -> IntArray:
    """
    Ticks that each layer's change of placement saves at most, shape (L,), with the samples laid out as they are.

    A layer saves what the shard that gains most saves over its rows (where shards meet in every row: what each row's shard that gains most
    saves, over the rows). So a step under the current placement of some layers takes at most the sum of their savings longer.

    Parameters
    ----------
    instance
        The window.
    layout
        Samples of each cell.
    current, placement
        Placement now and as found.
    """
    demand, topology = instance.window.demand, instance.topology
    gain = np.zeros((layout.num_rows, topology.num_shards, instance.window.num_layers), dtype=np.int64)
    for r, g, cells in layout.row_shards(topology):
        total = demand[[i for cell in cells for i in cell]].sum(axis=0, dtype=np.int64)  # (layer, expert)
        before, after = (chosen.project(total, topology.ep).max(axis=1) for chosen in (current, placement))
        gain[r, g] = before - after
    most = gain.max(axis=1).sum(axis=0) if instance.options.sync == "row" else gain.sum(axis=0).max(axis=0)
    saved: IntArray = -(-most // topology.parts_per_slot)
    return saved


def settle_moves(instance: Instance, result: Result, move_cost: float) -> Result:
    """
    Keep the current placement of the layers whose moves cost more than they save; layout and rows stay.

    Parameters
    ----------
    instance
        The window, with its current placement.
    result
        A verified plan.
    move_cost
        Ticks that one expert takes from rank to rank.

    Raises
    ------
    InvalidInstance
        There is no current placement, or the cost is negative.
    """
    if instance.current_placement is None:
        raise InvalidInstance("move_cost needs current_placement; give the placement that experts would move from.")
    found, current = result.plan.placement, Placement(instance.current_placement)
    saved = saved_ticks(instance, result.plan.layout, current, found)
    kept = keep_unless_worth(current.rank_of_expert, found.rank_of_expert, saved, instance.topology.ep, move_cost)
    if (kept == found.rank_of_expert).all():
        return result
    plan = Plan(Placement(kept), result.plan.layout)
    bound = recompute_bound(instance, plan.placement, result.rows.count)
    return dataclasses.replace(result, plan=plan, cost=verify_plan(instance, plan), placement_bound=bound, solver=None)
