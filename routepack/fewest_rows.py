"""How many rows a plan has: the fewest that a packing reaches, filled, with the proof that fewer are impossible."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from routepack.bounds.rows import prove_cells
from routepack.budget import Budget
from routepack.certificate import WeightCertificate
from routepack.errors import Infeasible, InvalidInstance
from routepack.heuristics.equal_samples import pack_equal
from routepack.heuristics.packing import open_cells
from routepack.instance import Instance
from routepack.rows import settle
from routepack.window import IntArray

ROUNDS = 30  # of column generation: counted, not timed, so that the same window always has the same rows


@dataclass(frozen=True, slots=True)
class Rows:
    """
    A number of rows, a packing into them, and the weights that prove how many cells are needed.

    Parameters
    ----------
    count
        Rows R.
    packed
        Cell of each unit, shape (units,): any numbering of the R*S cells, or places where slots have equal sample counts.
    certificate
        Checked weights over units.
    """

    count: int
    packed: IntArray
    certificate: WeightCertificate


def decide_rows(instance: Instance, interrupted: Callable[[], bool] | None = None) -> Rows:
    """
    Find the fewest rows that a packing reaches, fill exactly their cells, and prove what can be proved about fewer.

    Parameters
    ----------
    instance
        The window, its cap and its slots.
    interrupted
        Asked during column generation; true makes do with what is proved.

    Raises
    ------
    Infeasible
        A unit exceeds the cap, or too few units exist for the cells of the rows.
    """
    lengths, slots, cap = instance.unit_lengths(), instance.topology.dp, instance.token_cap
    if instance.options.equal_samples:
        return _rows_of_equal_samples(instance, lengths)
    settled = settle(lengths, cap, slots, instance.row_multiple, Budget(attempts=ROUNDS, interrupted=interrupted or (lambda: False)))
    rows = instance.rows_for(settled.cells)
    if rows * slots > len(lengths):
        raise _too_few(instance, len(lengths), settled.certificate.cells, rows)
    return Rows(rows, open_cells(lengths, settled.cell_of_unit, rows * slots), settled.certificate)


def with_count(instance: Instance, fewest: Rows, count: int) -> Rows:
    """
    Pack the same window into another number of rows.

    Parameters
    ----------
    instance
        The window.
    fewest
        What `decide_rows` found for it.
    count
        Rows wanted.

    Raises
    ------
    InvalidInstance
        The number is no positive multiple of ``row_multiple``.
    Infeasible
        The tokens need more rows, no packing into so few is known, or too few units exist for so many.
    """
    lengths, slots, needed = instance.unit_lengths(), instance.topology.dp, instance.rows_for(fewest.certificate.cells)
    if count < 1 or count % instance.row_multiple:
        raise InvalidInstance(f"rows = {count} is no positive multiple of row_multiple = {instance.row_multiple}; give one.")
    if count < fewest.count:
        known = f"the tokens need {needed}" if count < needed else f"no packing into fewer than {fewest.count} is known"
        raise Infeasible(f"rows = {count} are too few: {known}", f"give {fewest.count} or more rows, or another token cap")
    if count * slots > len(lengths):
        raise Infeasible(
            f"rows = {count} have {count * slots} cells, but only {len(lengths)} samples or groups exist to fill them",
            f"give at most {len(lengths) // slots} rows",
            needs_cells=count * slots,
            has_samples=instance.window.num_samples,
        )
    if count == fewest.count:
        return fewest
    if not instance.options.equal_samples:
        return Rows(count, open_cells(lengths, fewest.packed, count * slots), fewest.certificate)
    packed = _equal(instance, lengths, count)
    if packed is None:
        raise Infeasible(f"rows = {count}: no layout with equal sample counts was found", "give fewer rows or allow unequal counts")
    return Rows(count, packed, fewest.certificate)


def _too_few(instance: Instance, units: int, cells: int, rows: int) -> Infeasible:
    needed, groups = rows * instance.topology.dp, len(instance.options.keep_together)
    what = f"{units} groups of samples that stay together" if groups else f"{units} samples"
    return Infeasible(
        f"the tokens need at least {cells} cells, so {rows} rows of {instance.topology.dp} slots = {needed} cells, "
        f"but only {what} exist to fill them",
        "use fewer slots, a smaller row_multiple, another token cap or more samples",
        cells_lower_bound=cells,
        needs_cells=needed,
        has_samples=instance.window.num_samples,
        has_groups=units if groups else None,
    )


def _rows_of_equal_samples(instance: Instance, lengths: IntArray) -> Rows:
    samples, slots = instance.window.num_samples, instance.topology.dp
    if samples % slots:
        raise Infeasible(
            f"equal_samples: {samples} samples do not divide by {slots} slots",
            "drop samples, change the slots or allow unequal counts",
            has_samples=samples,
        )
    certificate = prove_cells(lengths, instance.token_cap)
    rows = instance.rows_for(certificate.cells)
    if rows * slots > len(lengths):
        raise _too_few(instance, len(lengths), certificate.cells, rows)
    while rows * slots <= len(lengths):
        packed = _equal(instance, lengths, rows)
        if packed is not None:
            return Rows(rows, packed, certificate)
        rows += instance.row_multiple
    raise Infeasible(
        f"equal_samples: no layout with {samples // slots} samples on each of {slots} slots was found "
        f"under token_cap = {instance.token_cap}",
        "raise the cap or allow unequal counts",
        cells_lower_bound=certificate.cells,
        has_samples=samples,
    )


def _equal(instance: Instance, lengths: IntArray, rows: int) -> IntArray | None:
    """Pack with equal sample counts; cell of each unit by place, shape (units,)."""
    sizes = instance.per_unit(np.ones(instance.window.num_samples, dtype=np.int64))
    packed = pack_equal(lengths, sizes, instance.topology.dp, rows, instance.token_cap)
    if packed is None:
        return None
    slot, row = np.divmod(packed, rows)
    shard, d = np.divmod(slot, instance.topology.slots_per_shard)
    return (shard * rows + row) * instance.topology.slots_per_shard + d
