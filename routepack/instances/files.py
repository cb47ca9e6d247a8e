"""The doors to instance and plan files."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from routepack.errors import InvalidInstance, InvalidPlan, RoutePackError
from routepack.instance import Instance
from routepack.instances.atomic import write_atomically
from routepack.instances.documents import dump, parse
from routepack.instances.instance_form import instance_from_dict, instance_from_text, instance_to_dict
from routepack.instances.npz import read_npz, write_npz
from routepack.instances.plan_form import plan_from_dict, result_to_dict
from routepack.plan import Plan
from routepack.result import Result
from routepack.verify import Claims

__all__ = [
    "instance_from_dict",
    "instance_to_dict",
    "plan_from_dict",
    "read_instance",
    "read_plan",
    "result_to_dict",
    "write_instance",
    "write_result",
]

TEXT_LIMIT = 1 << 30  # bytes of a JSON or text file
JSON_ENTRIES = 1 << 25  # demand entries that are still written as JSON

T = TypeVar("T")


def read_instance(path: str | os.PathLike[str]) -> Instance:
    """
    Read an instance: ``.json``, ``.npz``, or by any other name the public bin-packing text form.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    InvalidInstance
        The file cannot be read or is malformed; one line that names it and the place.
    """
    return _read(path, InvalidInstance, _instance_of)


def _instance_of(path: Path) -> Instance:
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return read_npz(path)
    if suffix == ".json":
        return instance_from_dict(parse(_text(path)))
    return instance_from_text(_text(path), path.stem)


def write_instance(path: str | os.PathLike[str], instance: Instance) -> None:
    """
    Write an instance atomically, as ``.npz`` or ``.json``; reading it back gives an equal fingerprint.

    Raises
    ------
    RoutePackError
        Another suffix, demand too large for JSON, or a path that cannot be written.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".npz":
        write_atomically(path, lambda file: write_npz(file, instance))
    elif suffix == ".json":
        if instance.window.demand.size > JSON_ENTRIES:
            raise RoutePackError(f"{os.fspath(path)!r}: demand has {instance.window.demand.size} entries, too many for JSON; write .npz.")
        content = dump(instance_to_dict(instance))
        write_atomically(path, lambda file: _put(file.write, content))
    else:
        raise RoutePackError(f"{os.fspath(path)!r} ends in neither .npz nor .json; choose one.")


def read_plan(path: str | os.PathLike[str]) -> tuple[Plan, Claims]:
    """
    Read a plan and what it claims; `routepack.verify.verify` says whether it holds.

    Raises
    ------
    InvalidPlan
        The file cannot be read or is malformed; one line that names it and the place.
    """
    return _read(path, InvalidPlan, lambda found: plan_from_dict(parse(_text(found))))


def write_result(path: str | os.PathLike[str], result: Result) -> None:
    """
    Write a plan file atomically.

    Raises
    ------
    RoutePackError
        The path cannot be written.
    """
    content = dump(result_to_dict(result))
    write_atomically(path, lambda file: _put(file.write, content))


def _put(write: Callable[[bytes], int], content: bytes) -> None:
    write(content)


def _read(path: str | os.PathLike[str], error: type[RoutePackError], reader: Callable[[Path], T]) -> T:
    try:
        found = Path(path)
        if not stat.S_ISREG(found.stat().st_mode):
            raise ValueError("it is not a regular file")
        return reader(found)
    except RoutePackError as fault:
        message = str(fault)
    except OSError as fault:
        message = f"cannot be read: {fault.strerror or fault}; check the path."
    except Exception as fault:  # whatever a hostile file makes the decoders raise is a malformed file
        message = f"cannot be read: {fault or type(fault).__name__}; write the file anew."
    raise error(" ".join(f"{os.fspath(path)}: {message}".split()))


def _text(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(TEXT_LIMIT + 1)
    if len(content) > TEXT_LIMIT:
        raise ValueError(f"it is larger than {TEXT_LIMIT} bytes")
    return content
