"""Plan one window after another; move at most four experts of a layer each time, and none where the placement is still good."""

import numpy as np

from routepack.budget import Budget
from routepack.instance import Instance
from routepack.instances.generators import generate
from routepack.planner import solve

placement = None
for step, domain in enumerate((0, 0, 1)):
    made = generate(
        samples=64, token_cap=4096, layers=4, experts=32, top_k=4, dp=4, ep=4, domains=[domain], model_seed=1, seed=step, workload="gsm8k"
    )
    now = Instance(made.window, made.topology, made.token_cap, current_placement=placement)
    limits = {} if placement is None else {"max_moves": 4, "tolerance": 0.02}
    result = solve(now, budget=Budget(attempts=20_000), **limits)
    moved = 0 if placement is None else int((result.plan.placement.rank_of_expert != placement).sum())
    placement = result.plan.placement.rank_of_expert
    print(f"window {step}, domain {domain}: {moved} experts moved, gap {result.gap:.1%}")
    assert np.bincount(placement[0]).tolist() == [8] * 4  # 32 experts on 4 ranks
