"""Measure the exact side, one section at a time: proofs, formulations, the small suite, bounds, placement, joint plans, neighbourhoods."""

import argparse
import itertools
import time
from collections.abc import Callable

import numpy as np

from routepack.bounds.dantzig_wolfe import dantzig_wolfe_bound
from routepack.bounds.score import SCORE_BOUNDS, best_bound
from routepack.budget import Budget
from routepack.certificate import aggregation_bound, placement_bounds
from routepack.exact import Settings, lexicographic, solve_exact, solve_layout
from routepack.exact_placement import place_exact, solve_joint
from routepack.fewest_rows import decide_rows
from routepack.formulations.edp_layout import EdpLayout
from routepack.heuristics.placement import lpt_swap
from routepack.instance import Instance
from routepack.instances.generators import generate
from routepack.instances.library.small import load_small
from routepack.layout_problem import LayoutProblem
from routepack.plan import Placement
from routepack.planner import solve
from routepack.topology import Topology
from routepack.window import Window


def random_problem(samples: int, shards: int, rows: int, slots: int, layers: int, ranks: int, seed: int) -> LayoutProblem:
    """Lengths lognormal, routing Dirichlet, attention scaled to half of the ideal cost, cells a quarter larger than the mean."""
    rng = np.random.default_rng(seed)
    lengths = np.clip(np.exp(rng.normal(6, 0.6, samples)), 30, 3000).astype(np.int64)
    share = rng.dirichlet(np.full(2 * ranks, 2.0), (samples, layers))
    loads = np.rint(share * lengths[:, None, None] * 4).astype(np.int64).reshape(samples, layers, ranks, 2).sum(axis=3)
    raw = lengths * 1.0 + lengths * lengths / lengths.mean()
    attention = np.rint(raw * loads.sum() / ranks / (raw.sum() / slots)).astype(np.int64)[:, None]
    cap = max(int(lengths.sum() / (shards * rows * slots) * 1.25), int(lengths.max()))
    return LayoutProblem(loads, attention, lengths, np.ones(samples, np.int64), cap, rows, shards, slots)


SHAPES = {"bars-14": (14, 2, 2, 2, 4, 4), "bars-20": (20, 2, 2, 2, 4, 2)}
TABLE = {"N=10": (10, 2, 2, 2, 4, 4), "N=11, one shard": (11, 1, 3, 2, 2, 2)}


def bars(seconds: float, threads: int, seeds: list[int], shapes: tuple[str, ...] = tuple(SHAPES)) -> None:
    """Print the time to proof of random instances of each size."""
    for name, shape in ((name, SHAPES[name]) for name in shapes):
        for seed in seeds:
            problem = random_problem(*shape, seed)
            peaks = problem.loads.sum(axis=0).max(axis=1)
            plain = aggregation_bound(problem.attention.sum(axis=0), peaks, problem.slots, problem.shards, problem.parts)
            certificate = dantzig_wolfe_bound(problem)
            root = plain if certificate is None else certificate.value(problem)
            for engine in ("cp-sat", "milp"):
                started = time.monotonic()
                outcome = solve_layout(problem, budget=Budget(seconds=seconds), settings=Settings(engine=engine, threads=threads))
                spent = time.monotonic() - started
                first = outcome.passes[0].seconds
                print(
                    f"| {name} | {seed} | {engine} | {outcome.status} | {plain} | {root} | {outcome.score and outcome.score.makespan} "
                    f"| {outcome.bound} | {first:.1f} | {spent:.1f} |",
                    flush=True,
                )


def table(seconds: float, threads: int, _: list[int]) -> None:
    """Print size and time of the assignment formulation, with and without first use and cuts."""
    for name, shape in TABLE.items():
        problem = random_problem(*shape, 0)
        for engine in ("cp-sat", "milp"):
            for symmetry in (True, False):
                for cuts in (True, False):
                    formulation = EdpLayout(problem, symmetry=symmetry, cuts=cuts)
                    encoding = formulation.encode(engine)
                    proto = encoding.model.proto if engine == "cp-sat" else None
                    holder = encoding.model if proto is None else proto
                    size = (len(holder.variables), len(holder.constraints))
                    started = time.monotonic()
                    found = lexicographic(
                        formulation,
                        lambda cells, p=problem: (p.fault(cells), p.score(cells)),  # type: ignore[misc]
                        None,
                        Budget(seconds=seconds),
                        Settings(engine=engine, threads=threads),
                    )
                    spent = time.monotonic() - started
                    proved = len(found.passes) == 3 and found.passes[-1].status == "optimal"
                    proof = f"{spent:.1f} s" if proved else f"> {seconds:.0f} s (bound {found.passes[0].bound})"
                    flags = " | ".join("yes" if flag else "no" for flag in (symmetry, cuts))
                    print(f"| {name} | {engine} | {flags} | {size[0]} | {size[1]} | {proof} |", flush=True)


def suite(seconds: float, threads: int, seeds: list[int]) -> None:
    """Print how often searches reach the proven optima of the small suite, and how far they stay above them."""
    for method, seed in itertools.product(("anneal", "multi-start", "anneal+lns"), seeds):
        gaps, whole = [], 0
        for case in load_small():
            budget = Budget(seconds=seconds)
            result = solve(case.instance, method=method, budget=budget, seed=seed, threads=threads, replace=False)
            assert (result.plan.placement.rank_of_expert == case.plan.placement.rank_of_expert).all()
            assert result.rows.count == case.rows
            assert result.score >= case.optimum, (case.instance.name, result.score, case.optimum)
            whole += result.score == case.optimum
            gaps.append(result.score.makespan / max(1, case.optimum.makespan) - 1)
        first, mean, largest = sum(gap <= 0 for gap in gaps), 100 * np.mean(gaps), 100 * max(gaps)
        print(f"| {method} | {seed} | {len(gaps)} | {first} | {whole} | {mean:.4f} % | {largest:.3f} % |", flush=True)


def root(_: float, __: int, ___: list[int]) -> None:
    """Print the mean gap of each bound to the optima of the small suite, without branching, for the placement at hand."""
    gaps: dict[str, list[float]] = {kind: [] for kind in (*SCORE_BOUNDS, "best")}
    for case in load_small():
        optimum = case.optimum.makespan
        values: dict[str, int] = {}
        for kind, make in SCORE_BOUNDS.items():
            proof = make(case.instance, case.plan.placement, case.rows)
            values[kind] = 0 if proof is None else proof.value
        values["best"] = best_bound(case.instance, case.plan.placement, case.rows).value
        for name, value in values.items():
            if value:
                gaps[name].append((optimum - value) / value)
    for name, found in gaps.items():
        print(f"| {name} | {len(found)} | {100 * np.mean(found):.2f} % |")


def placement(seconds: float, threads: int, seeds: list[int]) -> None:
    """Print what CP-SAT adds to LPT + swaps on every tenth layer of a 58 x 256 model; ``seconds`` are per layer."""
    for ranks in (8, 16, 32, 64):
        window = generate(preset="deepseek-v3", samples=64, token_cap=8192, seed=seeds[0], dp=ranks, ep=ranks).window
        loads = window.demand.sum(axis=0, dtype=np.int64)[::10]
        hint, bounds = lpt_swap(loads, ranks), placement_bounds(loads, ranks)
        before = np.array([np.bincount(hint[k], loads[k], ranks).max() for k in range(len(loads))])
        budget = Budget(seconds=seconds * len(loads))
        found = place_exact(loads, ranks, hint, budget=budget, settings=Settings("cp-sat", threads=threads))
        better, met = int((found.peaks < before).sum()), int((before == bounds).sum())
        gap, left = 100 * (before / bounds - 1).mean(), 100 * (found.peaks / found.bounds - 1).mean()
        counts = f"| {ranks} | {len(loads)} | {met} | {better} | {sum(found.optimal)} |"
        print(f"{counts} {gap:.4f} % | {left:.4f} % | {budget.elapsed():.0f} |", flush=True)


def tiny(seed: int) -> Instance:
    """Draw a window of eight samples over two layers of six experts, for two shards of two slots."""
    rng = np.random.default_rng([8, seed])
    lengths = np.rint(np.exp(rng.normal(5.5, 0.6, 8))).astype(np.int64)
    demand = np.rint(rng.dirichlet(np.full(6, 1.0), (8, 2)) * 2 * lengths[:, None, None]).astype(np.int32)
    return Instance(Window(lengths, demand), Topology(4, 2, 2), max(int(lengths.sum() / 4 * 1.4), int(lengths.max())))


def joint(seconds: float, threads: int, _: list[int]) -> None:
    """Print the price of the hierarchy on twenty tiny windows: optimal layouts under LPT + swaps, and the planner, against joint optima."""
    settings, prices, planned = Settings("cp-sat", threads=threads), [], []
    for seed in range(20):
        instance = tiny(seed)
        rows = decide_rows(instance).count
        place = Placement(lpt_swap(instance.window.demand.sum(axis=0, dtype=np.int64), instance.topology.ep))
        staged = solve_exact(instance, place, rows, budget=Budget(seconds=seconds), settings=settings)
        assert staged.score is not None
        assert staged.cells is not None
        together = solve_joint(instance, rows, (staged.cells, place), budget=Budget(seconds=seconds), settings=settings)
        if together.bound is None or together.score is None or together.bound != together.score.makespan:
            print(f"| {seed} | {rows} | {staged.score.makespan} | not proved: {together.bound} | |", flush=True)
            continue
        best = together.score.makespan
        road = solve(instance, budget=Budget(attempts=50_000), threads=threads)
        prices.append(staged.score.makespan / best - 1)
        planned.append(road.score.makespan / best - 1)
        print(f"| {seed} | {rows} | {staged.score.makespan} | {road.score.makespan} | {best} | {100 * prices[-1]:.2f} % |", flush=True)
    for name, found in (("optimal layout under LPT + swaps", prices), ("annealing with re-placement", planned)):
        print(
            f"{name}: {len(found)} windows, mean {100 * np.mean(found):.2f} %, largest {100 * max(found):.2f} %, optimal {found.count(0)}"
        )


def lns(seconds: float, threads: int, seeds: list[int]) -> None:
    """Print annealing against annealing with neighbourhoods, at equal time, on one drawn window."""
    instance = generate(preset="gpt-oss-20b", samples=256, token_cap=16384, seed=0, dp=16, ep=8, workload="long-cot")
    for seed in seeds:
        for method in ("anneal", "anneal+lns"):
            result = solve(instance, method=method, budget=Budget(seconds=seconds), seed=seed, threads=threads)
            gap = 100 * (result.gap or 0.0)
            print(f"| {seed} | {method} | {result.rows.count} | {result.score.makespan} | {result.bound.kind} | {gap:.3f} % |", flush=True)


Section = Callable[[float, int, list[int]], None]
SECTIONS: dict[str, Section] = {
    "bars": bars,
    "bars-14": lambda seconds, threads, seeds: bars(seconds, threads, seeds, ("bars-14",)),
    "bars-20": lambda seconds, threads, seeds: bars(seconds, threads, seeds, ("bars-20",)),
    "table": table,
    "suite": suite,
    "root": root,
    "placement": placement,
    "joint": joint,
    "lns": lns,
}


def main() -> None:
    """Run one section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=SECTIONS)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments = parser.parse_args()
    SECTIONS[arguments.what](arguments.seconds, arguments.threads, arguments.seeds)


if __name__ == "__main__":
    main()
