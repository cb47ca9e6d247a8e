"""Files of traces, read piece by piece: JSON lines, JSON, NumPy arrays and archives, and torch files without their code."""

import json
import math
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from routepack.errors import InvalidInstance
from routepack.instances.readers.routes import NAME_KEYS, PROMPT_KEYS
from routepack.instances.readers.wire import array_header

LINE_LIMIT = 1 << 30  # bytes of a line, or of a JSON file
SAMPLE_LIMIT = 1 << 31  # bytes that one sample of an archive may take
NUMBERED = re.compile(r"arr_(\d+)\.npy")


def documents(path: Path) -> Iterator[Any]:
    """
    Read the documents of a file, one after the other.

    Parameters
    ----------
    path
        Ends in ``.jsonl``, ``.json``, ``.npz``, ``.npy``, ``.pt`` or ``.pth``.

    Raises
    ------
    InvalidInstance
        Another ending, or a malformed file.
    Exception
        Whatever the decoders raise on a broken file.
    """
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        yield from _lines(path)
    elif suffix == ".json":
        with path.open("rb") as file:
            yield _parsed(file.read(LINE_LIMIT + 1), "the file")
    elif suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            yield _archive(archive)
    elif suffix == ".npy":
        yield _mapped(path)
    elif suffix in (".pt", ".pth"):
        yield _torch(path)
    else:
        raise InvalidInstance(f"its ending {suffix!r} is unknown; give .jsonl, .json, .npz, .npy or .pt.")


def _mapped(path: Path) -> NDArray[Any]:
    with path.open("rb") as file:
        shape, fortran, dtype = array_header(file, "the file")
        start = file.tell()
    if start + math.prod(shape) * dtype.itemsize != path.stat().st_size:
        raise InvalidInstance(f"the file declares shape {shape} of {dtype} but holds {path.stat().st_size - start} bytes; write it anew.")
    return np.memmap(path, dtype=dtype, mode="c", offset=start, shape=shape, order="F" if fortran else "C")


def _lines(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        n = 0
        while line := file.readline(LINE_LIMIT + 1):
            n += 1
            if line.strip():
                yield _parsed(line, f"line {n}")


def _parsed(text: bytes, what: str) -> Any:
    if len(text) > LINE_LIMIT:
        raise InvalidInstance(f"{what} is longer than {LINE_LIMIT} bytes; write one sample a line.")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise InvalidInstance(f"{what} is no JSON: {fault}; it may be cut.") from None


class Member:
    """
    An array of an archive, read from front to back, so that only the entries asked for are in memory.

    Parameters
    ----------
    archive
        The archive.
    info
        The member.
    """

    def __init__(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        self._name = info.filename
        self._file: IO[bytes] = archive.open(info)
        if not (info.filename.endswith(".npy")):
            raise InvalidInstance(f"member {info.filename!r} is no array; write the archive with numpy.savez.")
        self.shape, self._dtype = _header(self._file, info)

    def take(self, count: int) -> NDArray[Any]:
        """Return the next entries of the first axis."""
        size = count * math.prod(self.shape[1:]) * self._dtype.itemsize
        if size > SAMPLE_LIMIT:
            raise InvalidInstance(f"{self._name} takes {size} bytes a sample, more than {SAMPLE_LIMIT}; store ids in a narrower type.")
        content = self._file.read(size)
        if len(content) != size:
            raise InvalidInstance(f"{self._name} is cut: {len(content)} of {size} bytes; write it anew.")
        return np.frombuffer(bytearray(content), dtype=self._dtype).reshape((count, *self.shape[1:]))

    def scalar(self) -> Any:
        """Return the value of an array without axes."""
        return np.frombuffer(self._file.read(self._dtype.itemsize), dtype=self._dtype)[0].item()


def _header(file: IO[bytes], info: zipfile.ZipInfo) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if info.filename.removesuffix(".npy") in (*NAME_KEYS, *PROMPT_KEYS):
        version = npy.read_magic(file)
        shape, fortran, dtype = npy.read_array_header_1_0(file) if version == (1, 0) else npy.read_array_header_2_0(file)
        if dtype.kind not in "iuU":
            raise InvalidInstance(f"{info.filename} holds values of type {dtype}; integers or strings needed.")
    else:
        shape, fortran, dtype = array_header(file, info.filename)
    if fortran and len(shape) > 1:
        raise InvalidInstance(f"{info.filename} has its first axis run fastest; write it as numpy.ascontiguousarray of it.")
    return shape, dtype


class Numbered:
    """
    Arrays ``arr_0``, ``arr_1``, … of an archive as one column with an array a sample.

    Parameters
    ----------
    archive
        The archive.
    members
        In the order of their numbers.
    """

    def __init__(self, archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> None:
        self._members = [*reversed(members)]
        self._archive = archive
        self.shape = (len(members), *Member(archive, members[0]).shape)

    def take(self, count: int) -> list[NDArray[Any]]:
        """Return the next arrays."""
        members = [Member(self._archive, self._members.pop()) for _ in range(count)]
        return [member.take(member.shape[0] if member.shape else 0) for member in members]


def _archive(archive: zipfile.ZipFile) -> Any:
    members = archive.infolist()
    numbered = {int(found[1]): info for info in members if (found := NUMBERED.fullmatch(info.filename))}
    columns: dict[str, Any] = {}
    for info in members:
        if info in numbered.values():
            continue
        member = Member(archive, info)
        columns[info.filename.removesuffix(".npy")] = member if member.shape else member.scalar()
    if numbered:
        arrays = Numbered(archive, [numbered[n] for n in sorted(numbered)])
        return {**columns, "routed_experts": arrays} if len(numbered) > 1 or columns else Member(archive, numbered[min(numbered)])
    return columns


def _torch(path: Path) -> Any:
    try:
        import torch
    except ImportError:
        raise InvalidInstance("torch is not installed; install routepack[torch] to read this file.") from None
    try:
        with zipfile.ZipFile(path) as archive:
            packed = [info.filename for info in archive.infolist() if info.compress_type != zipfile.ZIP_STORED]
    except zipfile.BadZipFile:
        raise InvalidInstance("it is no torch file of version 1.6 or later; save it anew.") from None
    if packed:
        raise InvalidInstance(f"member {packed[0]!r} is compressed, which torch never does; save it anew.")
    core: Any = getattr(np, "_core", None) or np.core
    safe = [
        core.multiarray._reconstruct,
        core.multiarray.scalar,
        np.ndarray,
        np.dtype,
        *(type(np.dtype(kind)) for kind in np.typecodes["AllInteger"] + "?fd"),
    ]
    with torch.serialization.safe_globals(safe):  # names that only build arrays; anything else in the file is refused
        return _plain(torch.load(path, map_location="cpu", weights_only=True, mmap=True), torch)


def _plain(value: Any, torch: Any) -> Any:
    """Turn tensors into arrays, jagged ones into lists of arrays; nothing is copied."""
    if isinstance(value, torch.Tensor):
        return [part.numpy() for part in value.unbind()] if value.is_nested else value.detach().numpy()
    if isinstance(value, dict):
        return {key: _plain(part, torch) for key, part in value.items()}
    if isinstance(value, list | tuple) and any(isinstance(part, torch.Tensor | dict | list | tuple) for part in value):
        return [_plain(part, torch) for part in value]
    return value
