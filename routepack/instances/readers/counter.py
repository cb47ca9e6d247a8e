"""Counts of one sample after the other, in the array that the window will use."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routepack.errors import InvalidInstance
from routepack.instances.instance_form import check_size
from routepack.instances.readers import kernels
from routepack.instances.readers.model_shape import ModelShape
from routepack.instances.readers.routes import LastRow, SampleRoutes
from routepack.window import INT32_MAX

CHUNK = 1 << 19  # bytes of routes that are looked at and counted at a time, so that they stay in a near cache
SHARE = 1 << 20  # bytes of routes that are worth a thread
MAX_THREADS = 8
GROWTH = 8  # the array grows by one in so many samples, in place


@dataclass(slots=True)
class SampleFacts:
    """
    What was found in the routes of samples.

    Parameters
    ----------
    rows_counted
        Tokens that became demand.
    unknown_tokens
        Tokens whose routes are not known: the last one, rows of minus one, rows never written.
    unwritten_rows
        Unknown rows that hold zeros alone.
    repeated_choices
        Choices of an expert that the token had named already in that layer; counted once.
    repeated_rows
        Rows equal to the row before: many of them hint at a warm-up or a stale buffer.
    """

    rows_counted: int = 0
    unknown_tokens: int = 0
    unwritten_rows: int = 0
    repeated_choices: int = 0
    repeated_rows: int = 0

    def add(self, other: "SampleFacts") -> None:
        """Add the facts of another sample."""
        for key in self.__slots__:
            setattr(self, key, getattr(self, key) + getattr(other, key))


class RouteCounter:
    """
    Demand of samples that arrive one by one; holds no routes, only counts.

    Parameters
    ----------
    model
        Layers and experts.
    last_row
        Whether a row of the last token is data, where a record has one.
    """

    def __init__(self, model: ModelShape, last_row: LastRow = "filler") -> None:
        self._model = model
        self._last_row = last_row
        self._shape = (len(model.moe_layers), model.experts)
        self._counts: NDArray[np.int32] = np.zeros((0, *self._shape), dtype=np.int32)
        self._threads = min(MAX_THREADS, os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(self._threads)  # starts threads when they are first needed
        self.lengths: list[int] = []
        self.facts = SampleFacts()

    def add(self, sample: SampleRoutes) -> SampleFacts:
        """
        Count one sample.

        Raises
        ------
        InvalidInstance
            Its routes contradict the model or themselves; the counter stays as it was.
        """
        tokens = check_tokens(sample.tokens)
        line = self._next_line()
        line[:] = 0
        facts = self._count(sample, tokens, line)
        self.lengths.append(tokens)
        self.facts.add(facts)
        return facts

    def add_uniform(self, tokens: int) -> None:
        """Count a sample of which only the length is known as if every expert were chosen equally often; what is left goes round."""
        experts = self._model.experts
        each, left = divmod(check_tokens(tokens) * self._model.top_k, experts)
        line = self._next_line()
        line[:] = each
        line[:, (np.arange(left) + len(self.lengths)) % experts] += 1
        self.lengths.append(tokens)

    def demand(self) -> NDArray[np.int32]:
        """Hand the counts over, shape (N, L, E); the counter must not be used any more."""
        counts, self._counts = self._counts, np.zeros((0, *self._shape), dtype=np.int32)
        counts.resize((len(self.lengths), *self._shape), refcheck=False)
        return counts

    def _next_line(self) -> NDArray[np.int32]:
        n = len(self.lengths)
        if n == len(self._counts):
            check_size((n + 1, *self._shape))
            self._counts.resize((n + n // GROWTH + 1, *self._shape), refcheck=False)  # by realloc: large arrays are not copied
        line: NDArray[np.int32] = self._counts[n]
        return line

    def _count(self, sample: SampleRoutes, tokens: int, line: NDArray[np.int32]) -> SampleFacts:
        routes = sample.rows_of_tokens(self._model)
        rows = len(routes)
        if rows not in (tokens, tokens - 1):
            raise InvalidInstance(
                f"routes have {rows} rows for {tokens} tokens; {tokens} or {tokens - 1} needed: "
                + ("a resumed sample may be joined twice, take its last record." if rows > tokens else "routes are missing.")
            )
        if self._last_row == "filler":
            routes = routes[: tokens - 1]
        positions = self._model.positions(routes.shape[1])
        if len(positions) < routes.shape[1]:
            first, last = int(positions[0]), int(positions[-1])
            routes = routes[:, first : last + 1] if last - first + 1 == len(positions) else routes[:, positions]
        routes = np.require(routes, requirements=["C", "W"])  # a copy only of what is neither
        facts = self._count_rows(routes, line)
        facts.unknown_tokens = tokens - facts.rows_counted
        self._check_capture(line, facts)
        return facts

    def _count_rows(self, routes: NDArray[Any], line: NDArray[np.int32]) -> SampleFacts:
        parts = min(self._threads, routes.nbytes // SHARE)
        if parts < 2:
            return count_rows(routes, line)
        ends = [len(routes) * n // parts for n in range(parts + 1)]
        counts = np.zeros((parts, *self._shape), dtype=np.int32)
        found = self._pool.map(count_rows, [routes] * parts, counts, ends[:-1], ends[1:])
        facts = SampleFacts()
        for part in found:  # in the order of the rows, so that the first fault is the one that is raised
            facts.add(part)
        counts.sum(axis=0, dtype=np.int32, out=line)
        return facts

    def _check_capture(self, line: NDArray[np.int32], facts: SampleFacts) -> None:
        if self._model.top_k == 1:
            return
        if facts.unwritten_rows and not facts.rows_counted:
            raise InvalidInstance("routes are zero in every row and MoE layer; they were not captured.")
        zero = (line[:, 0] > 0) & (line[:, 0] == line.sum(axis=1))
        if zero.any():
            layer = self._model.moe_layers[int(zero.argmax())]
            raise InvalidInstance(f"routes of layer {layer} are zero in every row; that layer was not captured.")


def check_tokens(tokens: int) -> int:
    """Return a token count that a window can hold, or refuse it."""
    if not 1 <= tokens <= INT32_MAX:
        raise InvalidInstance(f"tokens = {tokens} is no length from 1 to {INT32_MAX}; check the record.")
    return tokens


def count_rows(routes: NDArray[Any], counts: NDArray[np.int32], begin: int = 0, end: int | None = None) -> SampleFacts:
    """
    Add routes to counts.

    Parameters
    ----------
    routes
        Ids of the MoE layers, C-contiguous, shape (rows, L, k).
    counts
        Shape (L, E).
    begin, end
        Rows to add; all of them by default.

    Raises
    ------
    InvalidInstance
        An id is out of range, or a row is partly unknown; row and place of the MoE layer are named.
    """
    facts = SampleFacts()
    found = np.zeros(7, dtype=np.int64)
    step = max(1, CHUNK // max(1, routes[:1].nbytes))
    last = np.empty(counts.shape, dtype=np.int64)
    stop = len(routes) if end is None else end
    for row in range(begin, stop, step):
        chunk = routes[row : min(stop, row + step)]
        facts.repeated_rows += kernels.repeated_rows(routes, row, row + len(chunk))
        unsigned = chunk.view(f"u{chunk.itemsize}")
        if _is_plain(unsigned, counts.shape[1]):
            kernels.count_plain(unsigned, counts)
            facts.rows_counted += len(chunk)
            continue
        kernels.count_careful(chunk, counts, last, found)
        _check_status(found, row, counts.shape[1])
        facts.rows_counted += int(found[kernels.KNOWN])
        facts.unwritten_rows += int(found[kernels.UNWRITTEN])
        facts.repeated_choices += int(found[kernels.REPEATED])
    return facts


def _check_status(found: NDArray[np.int64], begin: int, experts: int) -> None:
    row, layer, value = begin + int(found[kernels.ROW]), int(found[kernels.LAYER]), int(found[kernels.VALUE])
    if found[kernels.STATUS] == kernels.PARTLY_UNKNOWN:
        raise InvalidInstance(f"routes[{row}] is partly -1 (MoE layer {layer} in order); a row is known or unknown as a whole.")
    if found[kernels.STATUS] == kernels.OUT_OF_RANGE:
        raise InvalidInstance(
            f"routes[{row}] names expert {value} (MoE layer {layer} in order), outside 0..{experts - 1}; check model and mask."
        )


def _is_plain(ids: NDArray[Any], experts: int) -> bool:
    """Whether all ids are in range and none stands twice in a token and layer; ids are unsigned, shape (rows, L, k)."""
    top_k, flat = ids.shape[2], ids.reshape(-1)
    if not kernels.all_below(flat, experts):
        return False
    if top_k == 1:
        return True
    if top_k * ids.itemsize % 8:
        return not kernels.repeats(flat, top_k)
    words = np.ascontiguousarray(flat.view(np.uint64).reshape(-1, top_k * ids.itemsize // 8).T)
    return not kernels.repeats_in_words(words, 8 * ids.itemsize)
