"""
Peers on the same windows, in one run: `python benchmarks/peers/run.py`, after `pip install --no-deps -r benchmarks/peers/requirements.txt`.

Layouts: rows, and the slowest shard in ticks over ours, with experts where each method has them (peers leave them in place) and, to compare
the layouts alone, with our placement for all. Rows: cells of packings. A peer that is not installed is left out and named.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np
from layouts import Cells, areal, verl
from packings import packers

from routepack.budget import Budget
from routepack.cost import cost
from routepack.heuristics.placement import identity, lpt_swap
from routepack.instance import Instance
from routepack.instances import generate, library
from routepack.plan import Layout, Placement, Plan
from routepack.planner import solve
from routepack.rows import settle
from routepack.studies.suites import find_cases

SECONDS = 2.0
PACKING_SECONDS = 10.0


def windows() -> Iterator[Instance]:
    """Yield windows whose sample count every slot can share equally, as the peers want it."""
    for name in ("tinymoe-math-dp8-ep8", "tinymoe-mixed-dp16-ep8"):
        yield library.load(name)
    yield generate(
        preset="ling-3.0-tiny", workload="gsm8k", samples=512, prompts=64, token_cap=8192, dp=8, ep=8, edp=1, seed=0, name="ling-3.0-tiny"
    )


def layouts() -> None:
    """Print the table of layouts."""
    peers = [peer for peer in (verl(), areal("ffd"), areal("kk")) if peer is not None]
    print("| window | layout by | rows | slowest shard, experts as the method has them | the same, our placement for all | seconds |")
    print("|---|---|---|---|---|---|")
    for instance in windows():
        window, ranks = instance.window, instance.topology.ep
        loads = window.demand.sum(axis=0, dtype=np.int64)
        plain = Placement(identity(window.num_layers, window.num_experts, ranks))
        placed = Placement(lpt_swap(loads, ranks))
        started = time.perf_counter()
        ours = solve(instance, budget=Budget(SECONDS), seed=0)
        seconds = time.perf_counter() - started
        reference = ours.score.makespan
        fixed = solve(instance, budget=Budget(SECONDS), seed=0, replace=False).score.makespan
        rows = [("routepack anneal", ours.rows.count, reference, fixed, seconds)]
        for name, lay_out in peers:
            started = time.perf_counter()
            cells = lay_out(instance)
            seconds = time.perf_counter() - started
            if cells is None:
                print(f"| {instance.name} | {name} | finds none | | | {seconds:.2f} |")
                continue
            rows.append((name, len(cells[0]), *(_makespan(instance, cells, at) for at in (plain, placed)), seconds))
        for name, count, own, same, seconds in rows:
            print(f"| {instance.name} | {name} | {count} | {own / reference:.3f} | {same / reference:.3f} | {seconds:.2f} |")


def _makespan(instance: Instance, cells: Cells, placement: Placement) -> int:
    return cost(instance, Plan(placement, Layout.from_lists(cells))).score.makespan


def rows() -> None:
    """Print the table of packings: cells by each, seconds in brackets."""
    names = packers()
    print(f"\n| lengths | routepack settle | proved | {' | '.join(names)} |")
    print("|---|---|---|" + "---|" * len(names))
    for case in find_cases("rows"):
        instance = case.load().instance
        lengths, cap = instance.unit_lengths(), instance.token_cap
        started = time.perf_counter()
        found = settle(lengths, cap, budget=Budget(PACKING_SECONDS))
        cells = [f"{found.cells} ({time.perf_counter() - started:.2f} s)", f"at least {found.needed}"]
        for pack in names.values():
            started = time.perf_counter()
            count = pack(lengths.tolist(), cap)
            cells.append(f"{count} ({time.perf_counter() - started:.2f} s)")
        print(f"| {case.name} | {' | '.join(cells)} |")


SECTIONS: tuple[Callable[[], None], ...] = (layouts, rows)

if __name__ == "__main__":
    solve(library.load("two-shards"), budget=Budget(attempts=100_000))  # compile
    for section in SECTIONS:
        section()
