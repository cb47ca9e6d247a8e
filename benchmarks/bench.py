"""
The planner against its bars: one table a section, every figure a ratio measured in this run.

    python benchmarks/bench.py                    # every section
    python benchmarks/bench.py gap speed          # some of them
    python benchmarks/bench.py --seeds 3 methods  # fewer seeds

Real gpt-oss windows are taken from ../shared/data and skipped where that is absent.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from routepack.budget import Budget
from routepack.instance import Instance
from routepack.instances import generate, library, read_instance
from routepack.planner import solve
from routepack.result import Result

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "instances"
PAPER = {
    "ling-3.0-tiny G1 (generated)": {"preset": "ling-3.0-tiny", "dp": 8, "ep": 8, "edp": 1},
    "ling-3.0-flash G2 (generated)": {"preset": "ling-3.0-flash", "dp": 16, "ep": 8, "edp": 2},
}


def real(name: str) -> Instance | None:
    """Read a gpt-oss window, or say that it is absent."""
    path = SHARED / f"{name}.npz"
    if path.exists():
        return read_instance(path)
    print(f"  {name}: skipped, {SHARED} is absent")
    return None


def paper_window(name: str, seed: int = 0) -> Instance:
    """Window of the paper's size: 64 prompts x 8 samples of chains of thought on maths, cap 8192."""
    return generate(samples=512, prompts=64, token_cap=8192, workload="math", seed=seed, **PAPER[name])


def windows() -> Iterator[tuple[str, Instance]]:
    """Yield the windows of the method comparison."""
    for name in ("gptoss20b-dp16-ep8", "gptoss20b-dp8-ep8"):
        if (window := real(name)) is not None:
            yield name, window
    yield "tinymoe-mixed-dp16-ep8", library.load("tinymoe-mixed-dp16-ep8")
    yield "ling-3.0-tiny G1 (generated)", paper_window("ling-3.0-tiny G1 (generated)")


def planned(instance: Instance, seconds: float | None = None, attempts: int | None = None, **how: object) -> Result:
    """Plan with two threads."""
    return solve(instance, budget=Budget(seconds, attempts), threads=2, **how)


def percent(x: float | None) -> str:
    """Print a share as per cent."""
    return "-" if x is None else f"{100 * x:.2f} %"


def baseline(_: int) -> None:
    """Print the score of the paper's baseline over ours, and of placement alone."""
    for name in ("gptoss20b-dp16-ep8",):
        if (instance := real(name)) is None:
            continue
        plain = planned(instance, method="identity-ffd").score.makespan
        placed = planned(instance, method="lpt-ffd").score.makespan
        for seconds in (1.0, 5.0):
            ours = planned(instance, seconds).score.makespan
            print(f"  {name}: identity + FFD over ours after {seconds:.0f} s: {plain / ours:.3f} (bar 1.30)")
        print(f"  {name}: identity + FFD over LPT + FFD, placement alone: {plain / placed:.3f} (bar 1.09)")


def gap(seeds: int) -> None:
    """Print certified gaps after 1 and 5 s, before and with re-placement."""
    for name in ("gptoss20b-dp16-ep8", "gptoss20b-dp16-ep4", "gptoss20b-dp8-ep8"):
        if (instance := real(name)) is None:
            continue
        for seconds, bar in ((1.0, "1.3 %"), (5.0, "1.0 %")):
            for replace in (False, True):
                runs = [planned(instance, seconds, seed=s, replace=replace) for s in range(min(seeds, 3))]
                here = statistics.median(r.placement_bound.gap(r.score.makespan) or 0.0 for r in runs)
                any_placement = statistics.median(r.gap or 0.0 for r in runs)
                bars = "" if replace else f" (bar {bar})"
                what = "with re-placement" if replace else "before re-placement"
                print(f"  {name} {seconds:.0f} s {what}: {percent(here)}{bars}; over the bound for any placement {percent(any_placement)}")


def paper(_: int) -> None:
    """Print packing against the paper's reorder arm, LPT + FFD, at the paper's size."""
    for name in PAPER:
        rows = []
        for seed in range(3):
            instance = paper_window(name, seed)
            reorder, ours = planned(instance, method="lpt-ffd").cost, planned(instance, 2.0, replace=False).cost
            rows.append(
                (
                    float(ours.expert.sum() / reorder.expert.sum() - 1),
                    ours.largest_peak / reorder.largest_peak - 1,
                    float(ours.attention.sum() / reorder.attention.sum() - 1),
                )
            )
        sums, peaks, attention = (statistics.median(column) for column in zip(*rows, strict=True))
        print(
            f"  {name}: expert peak sum {percent(sums)} (bar -3.2 %), worst row-layer peak {percent(peaks)} (bar -12 %), "
            f"attention {percent(attention)} (bar +0.8 %); median of 3 windows"
        )


def methods(seeds: int) -> None:
    """Print population annealing against single-chain annealing and multi-start descent at equal proposals."""
    for name, instance in windows():
        scores = {
            method: [planned(instance, attempts=3_000_000, seed=s, method=method, replace=False).score.makespan for s in range(seeds)]
            for method in ("anneal", "annealing-single", "multi-start")
        }
        ours = statistics.median(scores["anneal"])
        for method in ("annealing-single", "multi-start"):
            wins = sum(a < b for a, b in zip(scores["anneal"], scores[method], strict=True))
            ties = sum(a == b for a, b in zip(scores["anneal"], scores[method], strict=True))
            ratio = statistics.median(scores[method]) / ours - 1
            print(f"  {name}: {method} is {percent(ratio)} above population annealing; {wins} wins, {ties} ties of {seeds} seeds")


def speed(_: int) -> None:
    """Print proposals a second of the compiled kernels against the numpy reference, same moves, same window, one thread."""
    for name, instance in windows():
        rates = {backend: _rate(instance, backend, attempts) for backend, attempts in (("numba", 2_000_000), ("numpy", 20_000))}
        ratio = rates["numba"] / rates["numpy"]
        print(f"  {name}: kernels over numpy {ratio:.0f} (bar 20); {rates['numba'] / 1e6:.2f} M proposals/s a thread")


def _rate(instance: Instance, backend: str, attempts: int) -> float:
    """Proposals a second, without what a run of one proposal takes."""

    def run(count: int) -> float:
        return _seconds(lambda: solve(instance, budget=Budget(attempts=count), threads=1, backend=backend, replace=False))

    run(200)
    return attempts / (run(attempts) - run(2))


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def imports(_: int) -> None:
    """Print the time of an import and of ``--help`` against a bare interpreter."""
    bare = min(_seconds(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)) for _ in range(5))
    for what, command in (
        ("import routepack", ["-c", "import routepack"]),
        ("routepack --help", ["-c", "from routepack.cli import main; main()", "--help"]),
    ):
        run = [sys.executable, *command]
        seconds = min(_seconds(lambda run=run: subprocess.run(run, check=True, capture_output=True)) for _ in range(5))
        print(f"  {what}: {seconds:.2f} s (bar 0.5 s), {seconds / bare:.1f} x a bare interpreter")


def large(_: int) -> None:
    """Plan the largest window of the issue and print time and memory."""
    import resource

    started = time.perf_counter()
    instance = generate(layers=60, experts=256, top_k=8, samples=8192, prompts=1024, dp=64, ep=32, edp=2, token_cap=32768, seed=0)
    print(f"  N = 8192, S = 64, P = 32, L = 60, E = 256: generated in {time.perf_counter() - started:.0f} s")
    started = time.perf_counter()
    result = planned(instance, 20.0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"    planned and verified in {time.perf_counter() - started:.1f} s (bar 30 s), peak memory {peak:.2f} GiB (bar 8), "
        f"{result.rows.count} rows {result.rows.status}, gap {percent(result.gap)}"
    )


SECTIONS = {run.__name__: run for run in (baseline, gap, paper, methods, speed, imports, large)}


def main() -> None:
    """Run the sections asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="sections to run; all of them by default")
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    np.seterr(all="raise", under="ignore")
    solve(library.load("tinymoe-agent-dp4-ep4"), budget=Budget(attempts=10_000), threads=2)  # compile
    for name in options.sections or SECTIONS:
        print(f"{name}: {(SECTIONS[name].__doc__ or '').strip()}")
        SECTIONS[name](options.seeds)


if __name__ == "__main__":
    main()
