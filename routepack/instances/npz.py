"""Instances as NumPy archives: every declared size is checked before memory is taken for it."""

import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from routepack.errors import InvalidInstance
from routepack.instance import Instance
from routepack.instances.documents import Fields, dump, parse
from routepack.instances.instance_form import ARRAY_KEYS, SCALAR_KEYS, arrays_of, check_size, instance_from_dict, scalars_of

MEMBERS = (*ARRAY_KEYS, "meta")
MAX_META = 16 << 20  # bytes
MAX_IDS = 1 << 30  # bytes of all ids
DEFLATE_RATIO = 1032  # the most that deflate can shrink anything
KINDS = {"meta": "u", "sample_ids": "iuU", "prompt_ids": "iuU"}
DIMENSIONS = {"demand": 3, "current_placement": 2}


def read_npz(path: Path) -> Instance:
    """
    Read an instance from an archive of arrays; never unpickles.

    Parameters
    ----------
    path
        The archive.

    Raises
    ------
    InvalidInstance
        An unknown member, or an array of the wrong type, shape or size.
    Exception
        Whatever the decoders raise on a broken archive.
    """
    with zipfile.ZipFile(path) as archive:
        members = _members(archive)
        headers = {name: _header(archive, info, name) for name, info in members.items()}
        _check_shapes(headers)
        arrays = {name: _array(archive, info) for name, info in members.items()}
    meta = parse(arrays.pop("meta").tobytes())
    return instance_from_dict(Fields(meta, "meta", SCALAR_KEYS, (), InvalidInstance).values | arrays)


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name not in MEMBERS or name == info.filename:
            raise InvalidInstance(f"member {info.filename!r} is unknown; the arrays are {', '.join(MEMBERS)}.")
        if name in members:
            raise InvalidInstance(f"member {info.filename!r} stands twice; keep one.")
        if info.file_size > DEFLATE_RATIO * (info.compress_size + 1):
            raise InvalidInstance(
                f"member {info.filename!r} declares {info.file_size} bytes but stores {info.compress_size}; write it anew."
            )
        members[name] = info
    for name in ("meta", "lengths", "demand"):
        if name not in members:
            raise InvalidInstance(f"array {name} is missing; give it.")
    return members


def _header(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    with archive.open(info) as file:
        version = npy.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise InvalidInstance(f"{name} has .npy version {version}; write it as version 1.0 or 2.0.")
        shape, _, dtype = npy.read_array_header_1_0(file) if version == (1, 0) else npy.read_array_header_2_0(file)
        start = file.tell()
    kinds = KINDS.get(name, "iu")
    if dtype.hasobject or dtype.kind not in kinds:
        raise InvalidInstance(f"{name} has values of type {dtype}; {'integers or strings' if 'U' in kinds else 'integers'} needed.")
    if len(shape) != DIMENSIONS.get(name, 1) or min(shape) < 0:
        raise InvalidInstance(f"{name} has shape {shape}; {DIMENSIONS.get(name, 1)} dimensions needed.")
    if start + math.prod(shape) * dtype.itemsize != info.file_size:
        raise InvalidInstance(f"{name} declares shape {shape} of {dtype} but holds {info.file_size - start} bytes; write it anew.")
    return shape, dtype


def _check_shapes(headers: dict[str, tuple[tuple[int, ...], np.dtype[Any]]]) -> None:
    (samples, layers, experts), entry = headers["demand"]
    check_size((samples, layers, experts), entry.itemsize)
    wanted = {
        "lengths": (samples,),
        "sample_ids": (samples,),
        "prompt_ids": (samples,),
        "moe_layers": (layers,),
        "current_placement": (layers, experts),
    }
    for name, shape in wanted.items():
        if name not in headers:
            continue
        if headers[name][1].itemsize * samples > MAX_IDS and headers[name][1].kind == "U":
            raise InvalidInstance(f"{name} takes more than {MAX_IDS} bytes; shorten the longest.")
        if headers[name][0] != shape:
            raise InvalidInstance(f"{name} has shape {headers[name][0]}; {shape} needed beside demand of shape {headers['demand'][0]}.")
    (size,), kind = headers["meta"]
    if size > MAX_META or kind != np.uint8:
        raise InvalidInstance(f"meta has {size} values of type {kind}; at most {MAX_META} bytes (uint8) needed.")


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(info) as file:
        array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
        return array


def write_npz(file: IO[bytes], instance: Instance) -> None:
    """
    Write an instance as an archive of arrays; equal instances give equal bytes.

    Parameters
    ----------
    file
        Open for writing, seekable.
    instance
        What to write.
    """
    meta = np.frombuffer(dump(scalars_of(instance)), dtype=np.uint8)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in {**arrays_of(instance), "meta": meta}.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:  # dated 1980, whenever it is written
                npy.write_array(member, array, allow_pickle=False)
