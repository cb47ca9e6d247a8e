"""Plan one window from arrays, as a trainer does between rollout and optimizer step."""

import numpy as np

import routepack

rng = np.random.default_rng(0)
lengths = rng.integers(100, 2000, size=64)  # tokens of each sample
shares = rng.dirichlet(np.ones(16), size=(64, 4))  # (sample, MoE layer, expert)
demand = np.floor(shares * lengths[:, None, None]).astype(np.int32)  # token-slots; what rounding drops counts as an unknown route

topology = routepack.Topology.from_trainer(world=8, tp=2, ep=4, etp=1)  # four DP slots, two EDP shards of two slots
result = routepack.plan_window(lengths, demand, topology, token_cap=4096, attempts=50_000)

print(f"rows {result.rows.count}: {result.rows.status}")
print(f"gap {result.gap:.1%} above what no plan can be below")
print(f"layer 0: expert e lies on EP rank {result.placement[0]}")
for d, rows in enumerate(result.layout):
    print(f"slot {d} runs microbatches {rows}")
