"""Ids packed into text: base64 buffers with or without a shape, and array files in text form."""

import base64
import binascii
import io
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from routepack.errors import InvalidInstance
from routepack.instances.documents import brief
from routepack.instances.readers.routes import WIDTHS


def buffer_of(text: Any, key: str) -> bytes:
    """
    Decode base64; bytes are taken as they are.

    Raises
    ------
    InvalidInstance
        It is neither.
    """
    if isinstance(text, bytes | bytearray | memoryview):
        return bytes(text)
    if not isinstance(text, str):
        raise InvalidInstance(f"{key} = {brief(text)} is no base64 text; give a string.")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as fault:
        raise InvalidInstance(f"{key} is no base64 text: {fault}; the record may be cut.") from None


def type_of(name: Any) -> np.dtype[Any]:
    """
    Return an integer type by its name, little-endian.

    Raises
    ------
    InvalidInstance
        The name is unknown.
    """
    plain = str(name).removeprefix("torch.").removeprefix("numpy.")
    if plain not in WIDTHS:
        raise InvalidInstance(f"dtype = {brief(name)} is unknown; choose {', '.join(WIDTHS)}.")
    return np.dtype(plain).newbyteorder("<")


def shape_of(value: Any) -> tuple[int, ...]:
    """
    Return a shape of three sizes.

    Raises
    ------
    InvalidInstance
        It is not.
    """
    sizes = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(sizes, list | tuple) or len(sizes) != 3 or any(type(size) is not int or size < 0 for size in sizes):
        raise InvalidInstance(f"shape = {brief(sizes)} is not (rows, layers, choices); give three sizes.")
    return tuple(sizes)


def shaped(content: bytes, shape: tuple[int, ...], dtype: np.dtype[Any], key: str) -> NDArray[Any]:
    """
    Give a buffer its shape.

    Raises
    ------
    InvalidInstance
        It has another size.
    """
    needed = math.prod(shape) * dtype.itemsize
    if needed != len(content):
        raise InvalidInstance(f"{key} holds {len(content)} bytes; shape {shape} of {dtype.name} needs {needed}.")
    return np.frombuffer(bytearray(content), dtype=dtype).reshape(shape)  # writable, as every other source: one compiled loop a type


def described(record: Mapping[str, Any], key: str = "data") -> NDArray[Any] | None:
    """
    Read a buffer that names its shape and type beside it; nothing is ``None``.

    Raises
    ------
    InvalidInstance
        Shape, type and buffer contradict each other.
    """
    if record.get(key) is None:
        return None
    return shaped(buffer_of(record[key], key), shape_of(record.get("shape")), type_of(record.get("dtype")), key)


def envelope(text: Any) -> NDArray[Any]:
    """
    Read ``nrlre1:<dtype>:<rows>x<layers>x<choices>:<base64>``.

    Raises
    ------
    InvalidInstance
        The text is not of this form, or its parts contradict each other.
    """
    parts = text.split(":") if isinstance(text, str) else []
    sizes = parts[2].split("x") if len(parts) == 4 else []
    if len(sizes) != 3 or parts[0] != "nrlre1" or any(not (size.isascii() and size.isdigit() and len(size) < 19) for size in sizes):
        raise InvalidInstance(f"text = {brief(text)} is not nrlre1:<dtype>:<rows>x<layers>x<choices>:<base64>; the record may be cut.")
    return shaped(buffer_of(parts[3], "text"), tuple(map(int, sizes)), type_of(parts[1]), "text")


def array_file(text: Any, key: str) -> NDArray[Any]:
    """
    Read a NumPy array file in base64; the declared size is checked before memory is taken, nothing is unpickled.

    Raises
    ------
    InvalidInstance
        The file is broken, or holds anything but integers.
    """
    content = buffer_of(text, key)
    file = io.BytesIO(content)
    shape, fortran, dtype = array_header(file, key)
    values = shaped(content[file.tell() :], shape, dtype, key)
    return values.reshape(shape[::-1]).transpose() if fortran else values


def array_header(file: Any, key: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """
    Read the header of a NumPy array file.

    Returns
    -------
    tuple
        Shape, whether the first axis runs fastest, and type.

    Raises
    ------
    InvalidInstance
        It is none, or not of integers.
    """
    try:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(file)
    except Exception as fault:  # whatever a hostile header makes the parser raise is a malformed header
        raise InvalidInstance(f"{key} is no NumPy array file: {' '.join(str(fault).split())[:100]}; the record may be cut.") from None
    if min(shape, default=0) < 0 or dtype.kind not in "iub":
        raise InvalidInstance(f"{key} holds shape {shape} of type {dtype}; whole numbers needed.")
    return shape, bool(fortran), dtype
