"""
Placement against its bound, migration and re-placement, as ratios of one run; times are single-threaded, after warm-up.

    python benchmarks/placement.py
"""

import time
from collections.abc import Callable

import numpy as np

from routepack.certificate import placement_bounds
from routepack.heuristics.migration import moved_experts, place_from, relabel
from routepack.heuristics.placement import PLACEMENTS, lpt_swap, rank_loads
from routepack.heuristics.replacement import replace_for_rows
from routepack.plan import Placement
from routepack.window import IntArray

LAYERS, EXPERTS, SLOTS = 58, 256, 1_000_000


def zipf(exponent: float) -> IntArray:
    weights = np.arange(1, EXPERTS + 1, dtype=float) ** -exponent
    loads = np.rint(weights / weights.sum() * SLOTS).astype(np.int64)
    rng = np.random.default_rng(0)
    return np.stack([rng.permutation(loads) for _ in range(LAYERS)])


def dirichlet(alpha: float) -> IntArray:
    return np.rint(np.random.default_rng(0).dirichlet(np.full(EXPERTS, alpha), LAYERS) * SLOTS).astype(np.int64)


def timed(function: Callable[[], IntArray]) -> tuple[IntArray, float]:
    result, best = function(), float("inf")
    for _ in range(3):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return result, best


def static_table() -> None:
    print(f"Largest rank load of {LAYERS} layers x {EXPERTS} experts: mean (worst layer) over the bound; time")
    print(f"{'load':>14} {'P':>3}  {'identity':>18}  {'lpt':>18}  {'lpt-swap':>18}  {'swap/lpt':>8}  {'ms':>5}  {'time/lpt':>8}")
    families = [(f"zipf {a}", zipf(a)) for a in (0.3, 0.5, 1.0)] + [(f"dirichlet {a}", dirichlet(a)) for a in (0.5, 1.0, 5.0)]
    for name, loads in families:
        for num_ranks in (8, 16, 32, 64):
            bounds = placement_bounds(loads, num_ranks)
            largest, seconds, cells = {}, {}, []
            for method, place in PLACEMENTS.items():
                placement, seconds[method] = timed(lambda place=place, p=num_ranks, loads=loads: place(loads, p))
                largest[method] = rank_loads(placement, loads, num_ranks).max(axis=1)
                ratio = largest[method] / bounds
                cells.append(f"{ratio.mean():8.5f} ({ratio.max():7.5f})")
            gain = (largest["lpt-swap"] / largest["lpt"]).mean()
            print(
                f"{name:>14} {num_ranks:>3}  {'  '.join(cells)}  {gain:8.5f}  {seconds['lpt-swap'] * 1e3:5.1f}  "
                f"{seconds['lpt-swap'] / seconds['lpt']:8.1f}"
            )


def migration_table() -> None:
    print("\nA later window, loads changed by up to a quarter: largest rank load over the bound, share of experts that change rank")
    num_ranks, loads = 16, dirichlet(5.0)
    current = lpt_swap(loads, num_ranks)
    later = np.rint(loads * np.random.default_rng(1).uniform(0.75, 1.25, loads.shape)).astype(np.int64)
    bounds = placement_bounds(later, num_ranks)
    fresh = lpt_swap(later, num_ranks)
    for name, placement in {
        "stay": current,
        "fresh": fresh,
        "fresh, ranks renamed": relabel(fresh, current, num_ranks),
        "from current": place_from(current, later, num_ranks),
        "tolerance 0.01": place_from(current, later, num_ranks, tolerance=0.01),
        "tolerance 0.02": place_from(current, later, num_ranks, tolerance=0.02),
        "max_moves 16": place_from(current, later, num_ranks, max_moves=16),
    }.items():
        ratio = (rank_loads(placement, later, num_ranks).max(axis=1) / bounds).mean()
        print(f"{name:>22}  {ratio:.4f}  {moved_experts(current, placement).mean() / EXPERTS:6.1%}")


def replacement_table() -> None:
    print("\nRe-placement for given rows: expert cost over the balanced value before and after, ms")
    for name, shape, num_ranks in (("24 x 32, 14 row-shards", (14, 24, 32), 8), ("60 x 256, 100 row-shards", (100, 60, 256), 32)):
        rng = np.random.default_rng(0)
        _, layers, experts = shape
        popularity = rng.gamma(3.0, size=(layers, experts)) * rng.gamma(20.0, 1 / 20, size=shape)
        demand = np.rint(popularity / popularity.sum(axis=2, keepdims=True) * 65_536).astype(np.int64)
        ideal = demand.sum() / num_ranks
        start = lpt_swap(demand.sum(axis=0), num_ranks)
        for kicks in (0, 8):
            placement, seconds = timed(
                lambda demand=demand, start=start, p=num_ranks, kicks=kicks: replace_for_rows(
                    demand, np.ones(len(demand)), start, p, kicks=kicks
                )
            )
            before, after = (Placement(x).project(demand, num_ranks).max(axis=2).sum() / ideal for x in (start, placement))
            print(f"{name:>26}, kicks {kicks}  {before:.4f} -> {after:.4f}  {seconds * 1e3:6.1f}")


if __name__ == "__main__":
    static_table()
    migration_table()
    replacement_table()
