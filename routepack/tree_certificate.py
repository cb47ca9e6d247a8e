"""
Proofs that a packing into R cells is impossible where weights alone prove only R: several weighings, and a tree of patterns.

A *filter* is a weighing whose limit no pattern exceeds. The cells of a packing into R cells leave ``R * limit - weight of all items`` of
their limits unused together, so none leaves more: this thins the patterns that may occur; the lengths under the capacity are always one.
At a node of the tree some cells are fixed. It is closed by weights, possibly negative, of which the items left have more than the cells
left can take, or it branches over an item: one of the patterns that hold it must occur, and once a pattern's branch is closed, its later
siblings may do without it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from routepack.errors import InvalidCertificate
from routepack.window import IntArray

MAX_PATTERNS = 500_000
MAX_TABLE = 1 << 25
MAX_VISITS = 1 << 33
MAX_WEIGHT = 1 << 31
MAX_LIMIT = 1 << 40
NEVER = -(1 << 60)

Node = Any  # an index of leaves, or [type, [[pattern, node], ...]] with patterns as [type, count] pairs


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """
    A weighing of types, shape (K,), in [0, 2**31), and a limit of at most 2**40 that no pattern exceeds.

    Parameters
    ----------
    weights, limit
        Integers.
    """

    weights: IntArray
    limit: int

    def unused(self, demand: IntArray, cells: int) -> int:
        """Part of the limits that the demanded items leave unused in so many cells."""
        return self.limit * cells - int(self.weights @ demand)


@dataclass(frozen=True, slots=True, eq=False)
class TreeCertificate:
    """
    Proof that a number of cells is needed, by a tree; types are the distinct lengths, longest first.

    Parameters
    ----------
    cells
        Cells that are claimed to be needed: no packing into one less exists.
    filters
        Weighings that thin the patterns.
    leaves
        Weights that close nodes, each of shape (K,).
    tree
        The root.
    """

    cells: int
    filters: tuple[Filter, ...]
    leaves: tuple[IntArray, ...]
    tree: Node


def types_of(lengths: IntArray) -> tuple[IntArray, IntArray]:
    """Distinct lengths, longest first, and how many items have each."""
    distinct, counts = np.unique(lengths, return_counts=True)
    return distinct[::-1], counts[::-1].astype(np.int64)


def completions(lengths: IntArray, demand: IntArray, weights: IntArray, capacity: int, waste: int) -> IntArray:
    """
    Largest weight that items of the types from k on add in each room when they leave at most ``waste`` of it empty.

    Shape (K + 1, capacity + 1); very negative where no items do that.
    """
    best = np.zeros((len(lengths) + 1, capacity + 1), dtype=np.int64)
    best[-1, waste + 1 :] = NEVER
    for k in range(len(lengths) - 1, -1, -1):
        t, w = int(lengths[k]), int(weights[k])
        best[k] = best[k + 1]
        for count in range(1, min(int(demand[k]), capacity // t) + 1):
            np.maximum(best[k, count * t :], best[k + 1, : capacity + 1 - count * t] + count * w, out=best[k, count * t :])
    return best


def allowed_patterns(lengths: IntArray, demand: IntArray, capacity: int, cells: int, filters: tuple[Filter, ...]) -> IntArray:
    """
    List every pattern that a packing into so many cells may have, by all filters, shape (patterns, K).

    Raises
    ------
    InvalidCertificate
        A filter's limit is exceeded by a pattern, or there are too many patterns to be listed.
    """
    if len(filters) * (len(lengths) + 1) * (capacity + 1) > MAX_TABLE:
        raise InvalidCertificate(
            f"{len(filters)} filters of {len(lengths)} types need tables of more than 2**25 entries; use fewer filters."
        )
    waste = Filter(lengths, capacity).unused(demand, cells)
    if waste < 0:
        return np.zeros((0, len(lengths)), dtype=np.int64)
    tables = [completions(lengths, demand, f.weights, capacity, waste) for f in filters]
    for n, (f, table) in enumerate(zip(filters, tables, strict=True)):
        if int(table[0, capacity]) > f.limit:
            raise InvalidCertificate(f"filters[{n}] is wrong: a pattern weighs {table[0, capacity]}, over its limit of {f.limit}.")
    room = np.array([capacity])
    lack = np.array([[f.limit - f.unused(demand, cells)] for f in filters])  # weight that each must still get, (filter, partial pattern)
    extended: list[tuple[IntArray, IntArray]] = []  # for each type, which partial pattern each one extends, and by how many items
    for k in range(len(lengths)):
        weights = np.array([[f.weights[k]] for f in filters])
        grown = []
        for count in range(min(int(demand[k]), capacity // int(lengths[k])) + 1):
            left = np.maximum(room - count * lengths[k], 0)
            keep = room >= count * lengths[k]
            for table, needed in zip(tables, lack - count * weights, strict=True):
                keep &= needed <= table[k + 1, left]
            grown.append((np.flatnonzero(keep), count))
        before, counts = (np.concatenate(part) for part in zip(*((b, np.full(len(b), c)) for b, c in grown), strict=True))
        if len(before) > MAX_PATTERNS:
            raise InvalidCertificate(f"the filters allow more than {MAX_PATTERNS} patterns; the proof is too large to be checked.")
        room = room[before] - counts * lengths[k]
        lack = lack[:, before] - counts * weights
        extended.append((before, counts))
    return _read(extended)


def _read(extended: list[tuple[IntArray, IntArray]]) -> IntArray:
    """Patterns, shape (patterns, K), from what each partial one extends; the empty pattern is left out."""
    patterns = np.zeros((len(extended[-1][0]), len(extended)), dtype=np.int64)
    place = np.arange(len(patterns))
    for k in range(len(extended) - 1, -1, -1):
        before, counts = extended[k]
        patterns[:, k] = counts[place]
        place = before[place]
    return patterns[patterns.any(axis=1)]


@dataclass(slots=True)
class Nodes:
    """
    What nodes of a tree have in common: patterns, shape (patterns, K), filters, and what the patterns weigh.

    Parameters
    ----------
    patterns, filters
        As `allowed_patterns` takes and gives them.
    visits
        Patterns looked at so far.
    """

    patterns: IntArray
    filters: tuple[Filter, ...]
    visits: int = 0

    def active(self, among: IntArray, left: IntArray, cells: int) -> IntArray:
        """Indices of the patterns that a packing of the items left into so many cells may have."""
        self.visits += (len(among) + 1) * len(left)
        if self.visits > MAX_VISITS:
            raise InvalidCertificate("the tree takes more than 2**33 steps to check; give a smaller proof.")
        among = among[(self.patterns[among] <= left).all(axis=1)]
        for f in self.filters:
            among = among[f.limit - self.patterns[among] @ f.weights <= f.unused(left, cells)]
        return among

    def closed_by(self, weights: IntArray, active: IntArray, left: IntArray, cells: int) -> bool:
        """Whether the items left weigh more than the cells left can take."""
        heaviest = int((self.patterns[active] @ weights).max(initial=0))
        return int(weights @ left) > cells * heaviest


def check_tree(certificate: TreeCertificate, lengths: IntArray, capacity: int) -> int:
    """
    Check a tree and return the number of cells that it proves.

    Parameters
    ----------
    certificate
        The claim; nothing in it is trusted.
    lengths
        Item lengths, shape (items,), in [1, capacity].
    capacity
        Token cap.

    Raises
    ------
    InvalidCertificate
        A filter or a leaf does not hold, a branch is missing, or the proof is too large to be checked.
    """
    distinct, demand = types_of(lengths)
    vectors = [*(f.weights for f in certificate.filters), *certificate.leaves]
    if not certificate.filters or certificate.cells < 2 or any(v.shape != distinct.shape or (abs(v) >= MAX_WEIGHT).any() for v in vectors):
        raise InvalidCertificate("certificate needs a filter, cells >= 2, and weights in (-2**31, 2**31), one for each distinct length.")
    if any((f.weights < 0).any() or not 1 <= f.limit <= MAX_LIMIT for f in certificate.filters):
        raise InvalidCertificate("certificate has a filter with a negative weight or a limit outside [1, 2**40].")
    cells = certificate.cells - 1
    patterns = allowed_patterns(distinct, demand, capacity, cells, certificate.filters)
    nodes = Nodes(patterns, (Filter(distinct, capacity), *certificate.filters))
    index = {pattern.tobytes(): p for p, pattern in enumerate(nodes.patterns)}
    _check_node(certificate, nodes, index, certificate.tree, demand, cells, np.arange(len(nodes.patterns)))
    return certificate.cells


def _check_node(
    certificate: TreeCertificate, nodes: Nodes, index: dict[bytes, int], node: Node, left: IntArray, cells: int, among: IntArray
) -> None:
    """Check that no packing of the items left into the cells left exists with patterns of those given."""
    active = nodes.active(among, left, cells)
    if isinstance(node, int):
        if not 0 <= node < len(certificate.leaves) or not nodes.closed_by(certificate.leaves[node], active, left, cells):
            raise InvalidCertificate(f"leaf {node} does not close a node of {cells} cells and {int(left.sum())} items.")
        return
    kind, children = _branch(node, left)
    holding = set(active[nodes.patterns[active, kind] > 0].tolist())
    for pairs, child in children:
        pattern = _pattern(pairs, len(left))
        p = index.get(pattern.tobytes(), -1)
        if p not in holding:
            raise InvalidCertificate(f"pattern {pairs} at type {kind} may not occur there, or is listed twice.")
        _check_node(certificate, nodes, index, child, left - pattern, cells - 1, active)
        holding.remove(p)
        active = active[active != p]
    if holding:
        missing = nodes.patterns[min(holding)]
        raise InvalidCertificate(
            f"a branch at type {kind} is missing: pattern {[[int(k), int(missing[k])] for k in np.flatnonzero(missing)]}."
        )


def _branch(node: Node, left: IntArray) -> tuple[int, list[Any]]:
    match node:
        case [int(kind), list(children)] if (
            0 <= kind < len(left) and left[kind] > 0 and all(isinstance(child, list | tuple) and len(child) == 2 for child in children)
        ):
            return kind, children
    raise InvalidCertificate("a node of the tree is neither the index of a leaf nor [type with items left, [[pattern, node], ...]].")


def _pattern(pairs: Any, num_types: int) -> IntArray:
    pattern = np.zeros(num_types, dtype=np.int64)
    try:
        for kind, count in pairs:
            pattern[int(kind)] = int(count)
    except (TypeError, ValueError, IndexError, OverflowError):
        raise InvalidCertificate("a pattern of the tree is no list of [type, count] pairs.") from None
    return pattern
