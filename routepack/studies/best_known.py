"""What was recorded of the shipped windows: the best plan of each, and what every method and bound gave, with provenance."""

import json
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from routepack import __version__
from routepack.errors import InvalidInstance
from routepack.instances.atomic import write_atomically
from routepack.studies.measured import Outcome

FORMAT = "routepack-best-known"


@dataclass(frozen=True, slots=True)
class Recorded:
    """
    The recorded value and plan fingerprint of each (window, method or bound), and the best value of each window with its origin.

    Parameters
    ----------
    values
        ``values[window][name] = (value, digest)``.
    best
        ``best[window] = {"value": ..., "by": ..., "routepack": ..., "date": ...}``; for a window with a proven optimum, that.
    """

    values: dict[str, dict[str, tuple[tuple[int, ...], str]]] = field(default_factory=dict)
    best: dict[str, dict[str, Any]] = field(default_factory=dict)

    def value(self, outcome: Outcome) -> tuple[tuple[int, ...], str] | None:
        """What was recorded for the window and name of an outcome."""
        return self.values.get(window_of(outcome), {}).get(outcome.name)


def window_of(outcome: Outcome) -> str:
    """Key of a window in the file."""
    return f"{outcome.suite}/{outcome.window}"


def shipped_file() -> Path:
    """Path of the file that ships with the package."""
    return Path(str(resources.files("routepack.instances.library.small").joinpath("best_known.json")))


def read(path: Path) -> Recorded:
    """
    Read what was recorded; nothing where there is no file.

    Raises
    ------
    InvalidInstance
        The file is of another format.
    """
    if not path.exists():
        return Recorded()
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT or document["version"] != 1:
            raise ValueError(f"format {document['format']!r}, version {document['version']}")
        values = {
            window: {name: (tuple(value), digest) for name, (value, digest) in entry["values"].items()}
            for window, entry in document["windows"].items()
        }
        return Recorded(values, {window: entry["best"] for window, entry in document["windows"].items() if entry["best"]})
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise InvalidInstance(f"best-known scores: {path} is malformed ({fault}); restore it and run routepack check --update.") from None


def write(path: Path, recorded: Recorded) -> None:
    """Write the file, one window a line."""
    lines = [
        f" {json.dumps(window)}: {json.dumps({'best': recorded.best.get(window), 'values': entry}, sort_keys=True)}"
        for window, entry in sorted(recorded.values.items())
    ]
    head = f'{{"format": "{FORMAT}", "version": 1, "windows": {{\n'
    content = (head + ",\n".join(lines) + "\n}}\n").encode()

    def put(file: Any) -> None:
        file.write(content)

    write_atomically(path, put)


def improved(recorded: Recorded, outcomes: Iterable[Outcome], keep: set[tuple[str, str]]) -> Recorded:
    """
    Take new outcomes over, and the best values that are better than the recorded ones.

    Parameters
    ----------
    recorded
        What stands there.
    outcomes
        Without faults.
    keep
        (suite, name) whose recorded values stay.
    """
    values = {window: dict(entry) for window, entry in recorded.values.items()}
    best = dict(recorded.best)
    for outcome in outcomes:
        window = window_of(outcome)
        if (outcome.suite, outcome.name) not in keep or recorded.value(outcome) is None:
            values.setdefault(window, {})[outcome.name] = (outcome.value, outcome.digest)
        proven = outcome.name == "recorded plan"
        better = window not in best or outcome.value < tuple(best[window]["value"])
        if outcome.value and not outcome.is_bound and better and (proven or outcome.suite != "small"):
            best[window] = {"value": outcome.value, "by": "proof" if proven else outcome.name, **_provenance()}
    return Recorded(values, best)


def _provenance() -> dict[str, str]:
    return {"routepack": __version__, "date": time.strftime("%Y-%m-%d", time.gmtime()), "machine": platform.machine()}
