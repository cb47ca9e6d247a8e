"""Bin packing by packages of the index."""

from collections.abc import Callable
from importlib.util import find_spec

from definitions import version

Pack = Callable[[list[int], int], int]


def packers() -> dict[str, Pack]:
    """Packages that are installed, each as a function from lengths and cap to the number of cells."""
    found: dict[str, Pack] = {}
    if find_spec("prtpy"):
        import prtpy
        from prtpy.packing import best_fit, first_fit

        for name, algorithm in (("first-fit decreasing", first_fit.decreasing), ("best-fit decreasing", best_fit.decreasing)):

            def pack(lengths: list[int], cap: int, algorithm: object = algorithm) -> int:
                return len(prtpy.pack(algorithm=algorithm, binsize=cap, items=lengths))

            found[f"prtpy {version('prtpy')}, {name}"] = pack
    if find_spec("binpacking"):
        import binpacking

        found[f"binpacking {version('binpacking')}, to_constant_volume"] = lambda lengths, cap: len(
            binpacking.to_constant_volume(lengths, cap)
        )
    return found
