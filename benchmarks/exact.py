"""Measure the exact side: time to proof of both engines, and each formulation with and without symmetry breaking."""

import argparse
import time

import numpy as np

from routepack.bounds.dantzig_wolfe import dantzig_wolfe_bound
from routepack.budget import Budget
from routepack.certificate import aggregation_bound
from routepack.exact import Settings, lexicographic, solve_layout
from routepack.formulations.edp_layout import EdpLayout
from routepack.layout_problem import LayoutProblem


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


def bars(seconds: float, threads: int) -> None:
    """Print the time to proof of three random instances of each size."""
    for name, shape in SHAPES.items():
        for seed in range(3):
            problem = random_problem(*shape, seed)
            peaks = problem.loads.sum(axis=0).max(axis=1)
            plain = aggregation_bound(problem.attention.sum(axis=0), peaks, problem.slots, problem.shards, problem.parts)
            certificate = dantzig_wolfe_bound(problem)
            root = plain if certificate is None else certificate.value(problem)
            for engine in ("cp-sat", "milp"):
                started = time.monotonic()
                outcome = solve_layout(problem, budget=Budget(seconds=seconds), settings=Settings(engine=engine, threads=threads))  # type: ignore[arg-type]
                spent = time.monotonic() - started
                first = outcome.passes[0].seconds
                print(
                    f"| {name} | {seed} | {engine} | {outcome.status} | {plain} | {root} | {outcome.score and outcome.score.makespan} "
                    f"| {outcome.bound} | {first:.1f} | {spent:.1f} |",
                    flush=True,
                )


def table(seconds: float, threads: int) -> None:
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
                        Settings(engine=engine, threads=threads),  # type: ignore[arg-type]
                    )
                    spent = time.monotonic() - started
                    proved = len(found.passes) == 3 and found.passes[-1].status == "optimal"
                    proof = f"{spent:.1f} s" if proved else f"> {seconds:.0f} s (bound {found.passes[0].bound})"
                    flags = " | ".join("yes" if flag else "no" for flag in (symmetry, cuts))
                    print(f"| {name} | {engine} | {flags} | {size[0]} | {size[1]} | {proof} |", flush=True)


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["bars", "table"])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    {"bars": bars, "table": table}[arguments.what](arguments.seconds, arguments.threads)


if __name__ == "__main__":
    main()
