"""Functions of installed packages, run without importing what else their modules import."""

import ast
import bisect
import heapq
import itertools
import logging
import math
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

GIVEN = {"heapq": heapq, "itertools": itertools, "math": math, "bisect": bisect, "np": np, "Any": Any, "logger": logging.getLogger("peers")}


def functions(package: str, file: str, names: tuple[str, ...]) -> dict[str, Callable[..., Any]] | None:
    """
    Take functions and constants out of a file of an installed package; ``None`` where it is not installed.

    The file is compiled from its own text, as far as it is named, so that a peer's function is run as it is published while its module's
    imports (torch, ray, loggers) are not.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(next(iter(spec.submodule_search_locations))) / file
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = [node for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)]
    wanted = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names]
    missing = set(names) - {node.name for node in wanted}
    if missing:
        raise SystemExit(f"{path} has no {', '.join(sorted(missing))}; install the version in requirements.txt.")
    scope: dict[str, Any] = GIVEN | {"__name__": package}
    exec(compile(ast.Module([*constants, *wanted], []), str(path), "exec"), scope)
    return scope


def version(package: str) -> str:
    """Version of an installed distribution."""
    return metadata.version(package)
