"""Routes of one sample, whatever form they came in, and the checks of their rows, axes and type."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from routepack.errors import InvalidInstance
from routepack.instances.documents import brief
from routepack.instances.readers.model_shape import ModelShape

LastRow = Literal["filler", "routed"]
Record = Mapping[str, Any]

WIDTHS = {"uint8": 256, "int8": 128, "int16": 1 << 15, "uint16": 1 << 16, "int32": 1 << 31, "uint32": 1 << 32, "int64": 1 << 63}


@dataclass(frozen=True, slots=True, eq=False)
class SampleRoutes:
    """
    Routes of one sample.

    Parameters
    ----------
    tokens
        Tokens T that the trainer computes.
    routes
        Expert ids, shape (rows, layers, k); ``None`` where the record has none.
    mask
        Which rows belong to tokens, shape (rows,), or one more where the last token has no row; all of them where it is ``None``.
    name, prompt
        Ids of the sample and of its prompt, where the record has them.
    padded
        Rows after the T-th are padding even where no mask says so.
    """

    tokens: int
    routes: NDArray[Any] | None
    mask: NDArray[np.bool_] | None = None
    name: str | int | None = None
    prompt: str | int | None = None
    padded: bool = False

    def rows_of_tokens(self, model: ModelShape) -> NDArray[Any]:
        """
        Cut padding off and check axes and type.

        Returns
        -------
        NDArray
            Shape (rows, layers, k), in the byte order of the machine; a view where possible.

        Raises
        ------
        InvalidInstance
            There are no routes, or their shape or type contradicts the model.
        """
        if self.routes is None:
            raise InvalidInstance("routes are missing; record them, or choose what to do by on_missing.")
        routes = self.routes
        if routes.ndim != 3 or routes.shape[2] != model.top_k:
            raise InvalidInstance(f"routes have shape {routes.shape}; (rows, layers, {model.top_k}) needed.")
        check_width(routes.dtype, model.experts)
        if self.mask is not None:
            if len(self.mask) not in (len(routes), len(routes) + 1):
                raise InvalidInstance(f"mask has {len(self.mask)} entries beside {len(routes)} rows of routes; give one for each token.")
            real = np.flatnonzero(self.mask[: len(routes)])
            whole = len(real) and real[-1] - real[0] + 1 == len(real)
            routes = routes[real[0] : real[-1] + 1] if whole else routes[real]
        if self.padded:
            routes = routes[: self.tokens]
        return routes if routes.dtype.isnative else routes.astype(routes.dtype.newbyteorder("="))


def check_width(dtype: np.dtype[Any], experts: int) -> None:
    """Refuse a type that cannot hold the ids of so many experts, whatever the values: larger ids have wrapped."""
    if dtype.name not in WIDTHS:
        raise InvalidInstance(f"routes are of type {dtype}; choose {', '.join(WIDTHS)}.")
    if experts > WIDTHS[dtype.name]:
        raise InvalidInstance(f"routes are of type {dtype}, too narrow for {experts} experts; record them in a wider type.")


def route_array(values: Any, key: str = "routes") -> NDArray[Any] | None:
    """
    Return ids as an array: an array as it is, nested lists of whole numbers as int64, nothing as ``None``.

    Raises
    ------
    InvalidInstance
        Ragged lists, or something else than integers.
    """
    if values is None or (isinstance(values, list) and not values):
        return None
    if isinstance(values, str | bytes | Mapping):
        raise InvalidInstance(f"{key} = {brief(values)} is no array of integers; choose the format that packs them so.")
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError):
        raise InvalidInstance(f"{key} is ragged or out of range; all rows must have the same shape.") from None
    if array.dtype.kind not in "iu":
        raise InvalidInstance(f"{key} has values of type {array.dtype}; whole numbers needed.")
    return array


def mask_of(record: Record, *keys: str) -> NDArray[np.bool_] | None:
    """
    Return the first mask that a record has under one of some keys.

    Raises
    ------
    InvalidInstance
        It is not a list of zeros and ones.
    """
    for key in keys:
        if record.get(key) is not None:
            mask = np.asarray(record[key])
            if mask.ndim != 1 or mask.dtype.kind not in "biu":
                raise InvalidInstance(f"{key} has shape {mask.shape} and type {mask.dtype}; one 0 or 1 a row needed.")
            return mask.astype(bool)
    return None


LENGTH_KEYS = ("tokens", "num_tokens", "length", "lengths", "input_lengths", "total_tokens", "token_ids", "input_ids")


def tokens_of(record: Record, mask: NDArray[np.bool_] | None = None, rows: int | None = None) -> int:
    """
    Return the number of tokens: from the record's own count or list of tokens, else from its mask, else as told.

    Parameters
    ----------
    record
        One sample.
    mask
        Its mask.
    rows
        What to take where the record says nothing, if the format fixes it.

    Raises
    ------
    InvalidInstance
        Nothing tells.
    """
    for key in LENGTH_KEYS:
        value = record.get(key)
        if value is not None and not (mask is not None and key == "input_ids"):
            return whole(value, key) if np.ndim(value) == 0 else len(value)
    if mask is not None:
        return int(mask.sum())
    if rows is None:
        raise InvalidInstance(f"tokens are missing; give the length of the sample under one of {', '.join(LENGTH_KEYS)}.")
    return rows


def whole(value: Any, key: str) -> int:
    """Return a whole number, or say by key what stands there instead."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidInstance(f"{key} = {brief(value)} is no whole number; give one.")
    return int(value.__index__())


def first_of(record: Record, keys: Iterable[str]) -> Any:
    """Return the first value that stands under one of some keys and is not ``None``."""
    return next((record[key] for key in keys if record.get(key) is not None), None)


NAME_KEYS = ("sample_id", "sample_ids", "request_id", "rid", "uid", "id", "index")
PROMPT_KEYS = ("prompt_id", "prompt_ids", "group_id", "group_index")


def names_of(record: Record) -> dict[str, Any]:
    """Ids of a sample and of its prompt, as arguments of `SampleRoutes`; an id that is neither text nor number is left out."""
    found = {
        "name": first_of(record, NAME_KEYS),
        "prompt": first_of(record, PROMPT_KEYS),
    }
    plain = {key: value.item() if isinstance(value, np.generic) else value for key, value in found.items()}
    return {key: value for key, value in plain.items() if isinstance(value, str | int) and not isinstance(value, bool)}


def sample_of(
    record: Record, values: Any, *, missing: int | None = None, masks: tuple[str, ...] = (), padded: bool = False
) -> SampleRoutes:
    """
    Build a sample from ids and from what its record says beside them.

    Parameters
    ----------
    record
        One sample.
    values
        Its ids, shape (rows, layers, k).
    missing
        Rows that the format leaves out of a whole sample, if that is fixed: then a record without a length has ``rows + missing`` tokens.
    masks
        Keys of its mask.
    padded
        As in `SampleRoutes`.

    Raises
    ------
    InvalidInstance
        The ids are no array, or nothing tells the length.
    """
    routes = route_array(values)
    mask = mask_of(record, *masks)
    rows = len(routes) + missing if missing is not None and routes is not None and mask is None else None
    return SampleRoutes(tokens_of(record, mask, rows), routes, mask, padded=padded, **names_of(record))
