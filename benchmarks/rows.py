"""
Packing and proof on the literature's suites and on training windows: how many are closed, how fast, and with a checked proof.

Run as ``python benchmarks/rows.py [--every N] [--limit SECONDS] [SUITE ...]``; suites are read from ``../shared/data/binpacking`` and left
out, with a word, where they are absent.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from routepack.budget import Budget
from routepack.instances.certificates import CellsProof
from routepack.instances.suites import Packing, read_suite
from routepack.rows import settle

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "binpacking"
LIMITS = {
    "FalkenauerU": 10,
    "FalkenauerT": 10,
    "Schwerin": 10,
    "Random": 10,
    "Scholl": 60,
    "Waescher": 10,
    "Hard": 60,
    "AI202": 10,
    "AI403": 60,
    "AI601": 120,
    "ANI201": 60,
    "ANI402": 60,
    "NewHard-20to40-200-BPP": 60,
}
EVERY = {"Random": 16, "AI202": 5, "AI403": 10, "AI601": 25, "ANI201": 5, "ANI402": 25, "NewHard-20to40-200-BPP": 25}
WINDOWS, SEED = 40, 20
SLOTS = (1, 8, 64)
HEAD = f"{'suite':24} {'n':>4} {'closed':>6} {'proved':>6} {'in 10 s':>7} {'median s':>9} {'worst s':>8} {'worst check s':>13}"


def windows(count: int) -> Iterator[Packing]:
    """Lognormal lengths with medians from 2 to 50 % of the cap, over the whole envelope."""
    rng = np.random.default_rng(SEED)
    for n in range(count):
        cap = int(rng.choice([8, 16, 32, 64, 128, 256])) * 1024
        samples = int(rng.choice([512, 1024, 2048, 4096, 8192]))
        median, sigma = float(rng.choice([0.02, 0.05, 0.1, 0.2, 0.35, 0.5])), float(rng.choice([0.6, 1.0, 1.5]))
        lengths = np.rint(np.exp(rng.normal(np.log(median * cap), sigma, samples))).astype(np.int64)
        yield Packing(f"window-{n}", np.clip(lengths, 1, cap), cap)


def report(suite: str, cases: list[Packing], limit: float, slots: int = 1) -> None:
    """Settle every case and print one row of the table; closed means that rows and proof meet, proved that the proof was checked again."""
    seconds, checks, closed, proved, quick = [], [], 0, 0, 0
    for case in cases:
        started = time.perf_counter()
        found = settle(case.lengths, case.capacity, slots, budget=Budget(limit))
        seconds.append(time.perf_counter() - started)
        rows = -(-found.cells // slots)
        closed += (done := rows == -(-found.needed // slots))
        quick += done and seconds[-1] <= 10
        started = time.perf_counter()
        needed = CellsProof(case.name, case.lengths, case.capacity, found.tree or found.certificate).check()
        checks.append(time.perf_counter() - started)
        proved += rows == -(-needed // slots)
    print(
        f"{suite:24} {len(cases):4} {closed:6} {proved:6} {quick:7} {np.median(seconds):9.4f} {max(seconds):8.2f} {max(checks):13.3f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", default=[*LIMITS, "windows"])
    parser.add_argument("--every", type=int, help="take every N-th instance of each suite")
    parser.add_argument("--limit", type=float, help="seconds for each instance")
    arguments = parser.parse_args()
    settle(np.array([301, 251, 199, 333] * 20), 1000)  # compiles
    print(HEAD)
    for suite in arguments.suites:
        if suite == "windows":
            cases = list(windows(WINDOWS))
            for slots in SLOTS:
                report(f"windows, {slots} slots", cases, arguments.limit or 5, slots)
        elif (FOLDER / f"{suite}.jsonl.gz").exists():
            cases = list(read_suite(FOLDER / f"{suite}.jsonl.gz"))[:: arguments.every or EVERY.get(suite, 1)]
            report(suite, cases, arguments.limit or LIMITS[suite])
        else:
            print(f"{suite:24} left out: {FOLDER.name}/{suite}.jsonl.gz is absent")


if __name__ == "__main__":
    main()
