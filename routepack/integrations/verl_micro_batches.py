"""In the place of ``verl.utils.seqlen_balancing.rearrange_micro_batches``."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from routepack.budget import Budget
from routepack.errors import Infeasible, InvalidInstance
from routepack.instance import Instance, Options
from routepack.planner import solve
from routepack.topology import Topology, positive
from routepack.window import Window

ROW_KEY = "routepack_row"


def rearrange_micro_batches(
    batch: Any,
    max_token_len: int,
    dp_group: Any = None,
    num_batches_divided_by: int | None = None,
    same_micro_num_in_dp: bool = True,
    min_num_micro_batch: int | None = None,
    use_dynamic_bsz_balance: bool = True,
    force_group_size: int = 1,
    *,
    select: Callable[[Any, list[int]], Any] | None = None,
) -> tuple[list[Any], list[list[int]]]:
    """
    Cut the part of one DP rank into micro-batches, as the function of the same name [1]_ does.

    If the batch carries what `routepack.integrations.verl.balance_batch` planned, and that plan meets cap and count on every rank of the
    group, its micro-batches are taken. Else each rank plans its own part by lengths, and ranks with fewer micro-batches than another plan
    again with as many.

    Parameters
    ----------
    batch
        A mapping with ``attention_mask`` or jagged ``input_ids`` whose samples are chosen by an index array.
    max_token_len
        Tokens that no micro-batch exceeds.
    dp_group, same_micro_num_in_dp
        Process group whose ranks get the same number of micro-batches; nothing is exchanged without one.
    num_batches_divided_by, min_num_micro_batch
        The number of micro-batches is a multiple of the one and no less than the other.
    use_dynamic_bsz_balance
        Small micro-batches stand at both ends, against bubbles in a pipeline; else the order of the plan.
    force_group_size
        So many neighbours share a micro-batch.
    select
        Takes the samples at these places out of a batch; indexing by an array if not given. Batches with jagged tensors need verl's own
        ``tensordict_utils.index_select_tensor_dict``.

    Returns
    -------
    tuple[list[Any], list[list[int]]]
        The micro-batches, and for each the places of its samples, for ``restore_dynamic_batch``.

    Raises
    ------
    Infeasible
        No micro-batches meet the cap and the count, on this rank or another of the group.

    References
    ----------
    .. [1] verl-project/verl, ``verl/utils/seqlen_balancing.py``, 0.9.1.
    """
    lengths = _lengths(batch)
    group = dp_group if same_micro_num_in_dp else None
    multiple, least = num_batches_divided_by or 1, min_num_micro_batch or 1
    places = _planned(batch, force_group_size)
    fits = bool(places) and len(places) % multiple == 0 and len(places) >= least
    fits = fits and max(sum(lengths[i] for i in own) for own in places) <= max_token_len
    unfit, most, fewest = _largest([int(not fits), len(places), -len(places)], group)
    if unfit or most != -fewest:
        places = _plan_here(lengths, max_token_len, group, multiple, least, force_group_size)
    if use_dynamic_bsz_balance:
        places = sorted(places, key=lambda own: (sum(lengths[i] for i in own), own))
        places = places[::2] + places[1::2][::-1]
    take = select or (lambda batch, own: batch[np.array(own)])
    return [take(batch, own) for own in places], places


def _planned(batch: Any, group_size: int) -> list[list[int]]:
    """Places of each micro-batch that the batch says, in order; none if it says nothing or splits a group."""
    if ROW_KEY not in batch.keys():  # noqa: SIM118 - a TensorDict does not take `in`
        return []
    found: dict[int, list[int]] = {}
    rows = [int(row) for row in batch[ROW_KEY].tolist()]
    for place, row in enumerate(rows):
        found.setdefault(row, []).append(place)
    if any(row != rows[place - place % group_size] for place, row in enumerate(rows)):
        return []
    return [found[row] for row in sorted(found)]


def _plan_here(lengths: Sequence[int], cap: int, group: Any, multiple: int, least: int, group_size: int) -> list[list[int]]:
    """Plan the part of this rank, and again where another rank of the group needs more micro-batches."""
    fault: Infeasible | None = None
    places: list[list[int]] = []
    instance = _instance(lengths, cap, multiple, group_size)
    try:
        places = _solve(instance, "min")
    except Infeasible as found:
        fault = found
    failed, count = _largest([int(fault is not None), max(len(places), -(-least // multiple) * multiple)], group)
    if not failed and count > len(places):
        try:
            places = _solve(instance, count)
        except Infeasible as found:
            fault = found
        failed = _largest([int(fault is not None)], group)[0]
    if fault is not None:
        raise fault
    if failed:  # every rank stops, so that none waits for another
        raise Infeasible("another rank of the group has no micro-batches within the cap", "raise the cap, or see the message of that rank")
    return places


def _instance(lengths: Sequence[int], cap: int, multiple: int, group_size: int) -> Instance:
    if len(lengths) % positive("force_group_size", group_size):
        raise InvalidInstance(f"force_group_size = {group_size} does not divide the {len(lengths)} samples; give whole groups.")
    tokens = np.array(lengths, dtype=np.int64)
    groups = tuple(tuple(range(k, k + group_size)) for k in range(0, len(lengths), group_size))
    demand = tokens.astype(np.int32)[:, None, None]
    return Instance(
        Window(tokens, demand),
        Topology(1, 1, 1),
        cap,
        row_multiple=multiple,
        options=Options(keep_together=groups if group_size > 1 else ()),
    )


def _solve(instance: Instance, rows: Any) -> list[list[int]]:
    """Take the packing: on one rank, by lengths alone, every layout costs the same."""
    return solve(instance, budget=Budget(attempts=0), backend="numpy", threads=1, rows=rows).layout[0]


def _largest(values: list[int], group: Any) -> list[int]:
    """Largest of each value over the ranks of a group; the values themselves without one."""
    if group is None:
        return values
    torch = import_module("torch")
    if not torch.distributed.is_initialized():
        return values
    device = "cuda" if torch.distributed.get_backend(group) == "nccl" else "cpu"
    tensor = torch.tensor(values, device=device)
    torch.distributed.all_reduce(tensor, op=torch.distributed.ReduceOp.MAX, group=group)
    return [int(x) for x in tensor.tolist()]


def _lengths(batch: Any) -> list[int]:
    ids = batch["input_ids"] if "input_ids" in batch.keys() else None  # noqa: SIM118
    if ids is not None and getattr(ids, "is_nested", False):
        return [int(t) for t in ids.offsets().diff().tolist()]
    return [int(t) for t in batch["attention_mask"].sum(-1).tolist()]
