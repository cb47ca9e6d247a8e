"""Windows that a study runs over: suites by name, or files."""

import glob
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from routepack.cost import Score
from routepack.errors import InvalidInstance
from routepack.instance import Instance
from routepack.instances import files, generators, library, workloads
from routepack.instances.library.small import SmallCase, load_small
from routepack.plan import Placement
from routepack.topology import Topology
from routepack.window import IntArray, Window

WINDOWS_IN_MEMORY = 4
PAPER_WINDOWS = 20
PAPER_SIZES = {"tiny": ("ling-3.0-tiny", 8, 1), "flash": ("ling-3.0-flash", 16, 2)}  # preset, slots, shards
MODELS = {
    "qwen3-30b-a3b-math": ("qwen3-30b-a3b", "math", 512, 16, 8, 8192),
    "gpt-oss-20b-agent": ("gpt-oss-20b", "agent", 256, 8, 8, 16_384),
    "glm-4.5-air-long-cot": ("glm-4.5-air", "long-cot", 256, 16, 8, 32_768),
}  # preset, workload, samples, slots, EP ranks, cap
ROW_WORKLOADS = {"gsm8k": 2048, "math": 4096, "long-cot": 32_768, "agent": 16_384}  # cap
ROW_SAMPLES = (256, 1024)
TRIPLETS = (30, 60, 120)


@dataclass(frozen=True, slots=True)
class Question:
    """
    A window to plan, with what is known about its answer.

    Parameters
    ----------
    instance
        The window.
    placement, optimum
        The best score that a layout has under this placement with the fewest rows; experts are not re-placed, so that methods answer it.
    fewest_cells
        Cells of a packing that is known to be the smallest.
    """

    instance: Instance
    placement: Placement | None = None
    optimum: Score | None = None
    fewest_cells: int | None = None


@dataclass(frozen=True, slots=True)
class Suite:
    """
    A suite.

    Parameters
    ----------
    text
        What is in it.
    names
        Names of its windows.
    load
        Reads or makes one of them.
    methods
        What a study runs if no methods are asked for.
    """

    text: str
    names: Callable[[], list[str]]
    load: Callable[[str], Question]
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A window by suite and name: small enough to be sent to a worker, who loads it."""

    suite: str
    name: str

    def load(self) -> Question:
        """
        Read or make the window; the last few are kept.

        Raises
        ------
        InvalidInstance
            The file is missing or malformed.
        """
        return _load(self)


@lru_cache(maxsize=WINDOWS_IN_MEMORY)
def _load(case: Case) -> Question:
    return FILES.load(case.name) if case.suite == FILES_NAME else SUITES[case.suite].load(case.name)


def find_cases(source: str) -> list[Case]:
    """
    Windows of a suite, a file, a folder or a pattern such as ``windows/*.npz``.

    Raises
    ------
    InvalidInstance
        Nothing has that name.
    """
    if source in SUITES:
        return [Case(source, name) for name in SUITES[source].names()]
    path = Path(source)
    found = sorted(str(file) for file in path.iterdir() if file.is_file()) if path.is_dir() else sorted(glob.glob(source))
    if not found and path.exists():
        found = [source]
    if not found:
        raise InvalidInstance(f"source = {source!r} is no suite and matches no file; give a path or one of {', '.join(SUITES)}.")
    return [Case(FILES_NAME, os.path.abspath(file)) for file in found]


def default_methods(case: Case) -> tuple[str, ...]:
    """Give what a study runs on a window if no methods are asked for."""
    return (FILES if case.suite == FILES_NAME else SUITES[case.suite]).methods


@lru_cache(maxsize=1)
def _small() -> dict[str, SmallCase]:
    return {case.instance.name: case for case in load_small()}


def _load_small(name: str) -> Question:
    case = _small()[name]
    return Question(case.instance, case.plan.placement, case.optimum)


def _production_names() -> list[str]:
    return [name for name in library.names() if name.startswith("tinymoe")] + list(MODELS)


def _load_production(name: str) -> Question:
    if name not in MODELS:
        return Question(library.load(name))
    preset, workload, samples, dp, ep, cap = MODELS[name]
    return Question(generators.generate(preset=preset, workload=workload, samples=samples, dp=dp, ep=ep, token_cap=cap, seed=0, name=name))


def _paper_names() -> list[str]:
    generated = [f"{size}-{seed:02d}" for size in PAPER_SIZES for seed in range(PAPER_WINDOWS)]
    return generated + [name for name in library.names() if name.startswith("tinymoe")]


def _load_paper(name: str) -> Question:
    size, _, seed = name.rpartition("-")
    if size not in PAPER_SIZES:
        return Question(library.load(name))
    preset, dp, edp = PAPER_SIZES[size]
    window = generators.generate(
        preset=preset, workload="gsm8k", samples=512, prompts=64, token_cap=8192, dp=dp, ep=8, edp=edp, seed=int(seed), name=name
    )
    return Question(window)


def _row_names() -> list[str]:
    drawn = [f"{workload}-{samples}" for workload in ROW_WORKLOADS for samples in ROW_SAMPLES]
    return drawn + [f"triplets-{cells}" for cells in TRIPLETS]


def _load_rows(name: str) -> Question:
    kind, _, size = name.rpartition("-")
    rng = np.random.default_rng([sum(name.encode()), int(size)])
    if kind == "triplets":
        return Question(_lengths_only(_triplets(int(size), rng), 1000, name), fewest_cells=int(size))
    prompts = np.arange(int(size)) // 8
    _, lengths = workloads.draw_lengths(workloads.workload(kind), prompts, ROW_WORKLOADS[kind], rng)
    return Question(_lengths_only(lengths, ROW_WORKLOADS[kind], name))


def _triplets(cells: int, rng: np.random.Generator) -> IntArray:
    """Cells of 1000 tokens cut into three lengths each, so that the volume proves how many there are."""
    first = rng.integers(380, 490, cells)
    second = rng.integers(250, (1000 - first) // 2 + 1)
    return rng.permutation(np.concatenate([first, second, 1000 - first - second]))


def _lengths_only(lengths: IntArray, cap: int, name: str) -> Instance:
    demand = np.zeros((len(lengths), 1, 1), dtype=np.int32)
    return Instance(Window(lengths, demand), Topology.of(1, 1), cap, name=name)


SEARCHES = ("anneal", "annealing-single", "multi-start", "lpt-ffd")
SUITES = {
    "small": Suite("72 windows with proven optima", lambda: list(_small()), _load_small, (*SEARCHES, "kk")),
    "production": Suite("real traces and generated windows of production models", _production_names, _load_production, SEARCHES),
    "paper": Suite(
        "the paper's sizes, 20 generated windows each, and real traces",
        _paper_names,
        _load_paper,
        ("identity-ffd", "lpt-ffd", "anneal:fixed", "anneal"),
    ),
    "rows": Suite("lengths to pack, some with a known optimum", _row_names, _load_rows, ("first-fit", "settle")),
}
FILES_NAME = "files"
FILES = Suite("windows from files", list, lambda path: Question(files.read_instance(path)), SEARCHES)
