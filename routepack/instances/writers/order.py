"""The order of samples that a layout asks for, its inverse, and what every writer of layouts checks."""

from collections.abc import Sequence
from typing import Any

from routepack.errors import InvalidPlan
from routepack.topology import positive

Cells = Sequence[Sequence[Sequence[int]]]
Rows = list[list[list[int]]]


def checked(layout: Cells) -> Rows:
    """
    Copy a layout as plain integers, ``[slot][row] -> samples``.

    Raises
    ------
    InvalidPlan
        A cell is empty, slots differ in their rows, or the samples are not 0 to N-1, each once.
    """
    cells = [[[int(i) for i in cell] for cell in slot] for slot in layout]
    if not cells or not cells[0]:
        raise InvalidPlan("layout has no cell; give [slot][row] -> samples.")
    seen: set[int] = set()
    for d, slot in enumerate(cells):
        if len(slot) != len(cells[0]):
            raise InvalidPlan(f"layout[{d}] has {len(slot)} rows, layout[0] has {len(cells[0])}; every slot runs the same number.")
        for r, cell in enumerate(slot):
            if not cell:
                raise InvalidPlan(f"layout[{d}][{r}] is empty; every slot needs a sample in each row.")
            for i in cell:
                if i in seen:
                    raise InvalidPlan(f"layout[{d}][{r}] names sample {i} a second time; a sample is in one cell.")
                seen.add(i)
    if min(seen) < 0 or max(seen) >= len(seen):
        wrong = min(seen) if min(seen) < 0 else max(seen)
        raise InvalidPlan(f"layout names sample {wrong} among {len(seen)} samples; number them from 0 without gaps.")
    return cells


def even(layout: Cells) -> Rows:
    """
    Check a layout for a trainer that cuts the batch into equal parts, one for each slot.

    Raises
    ------
    InvalidPlan
        Slots hold different numbers of samples, or as `checked`.
    """
    cells = checked(layout)
    sizes = [sum(map(len, slot)) for slot in cells]
    for d, size in enumerate(sizes):
        if size != sizes[0]:
            raise InvalidPlan(
                f"layout[{d}] holds {size} samples, layout[0] holds {sizes[0]}, but the trainer cuts the batch evenly; "
                "plan with equal_samples (routepack solve --equal-samples)."
            )
    return cells


def inverse_of(order: Sequence[int]) -> list[int]:
    """Place of each sample in an order, for putting results back: ``results[inverse[i]]`` belongs to sample i."""
    inverse = [0] * len(order)
    for place, i in enumerate(order):
        inverse[i] = place
    return inverse


def with_inverse(order: list[int]) -> dict[str, Any]:
    """Return an order and its inverse under the names that every export uses."""
    return {"permutation": order, "inverse": inverse_of(order)}


def permutation(layout: Cells) -> dict[str, Any]:
    """
    Order of the batch for a trainer that cuts it into equal contiguous parts: slot by slot, row by row.

    Raises
    ------
    InvalidPlan
        As `even`.
    """
    return with_inverse([i for slot in even(layout) for cell in slot for i in cell])


def places(slot: Sequence[Sequence[int]]) -> list[list[int]]:
    """Places of each row in the slot's own list of samples, which they tile in order."""
    found, start = [], 0
    for cell in slot:
        found.append(list(range(start, start + len(cell))))
        start += len(cell)
    return found


def aligned_offsets(lengths: Sequence[int], multiple: int = 1) -> list[int]:
    """
    Where each sample of a packed row starts, and where the last one ends: sums of aligned lengths.

    Parameters
    ----------
    lengths
        Real tokens of the samples of one row, in order.
    multiple
        Trainers pad each sample to a multiple of this many tokens.
    """
    multiple = positive("multiple", multiple)
    offsets = [0]
    for k, length in enumerate(lengths):
        offsets.append(offsets[-1] + -(-positive(f"lengths[{k}]", length) // multiple) * multiple)
    return offsets
