"""Windows that ship with the package; README.md in this folder says what they are."""

from pathlib import Path

from routepack.errors import InvalidInstance
from routepack.instance import Instance

FOLDER = Path(__file__).parent
SUFFIXES = (".npz", ".json")


def names() -> list[str]:
    """Names of the shipped windows."""
    return sorted(file.stem for file in FOLDER.iterdir() if file.suffix in SUFFIXES)


def path(name: str) -> Path:
    """
    File of a shipped window.

    Raises
    ------
    InvalidInstance
        No window has that name.
    """
    if name not in names():
        raise InvalidInstance(f"library[{name!r}] does not exist; choose {', '.join(names())}.")
    return next(FOLDER / (name + suffix) for suffix in SUFFIXES if (FOLDER / (name + suffix)).exists())


def load(name: str) -> Instance:
    """
    Read a shipped window.

    Raises
    ------
    InvalidInstance
        No window has that name.
    """
    from routepack.instances.files import read_instance

    return read_instance(path(name))
