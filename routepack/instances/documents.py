"""JSON as these files use it: nothing twice, nothing unknown, nothing that is not a finite number."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from routepack.errors import RoutePackError

INT64_MAX = (1 << 63) - 1


def parse(text: bytes) -> Any:
    """
    Parse strict JSON.

    Raises
    ------
    ValueError
        Not UTF-8, not JSON, a key twice in one object, NaN, an infinity, or an integer beyond 64 bits.
    """
    try:
        return json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_int=_int64,
            parse_float=_finite,
            parse_constant=_constant,
        )
    except RecursionError:
        raise ValueError("lists are nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"key {key!r} stands twice in one object")
        values[key] = value
    return values


def _int64(text: str) -> int:
    if len(text) > 20 or not -INT64_MAX <= int(text) <= INT64_MAX:
        raise ValueError(f"the integer {text[:20]}{'…' if len(text) > 20 else ''} exceeds 64 bits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} is not finite")
    return number


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def dump(document: dict[str, Any]) -> bytes:
    """Write a document with one key a line, and nested lists with one item a line: equal documents give equal bytes."""
    lines = []
    for key, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], list):
            text = "[\n  " + ",\n  ".join(json.dumps(item, allow_nan=False) for item in value) + "\n ]"
        else:
            text = json.dumps(value, allow_nan=False)
        lines.append(f" {json.dumps(key)}: {text}")
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("ascii")


@dataclass(frozen=True, slots=True)
class Fields:
    """
    One object of a document, read key by key.

    Parameters
    ----------
    values
        The object; anything but a dictionary with the known keys is refused.
    where
        Its place in the document, as in ``cost.stages[0]``; empty at the top.
    keys
        Known keys.
    needed
        Keys that must be there.
    error
        Type of the error to raise.
    """

    values: dict[str, Any]
    where: str
    keys: Sequence[str]
    needed: Sequence[str]
    error: type[RoutePackError]

    def __post_init__(self) -> None:
        if not isinstance(self.values, dict):
            raise self.error(f"{self.where or 'the document'} = {brief(self.values)} is not an object; give {{{', '.join(self.keys)}}}.")
        for key in self.values:
            if key not in self.keys:
                raise self.error(f"{self.place(str(key))} is unknown; the keys are {', '.join(self.keys)}.")
        for key in self.needed:
            if key not in self.values:
                raise self.error(f"{self.place(key)} is missing; give it.")

    def place(self, key: str) -> str:
        """Where a key stands."""
        return f"{self.where}.{key}" if self.where else key

    def text(self, key: str) -> str:
        """Return a string."""
        value = self.values[key]
        if not isinstance(value, str):
            raise self.error(f"{self.place(key)} = {brief(value)} is not a string; quote it.")
        return value

    def whole(self, key: str, low: int = 0, high: int = INT64_MAX) -> int:
        """Return an integer in a range."""
        value = self.values[key]
        if type(value) is not int or not low <= value <= high:
            raise self.error(f"{self.place(key)} = {brief(value)} is no whole number from {low} to {high}; give one.")
        return value

    def list(self, key: str, depth: int = 1) -> Any:
        """Return lists of 64-bit integers, nested so deep; their lengths may differ."""
        whole_lists(self.place(key), self.values[key], depth, self.error)
        return self.values[key]

    def choice(self, key: str, choices: Sequence[str]) -> str:
        """Return one of some strings."""
        value = self.values[key]
        if value not in choices:
            raise self.error(f"{self.place(key)} = {brief(value)} is unknown; choose {' or '.join(choices)}.")
        return str(value)

    def check_format(self, name: str) -> None:
        """Check ``format`` and ``version``."""
        self.choice("format", (name,))
        self.whole("version", 1, 1)


def whole_lists(place: str, values: Any, depth: int, error: type[RoutePackError]) -> None:
    """
    Check that values are lists of integers, nested so deep.

    Raises
    ------
    RoutePackError
        Of the given type, naming the first offender.
    """
    if not isinstance(values, list):
        raise error(f"{place} = {brief(values)} is not a list; give a list.")
    if depth > 1:
        for k, value in enumerate(values):
            whole_lists(f"{place}[{k}]", value, depth - 1, error)
    elif not set(map(type, values)) <= {int} or (values and not -INT64_MAX <= min(values) <= max(values) <= INT64_MAX):
        k = next(k for k, value in enumerate(values) if type(value) is not int or abs(value) > INT64_MAX)
        raise error(f"{place}[{k}] = {brief(values[k])} is no 64-bit whole number; give one.")


def brief(value: Any) -> str:
    """Return a value as one short line."""
    if isinstance(value, int) and abs(value) > INT64_MAX:
        return "a number beyond 64 bits"
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"
