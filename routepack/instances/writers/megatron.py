"""Plans for Megatron-LM and for trainers that take a grid of rows and slots."""

from typing import Any

from routepack.instances.writers.order import Cells, checked, with_inverse
from routepack.topology import positive


def megatron_groups(layout: Cells, cp: int = 1) -> list[list[list[int]]]:
    """
    Sample ids of each row for every rank of data and context parallelism, ``[row][dp * cp rank]``.

    Context-parallel ranks of a slot are neighbours, as in the order tp-cp-ep-dp-pp, and repeat the slot's list.
    """
    size = positive("cp", cp)
    return [[list(cell) for cell in row for _ in range(size)] for row in zip(*checked(layout), strict=True)]


def megatron_document(layout: Cells, cp: int = 1) -> dict[str, Any]:
    """Return the groups, and the order of samples row by row with its inverse."""
    rows = zip(*checked(layout), strict=True)
    return {"sample_id_groups": megatron_groups(layout, cp)} | with_inverse([i for row in rows for cell in row for i in cell])
