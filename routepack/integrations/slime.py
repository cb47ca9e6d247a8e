"""In the place of ``slime.utils.dp_schedule.build_dp_schedule`` (slime, miles)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routepack.budget import Budget
from routepack.cost_model import CostModel, Stage
from routepack.errors import InvalidInstance
from routepack.instance import Instance, Options
from routepack.instances.presets import grouped_query
from routepack.instances.writers.slime import slime_schedule
from routepack.integrations.demand import demand_or_lengths
from routepack.planner import solve
from routepack.topology import Topology, positive
from routepack.window import Window, integer_array

Schedule = tuple[list[list[int]], list[list[list[int]]], list[int], list[int]]
DEFAULT_SECONDS = 0.5  # of all steps together: with verification the call stays under one second


def build_dp_schedule(
    args: Any,
    train_parallel_config: Mapping[str, Any],
    total_lengths: Sequence[int],
    *,
    global_batch_size: int,
    rollout_indices: Sequence[int] | None = None,
    sample_is_multimodal: Sequence[bool] | None = None,
    demand: ArrayLike | None = None,
    placement: ArrayLike | None = None,
    cost: CostModel | None = None,
    seconds: float | None = None,
    attempts: int | None = None,
    **search: Any,
) -> Schedule:
    """
    Compute the samples of each DP rank and its micro-batches, as the function of the same name [1]_ does.

    Rollouts are cut into steps of ``global_batch_size`` in order of appearance, the samples of one stay in one step, and trailing rollouts
    that fill no step are dropped. Each step is planned with the fewest micro-batches; a sample over the cap lies alone in one. Experts stay
    where they are: only samples are laid out.

    Parameters
    ----------
    args
        The trainer's arguments: ``use_dynamic_batch_size``, ``max_tokens_per_gpu``, and where present ``packing_safety_margin``, the sizes
        ``tensor_model_parallel_size``, ``expert_model_parallel_size`` and ``expert_tensor_parallel_size``, and the model's sizes.
    train_parallel_config
        ``dp_size``, ``cp_size``, ``vpp_size``, ``microbatch_group_size_per_vp_stage``.
    total_lengths
        Tokens of each sample.
    global_batch_size
        Rollouts in a step.
    rollout_indices
        Rollout of each sample; one each if not given.
    sample_is_multimodal
        Accepted as long as samples of both kinds may share a micro-batch.
    demand
        Token-slots of each sample for each expert, shape (N, L, E). Without it only lengths count.
    placement
        EP rank of each expert as the trainer has it, shape (L, E); contiguous if not given.
    cost
        Attention against expert work; from the model's sizes in ``args`` if they are there.
    seconds, attempts
        Budget of all steps together, 0.5 seconds if neither is given, or of each step in proposals for the same schedule in every run.
    search
        Other arguments of `routepack.solve`.

    Returns
    -------
    Schedule
        ``partitions``, ``micro_batch_indices``, ``num_microbatches``, ``global_batch_sizes``.

    Raises
    ------
    Infeasible
        A step has too few samples for its micro-batches, with reason and remedy.
    InvalidInstance
        A setting is not supported, or arrays do not fit.

    References
    ----------
    .. [1] THUDM/slime, ``slime/utils/dp_schedule.py``, 624b824a8.
    """
    lengths = integer_array("total_lengths", list(total_lengths), np.int64, 1, 1, (1 << 31) - 1)
    _check(args, lengths, sample_is_multimodal)
    steps = _steps(range(len(lengths)) if rollout_indices is None else rollout_indices, len(lengths), global_batch_size)
    topology = _topology(args, train_parallel_config)
    counts, now, topology = demand_or_lengths(demand, placement, lengths, topology)
    cap = max(1, int(args.max_tokens_per_gpu * train_parallel_config["cp_size"] * getattr(args, "packing_safety_margin", 1.0)))
    multiple = train_parallel_config["microbatch_group_size_per_vp_stage"] if (train_parallel_config["vpp_size"] or 1) > 1 else 1
    if seconds is None and attempts is None:
        seconds = DEFAULT_SECONDS
    budgets = None if seconds is None else seconds / len(steps)

    partitions: list[list[int]] = [[] for _ in range(topology.dp)]
    rows: list[list[list[int]]] = [[] for _ in range(topology.dp)]
    schedule: Schedule = (partitions, rows, [], [])
    for samples, rollouts in steps:
        instance = Instance(
            Window(lengths[samples], counts[samples]),
            topology,
            cap,
            row_multiple=multiple,
            cost=cost or _cost(args),
            options=Options(oversize="own_row"),
            current_placement=now,  # type: ignore[arg-type]
        )
        result = solve(instance, budget=Budget(budgets, attempts), max_moves=0, **search)
        _append(schedule, slime_schedule(result.layout, rollouts), samples)
    return schedule


def _append(schedule: Schedule, step: dict[str, Any], samples: Sequence[int]) -> None:
    """Add a step, whose samples are numbered from 0, to the lists of all steps."""
    partitions, rows, counts, sizes = schedule
    for d, own in enumerate(step["partitions"]):
        shift = len(partitions[d])
        partitions[d].extend(samples[i] for i in own)
        rows[d].extend([shift + k for k in row] for row in step["micro_batch_indices"][d])
    counts.extend(step["num_microbatches"])
    sizes.extend(step["global_batch_sizes"])


def _check(args: Any, lengths: NDArray[np.int64], multimodal: Sequence[bool] | None) -> None:
    if not args.use_dynamic_batch_size or args.max_tokens_per_gpu is None:
        raise InvalidInstance("use_dynamic_batch_size is off; set it and max_tokens_per_gpu, or keep the trainer's own schedule.")
    if getattr(args, "global_batch_tokens", None) is not None:
        raise InvalidInstance("global_batch_tokens is set; steps of a token budget are not planned, give global_batch_size.")
    if multimodal is not None and any(multimodal) and getattr(args, "multimodal_aware_packing", "off") != "off":
        raise InvalidInstance("multimodal_aware_packing keeps kinds of samples apart, which is not planned; set it to off.")
    if multimodal is not None and len(multimodal) != len(lengths):
        raise InvalidInstance(f"sample_is_multimodal has {len(multimodal)} entries for {len(lengths)} samples; give one for each.")


def _steps(rollouts: Sequence[int], samples: int, size: int) -> list[tuple[list[int], int]]:
    """Samples and rollouts of each step."""
    if len(rollouts) != samples:
        raise InvalidInstance(f"rollout_indices has {len(rollouts)} entries for {samples} samples; give one for each.")
    size = positive("global_batch_size", size)
    members: dict[int, list[int]] = {}
    for i, rollout in enumerate(rollouts):
        members.setdefault(int(rollout), []).append(i)
    groups = list(members.values())
    if len(groups) < size:
        raise InvalidInstance(f"rollout_indices name {len(groups)} rollouts, fewer than global_batch_size = {size}; give a whole step.")
    steps = [groups[k * size : (k + 1) * size] for k in range(len(groups) // size)]
    return [([i for group in step for i in group], len(step)) for step in steps]


def _topology(args: Any, config: Mapping[str, Any]) -> Topology:
    tp = int(getattr(args, "tensor_model_parallel_size", None) or 1)
    ep = int(getattr(args, "expert_model_parallel_size", None) or 1)
    etp = getattr(args, "expert_tensor_parallel_size", None)
    stage = int(config["dp_size"]) * int(config["cp_size"]) * tp
    return Topology.from_trainer(stage, tp=tp, cp=int(config["cp_size"]), ep=ep, etp=None if etp is None else int(etp))


def _cost(args: Any) -> CostModel:
    """Cost of full attention from the model's sizes; the default where they are not given or attention is of another kind."""
    names = ("num_layers", "hidden_size", "num_attention_heads")
    layers, hidden, heads = (getattr(args, name, None) for name in names)
    if not (layers and hidden and heads) or getattr(args, "multi_latent_attention", False):
        return CostModel()
    groups = getattr(args, "num_query_groups", None) or heads
    attention = grouped_query(layers, hidden, heads, groups, getattr(args, "kv_channels", None) or hidden // heads)
    return CostModel(stages=(Stage(attention.name, layers * attention.linear, layers * attention.quadratic),))
