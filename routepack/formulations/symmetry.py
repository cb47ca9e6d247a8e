"""Interchangeable shards, rows and slots: one representative of each class, by first use."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from routepack.layout_problem import LayoutProblem
from routepack.window import IntArray


def size_order(problem: LayoutProblem) -> IntArray:
    """Units by descending mean cost in a row-shard, ties by index: early decisions weigh most."""
    ranks = problem.loads.shape[2]
    weight = problem.attention.sum(axis=1) * ranks * problem.parts + problem.loads.sum(axis=(1, 2)) * problem.slots
    order: IntArray = np.argsort(-weight, kind="stable")
    return order


def families(problem: LayoutProblem) -> list[list[list[int]]]:
    """
    Families of interchangeable cell groups; each group is a list of cells, in the order in which groups must open.

    Where shards meet at the end, shards are interchangeable, so are the rows of a shard, and so are the cells of a row-shard. Where they
    meet in every row, the rows are interchangeable, and so are the row-shards of a row. ``equal_samples`` ties the cells of a slot over the
    rows: then only shards and rows, or only rows, remain.
    """
    cells = np.arange(problem.num_cells).reshape(problem.shards, problem.rows, problem.slots)
    outer = cells if problem.sync == "shard" else cells.swapaxes(0, 1)
    found = [[block.ravel().tolist() for block in outer]]
    if problem.sync == "shard" or not problem.equal_samples:
        found += [[part.tolist() for part in block] for block in outer]
    if not problem.equal_samples:
        found += [[[c] for c in part.tolist()] for block in outer for part in block]
    return [family for family in found if len(family) > 1]


def precedences(groups: list[list[list[int]]], order: IntArray) -> Iterator[tuple[int, list[int], list[int], list[int]]]:
    """Yield (unit, group, earlier units, group before): the unit may open the group only where an earlier unit opened the one before."""
    for family in groups:
        for before, group in pairwise(family):
            for k, i in enumerate(order.tolist()):
                yield i, group, order[:k].tolist(), before


def canonical(problem: LayoutProblem, cell_of_unit: IntArray, order: IntArray) -> IntArray:
    """Relabel shards, rows and slots of an assignment so that groups open in order."""
    cell_of_unit = cell_of_unit.copy()
    for family in families(problem):
        first = [next((k for k, i in enumerate(order.tolist()) if cell_of_unit[i] in set(group)), len(order)) for group in family]
        target = np.arange(problem.num_cells)
        for position, source in enumerate(np.argsort(first, kind="stable").tolist()):
            target[family[source]] = family[position]
        cell_of_unit = target[cell_of_unit]
    return cell_of_unit
