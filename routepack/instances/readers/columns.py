"""Batches taken apart into samples: columns of a batch, packed rows with cumulative lengths, lists of samples."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from routepack.errors import InvalidInstance
from routepack.instances.readers.routes import Record

CUMULATIVE = ("cu_seqlens", "cu_seq_lens", "cu_seqlens_q", "offsets")
MANY = ("samples", "trajectories")  # a list of samples inside a dump


class Column(Protocol):
    """Values that are read once, front to back."""

    shape: tuple[int, ...]

    def take(self, count: int) -> Any:
        """Return the next entries of the first axis."""
        ...


class Listed:
    """
    A column in memory, or mapped into it.

    Parameters
    ----------
    values
        An array, or a list with an entry a sample.
    """

    def __init__(self, values: Any) -> None:
        self._values = values
        self._next = 0
        self.shape = values.shape if isinstance(values, np.ndarray) else (len(values),) + (0,) * (depth(values) - 1)

    def take(self, count: int) -> Any:
        """Return the next entries of the first axis."""
        self._next += count
        return self._values[self._next - count : self._next]


def depth(value: Any) -> int:
    """Axes of an array or of nested lists, whose first entries tell."""
    if isinstance(value, list | tuple):
        return 1 + (depth(value[0]) if value else 0)
    return len(getattr(value, "shape", ()))


def records(document: Any, keys: Sequence[str], axes: int) -> Iterator[Record]:
    """
    Take a document apart into one record a sample.

    Parameters
    ----------
    document
        An object of one sample or of a batch, a list of them, or nothing but ids.
    keys
        Keys that ids may stand under.
    axes
        Axes of the ids of one sample.

    Raises
    ------
    InvalidInstance
        Columns of a batch have different lengths, or there is no sample in the document.
    """
    if isinstance(document, list) and document and isinstance(document[0], Mapping):
        for part in document:
            yield from records(part, keys, axes)
        return
    if not isinstance(document, Mapping):
        if not depth(document) >= axes > 0:
            raise InvalidInstance("the document holds no samples; give an object for each, or for a batch.")
        document = {keys[0]: document}
    many = next((document[key] for key in MANY if isinstance(document.get(key), list)), None)
    if many is not None:
        for part in many:
            yield from records(part, keys, axes)
        return
    key = next((key for key in keys if document.get(key) is not None), None)
    cumulative = next((document[name] for name in CUMULATIVE if document.get(name) is not None), None)
    if cumulative is not None and key is not None:
        yield from _packed(document, key, _all(cumulative), axes)
    elif key is not None and depth(document[key]) == axes + 1:
        yield from _batch(document, len_of(document[key]))
    else:
        yield {name: _all(value) for name, value in document.items()}


def len_of(value: Any) -> int:
    """Length of the first axis; 0 for what has none."""
    if isinstance(value, list | tuple):
        return len(value)
    shape = getattr(value, "shape", ())
    return int(shape[0]) if shape else 0


def _all(value: Any) -> Any:
    return value.take(len_of(value)) if hasattr(value, "take") and not isinstance(value, np.ndarray) else value


def _column(value: Any) -> Column:
    if isinstance(value, np.ndarray) or not hasattr(value, "take"):
        return Listed(value)
    column: Column = value
    return column


def _batch(document: Record, samples: int) -> Iterator[Record]:
    columns = {name: _column(value) for name, value in document.items() if len_of(value) == samples}
    shared = {name: _all(value) for name, value in document.items() if name not in columns}
    for _ in range(samples):
        yield {**shared, **{name: column.take(1)[0] for name, column in columns.items()}}


def _packed(document: Record, key: str, cumulative: Any, axes: int) -> Iterator[Record]:
    ends = np.asarray(cumulative)
    if ends.ndim != 1 or ends.dtype.kind not in "iu" or len(ends) < 2 or ends[0] != 0 or (ends[1:] < ends[:-1]).any():
        raise InvalidInstance("cumulative lengths do not start at 0 and rise; give one more of them than samples.")
    single = depth(document[key]) == axes + 1 and len_of(document[key]) == 1  # a first axis of one batch row
    packed = {name: _unbatched(value) if single else value for name, value in document.items() if name not in CUMULATIVE}
    rows = len_of(packed[key])
    if rows != ends[-1]:
        raise InvalidInstance(f"{key} has {rows} rows, the cumulative lengths end at {ends[-1]}; give one row for each.")
    long = {name: _column(value) for name, value in packed.items() if len_of(value) == rows}
    short = {name: _column(value) for name, value in packed.items() if len_of(value) == len(ends) - 1 and name not in long}
    shared = {name: _all(value) for name, value in packed.items() if name not in long and name not in short}
    for size in np.diff(ends).tolist():
        yield {**shared, **{n: c.take(size) for n, c in long.items()}, **{n: c.take(1)[0] for n, c in short.items()}}


def _unbatched(value: Any) -> Any:
    return _all(value)[0] if depth(value) > 1 and len_of(value) == 1 else value
