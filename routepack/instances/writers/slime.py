"""The schedule of slime and miles: four lists."""

from typing import Any

from routepack.errors import InvalidPlan
from routepack.instances.writers.order import Cells, checked, places, with_inverse


def slime_schedule(layout: Cells, rollouts: int | None = None) -> dict[str, Any]:
    """
    Return what ``build_dp_schedule`` returns for one step, under the names of its parts.

    Parameters
    ----------
    layout
        Samples of each cell, ``[slot][row] -> samples``.
    rollouts
        Rollouts in the step; as many as samples if not given.

    Returns
    -------
    dict[str, Any]
        ``partitions`` (samples of each slot), ``micro_batch_indices`` (per slot the rows as places in its list), ``num_microbatches`` and
        ``global_batch_sizes`` (one number each, for the one step).

    Raises
    ------
    InvalidPlan
        The layout is none, or there are more rollouts than samples.
    """
    cells = checked(layout)
    partitions = [[i for cell in slot for i in cell] for slot in cells]
    samples = sum(map(len, partitions))
    if rollouts is not None and not 1 <= rollouts <= samples:
        raise InvalidPlan(f"rollouts = {rollouts} is not from 1 to the {samples} samples; a rollout has at least one.")
    return {
        "partitions": partitions,
        "micro_batch_indices": [places(slot) for slot in cells],
        "num_microbatches": [len(cells[0])],
        "global_batch_sizes": [samples if rollouts is None else int(rollouts)],
    }


def slime_document(layout: Cells) -> dict[str, Any]:
    """Return the schedule with the order of samples over all slots and its inverse."""
    schedule = slime_schedule(layout)
    return schedule | with_inverse([i for samples in schedule["partitions"] for i in samples])
