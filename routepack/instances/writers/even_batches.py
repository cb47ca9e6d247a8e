"""Plans for trainers that cut the batch into equal parts: verl, AReaL, SkyRL."""

from typing import Any

from routepack.instances.writers.order import Cells, even, permutation, places


def verl_batches(layout: Cells) -> dict[str, Any]:
    """
    Return the batch order for ``DataProto.reorder`` and the micro-batches of each slot as index lists into its equal part.

    Raises
    ------
    InvalidPlan
        Slots hold different numbers of samples.
    """
    return permutation(layout) | {"micro_batch_indices": [places(slot) for slot in even(layout)]}


def areal_groups(layout: Cells) -> dict[str, Any]:
    """
    Return the samples of each slot and, as its allocation function does, the rows as index lists into them.

    Raises
    ------
    InvalidPlan
        Slots hold different numbers of samples.
    """
    cells = even(layout)
    partitions = [[i for cell in slot for i in cell] for slot in cells]
    return permutation(layout) | {"partitions": partitions, "group_indices": [places(slot) for slot in cells]}


def skyrl_batches(layout: Cells) -> dict[str, Any]:
    """
    Return the order of the training batch, one equal block a slot, and the rows of each block as index lists.

    Raises
    ------
    InvalidPlan
        Slots hold different numbers of samples.
    """
    cells = even(layout)
    return permutation(layout) | {"samples_per_slot": sum(map(len, cells[0])), "microbatches": [places(slot) for slot in cells]}
