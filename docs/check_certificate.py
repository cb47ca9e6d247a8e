"""Check row certificates: python check_certificate.py FILE... Needs numpy and nothing else; docs/certificates.md gives the rules."""

import json
import os
import sys
from typing import Any

import numpy as np

MAX_BYTES, MAX_ITEMS, MAX_STEPS, MAX_TABLE, MAX_PATTERNS, MAX_VISITS, BIG = 1 << 26, 1 << 16, 1 << 36, 1 << 25, 500_000, 1 << 33, 1 << 31
Ints = np.ndarray[Any, np.dtype[np.int64]]


class Refused(Exception):
    """The certificate does not prove what it claims."""


def need(condition: object, message: str) -> None:
    """Refuse with a message unless a condition holds."""
    if not condition:
        raise Refused(message)


def whole(values: Any, low: int, high: int, message: str) -> Ints:
    """Return a list of integers in a range as an array."""
    need(isinstance(values, list) and all(type(v) is int and low <= v <= high for v in values), message)
    return np.array(values, dtype=np.int64)


def check(path: str) -> int:
    """Return the number of cells that a file proves."""
    need(os.path.getsize(path) <= MAX_BYTES, "file too large")
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    need(isinstance(document, dict) and document.get("format") == "routepack-cells" and document.get("version") == 1, "unknown format")
    capacity = int(whole([document.get("capacity")], 1, BIG - 1, "capacity")[0])
    lengths = whole(document.get("lengths"), 1, capacity, "lengths")
    cells = int(whole([document.get("cells")], 1, MAX_ITEMS, "cells")[0])
    need(1 <= len(lengths) <= MAX_ITEMS, "number of items")
    if "tree" in document:
        check_tree(document, lengths, capacity, cells)
    else:
        check_weights(document, lengths, capacity, cells)
    return cells


def check_weights(document: Any, lengths: Ints, capacity: int, cells: int) -> None:
    """No set of items that fits weighs more than the limit, and the items weigh more than cells - 1 limits."""
    weights = whole(document.get("weights"), 0, BIG - 1, "weights")
    limit = int(whole([document.get("limit")], 1, 1 << 62, "limit")[0])
    need(len(weights) == len(lengths), "one weight for each item")
    need(int(weights.sum()) > (cells - 1) * limit, "the weights do not add up to the cells")
    if limit < BIG and (weights * capacity <= limit * lengths).all():
        return
    need(int((weights > 0).sum()) * capacity <= MAX_STEPS, "too large to be checked")
    best = np.zeros(capacity + 1, dtype=np.int64)  # by room
    for t, w in zip(lengths.tolist(), weights.tolist(), strict=True):
        if w:
            np.maximum(best[t:], best[: capacity + 1 - t] + w, out=best[t:])
    need(int(best[capacity]) <= limit, f"a set that fits weighs {best[capacity]}, over the limit of {limit}")


def check_tree(document: Any, lengths: Ints, capacity: int, cells: int) -> None:
    """No packing into cells - 1 cells exists."""
    distinct, demand = np.unique(lengths, return_counts=True)
    distinct, demand = distinct[::-1], demand[::-1]
    need(isinstance(document.get("filters"), list) and document["filters"], "filters")
    need(isinstance(document.get("leaves"), list) and cells >= 2, "leaves and cells")
    filters = [whole(f, 0, 1 << 40, "a filter") for f in document["filters"]]
    leaves = [whole(leaf, 1 - BIG, BIG - 1, "a leaf") for leaf in document["leaves"]]
    need(all(len(f) == len(distinct) + 1 and f[-1] >= 1 and (f[:-1] < BIG).all() for f in filters), "a filter's weights")
    need(all(len(leaf) == len(distinct) for leaf in leaves), "a leaf's weights")
    filters.insert(0, np.append(distinct, capacity))
    patterns = list_patterns(distinct, demand, capacity, cells - 1, filters)
    index = {tuple(pattern): p for p, pattern in enumerate(patterns.tolist())}
    visits = 0

    def close(node: Any, left: Ints, room: int, among: Ints) -> None:
        nonlocal visits
        visits += (len(among) + 1) * len(left)
        need(visits <= MAX_VISITS, "too large to be checked")
        among = among[(patterns[among] <= left).all(axis=1)]
        for f in filters:  # a pattern leaves no more of the limit unused than all cells together
            among = among[f[-1] - patterns[among] @ f[:-1] <= f[-1] * room - f[:-1] @ left]
        if isinstance(node, int):
            need(0 <= node < len(leaves), "a leaf that is not there")
            heaviest = int((patterns[among] @ leaves[node]).max(initial=0))
            need(int(leaves[node] @ left) > room * heaviest, f"leaf {node} does not close its node")
            return
        kind, children = node
        need(type(kind) is int and 0 <= kind < len(left) and left[kind] > 0, "a branch over an item that is not left")
        holding = set(among[patterns[among, kind] > 0].tolist())
        for pairs, child in children:
            pattern = np.zeros(len(left), dtype=np.int64)
            for k, count in pairs:
                pattern[k] = count
            p = index.get(tuple(pattern.tolist()))
            need(p in holding, "a pattern that may not occur, or twice")
            close(child, left - pattern, room - 1, among)
            holding.remove(p)
            among = among[among != p]
        need(not holding, "a branch is missing")

    close(document["tree"], demand, cells - 1, np.arange(len(patterns)))


def list_patterns(distinct: Ints, demand: Ints, capacity: int, cells: int, filters: list[Ints]) -> Ints:
    """Return all patterns that leave no more of any filter's limit unused than a packing into so many cells has to leave."""
    unused = [int(f[-1] * cells - f[:-1] @ demand) for f in filters]
    if unused[0] < 0:
        return np.zeros((0, len(distinct)), dtype=np.int64)
    need((len(filters) - 1) * (len(distinct) + 1) * (capacity + 1) <= MAX_TABLE, "too large to be checked")
    tables = []
    for f in filters[1:]:  # best[k, room]: most weight of types from k on that leaves at most unused[0] of the room empty
        best = np.zeros((len(distinct) + 1, capacity + 1), dtype=np.int64)
        best[-1, unused[0] + 1 :] = -(1 << 60)
        for k in range(len(distinct) - 1, -1, -1):
            t, w = int(distinct[k]), int(f[k])
            best[k] = best[k + 1]
            for count in range(1, min(int(demand[k]), capacity // t) + 1):
                np.maximum(best[k, count * t :], best[k + 1, : capacity + 1 - count * t] + count * w, out=best[k, count * t :])
        need(int(best[0, capacity]) <= f[-1], f"a pattern weighs {best[0, capacity]}, over a filter's limit of {f[-1]}")
        tables.append(best)
    partial, room = np.zeros((1, 0), dtype=np.int64), np.array([capacity])
    for k in range(len(distinct)):
        grown = []
        for count in range(min(int(demand[k]), capacity // int(distinct[k])) + 1):
            candidate = np.hstack([partial, np.full((len(partial), 1), count)])
            left = room - count * int(distinct[k])
            keep = left >= 0
            for f, slack, best in zip(filters[1:], unused[1:], tables, strict=True):
                keep &= f[-1] - candidate @ f[: k + 1] - best[k + 1, np.maximum(left, 0)] <= slack
            grown.append((candidate[keep], left[keep]))
        partial, room = (np.concatenate(part) for part in zip(*grown, strict=True))
        need(len(partial) <= MAX_PATTERNS, "too many patterns to be checked")
    return partial[partial.any(axis=1)]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        try:
            print(f"{name}: proved: at least {check(name)} cells are needed")
        except (Refused, ValueError, TypeError, IndexError, RecursionError, OSError, MemoryError) as fault:
            sys.exit(f"{name}: refused: {fault}")
