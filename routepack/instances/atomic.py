"""Files that appear whole or not at all."""

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from routepack.errors import RoutePackError


def write_atomically(path: str | os.PathLike[str], write: Callable[[IO[bytes]], None]) -> None:
    """
    Write a file through a temporary one in the same folder, so that no reader ever sees a part of it.

    A link is followed, an existing file keeps its mode, and on any failure it stays as it was and the temporary file goes.

    Parameters
    ----------
    path
        Where the file shall stand.
    write
        Writes the content to the open temporary file.

    Raises
    ------
    RoutePackError
        The folder is missing, full or not writable, or the path is a folder or a device.
    """
    try:
        target = Path(os.path.realpath(path))
        mode = _mode(target)
        handle, temporary = tempfile.mkstemp(prefix=".routepack-", suffix=".tmp", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                write(file)
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except (OSError, ValueError) as error:
        if isinstance(error, RoutePackError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise RoutePackError(f"{os.fspath(path)!r} cannot be written: {reason}; give a path in a writable folder.") from None


def _mode(target: Path) -> int:
    try:
        found = target.stat().st_mode
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
    if not stat.S_ISREG(found):
        raise OSError(0, "it is not a regular file")
    return stat.S_IMODE(found)
