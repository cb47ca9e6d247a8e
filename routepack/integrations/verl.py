"""In the place of verl's ``RayPPOTrainer._balance_batch`` and ``rearrange_micro_batches``; the second has a module of its own."""

from collections.abc import MutableMapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from routepack.budget import Budget
from routepack.cost_model import CostModel
from routepack.errors import InvalidInstance
from routepack.instance import Instance, Options
from routepack.instances.writers.even_batches import verl_batches
from routepack.integrations.demand import demand_or_lengths
from routepack.integrations.verl_micro_batches import ROW_KEY, rearrange_micro_batches
from routepack.planner import solve
from routepack.topology import Topology, positive
from routepack.window import Window, integer_array

__all__ = ["ROW_KEY", "balance_batch", "plan_batch", "rearrange_micro_batches"]

DEFAULT_SECONDS = 0.5  # of the batch: with verification the call stays under one second


def plan_batch(
    lengths: ArrayLike,
    topology: Topology,
    token_cap: int,
    *,
    demand: ArrayLike | None = None,
    placement: ArrayLike | None = None,
    mini_batch_size: int | None = None,
    row_multiple: int = 1,
    cost: CostModel | None = None,
    seconds: float | None = None,
    attempts: int | None = None,
    **search: Any,
) -> tuple[list[int], list[int]]:
    """
    Order a batch so that its equal parts, one for each DP rank, are balanced, and say which micro-batch each sample belongs to.

    Parameters
    ----------
    lengths
        Tokens of each sample, shape (N,).
    topology
        DP ranks, EP ranks and EDP shards.
    token_cap
        Tokens of a micro-batch on one DP rank, its sequence-parallel ranks together.
    demand
        Token-slots of each sample for each expert, shape (N, L, E). Without it only lengths count.
    placement
        EP rank of each expert as the trainer has it, shape (L, E); contiguous if not given. Experts do not move.
    mini_batch_size
        Samples of a mini-batch over all ranks; each is planned by itself. The whole batch if not given.
    row_multiple
        Micro-batches of a rank come in a multiple of this.
    cost
        Attention against expert work.
    seconds, attempts
        Budget of the batch, 0.5 seconds if neither is given, or of each mini-batch in proposals for the same order in every run.
    search
        Other arguments of `routepack.solve`.

    Returns
    -------
    tuple[list[int], list[int]]
        The order for ``DataProto.reorder``: rank by rank, inside a rank mini-batch by mini-batch. And, in that order, the number of each
        sample's micro-batch, counted from 0 in each rank.

    Raises
    ------
    Infeasible
        A mini-batch has no plan, with reason and remedy.
    InvalidInstance
        Arrays do not fit, or mini-batches do not divide the batch.
    """
    tokens = integer_array("lengths", lengths, np.int64, 1, 1, (1 << 31) - 1)
    size = len(tokens) if mini_batch_size is None else positive("mini_batch_size", mini_batch_size)
    if len(tokens) % size:
        raise InvalidInstance(f"mini_batch_size = {size} does not divide the {len(tokens)} samples; give whole mini-batches.")
    counts, now, topology = demand_or_lengths(demand, placement, tokens, topology)
    if seconds is None and attempts is None:
        seconds = DEFAULT_SECONDS
    orders: list[list[int]] = [[] for _ in range(topology.dp)]
    rows: list[list[int]] = [[] for _ in range(topology.dp)]
    done = 0
    for start in range(0, len(tokens), size):
        part = slice(start, start + size)
        instance = Instance(
            Window(tokens[part], counts[part]),
            topology,
            token_cap,
            row_multiple=row_multiple,
            cost=cost or CostModel(),
            options=Options(equal_samples=True),
            current_placement=now,  # type: ignore[arg-type]
        )
        budget = Budget(None if seconds is None else seconds * size / len(tokens), attempts)
        result = solve(instance, budget=budget, max_moves=0, **search)
        order = verl_batches(result.layout)["permutation"]
        for d, slot in enumerate(result.layout):
            share = len(order) // topology.dp
            orders[d].extend(start + i for i in order[d * share : (d + 1) * share])
            rows[d].extend(done + r for r, cell in enumerate(slot) for _ in cell)
        done += len(result.layout[0])
    return [i for own in orders for i in own], [r for own in rows for r in own]


def balance_batch(
    self: Any,
    batch: Any,
    metrics: MutableMapping[str, Any],
    logging_prefix: str = "global_seqlen",
    keep_minibatch: bool = False,
    *,
    demand: ArrayLike | None = None,
    **options: Any,
) -> None:
    """
    Reorder the batch on the controller, in place, as ``RayPPOTrainer._balance_batch`` [1]_ does; assign it to that name.

    The order balances mini-batches, and the micro-batch of each sample goes along in ``batch.batch["routepack_row"]``, where
    `rearrange_micro_batches` finds it.

    Parameters
    ----------
    self
        The trainer: its configuration names the cap, the parallel sizes and the mini-batch.
    batch
        A ``DataProto`` with ``attention_mask``; reordered in place.
    metrics
        Gets the least, the most and the spread of tokens over ranks, before and after, under the names that verl uses.
    logging_prefix
        Of these names.
    keep_minibatch
        Plan each mini-batch by itself, as the trainer will cut them; else the batch as a whole.
    demand
        Token-slots of each sample for each expert, shape (N, L, E), such as a reader of ``batch.batch["routed_experts"]`` counts.
    options
        Further arguments of `plan_batch`.

    References
    ----------
    .. [1] verl-project/verl, ``verl/trainer/ppo/ray_trainer.py``, 0.9.1.
    """
    mask = batch.batch["attention_mask"]
    lengths = [int(t) for t in mask.reshape(mask.shape[0], -1).sum(-1).tolist()]
    actor = self.config.actor_rollout_ref.actor
    topology = _topology(actor, int(self._get_dp_size(self.actor_rollout_wg, "actor")))
    cap = int(actor.get("ppo_max_token_len_per_gpu")) * _sequence_ranks(actor)
    size = actor.get("ppo_mini_batch_size") if keep_minibatch else None
    order, rows = plan_batch(lengths, topology, cap, demand=demand, mini_batch_size=size, **options)
    index = mask.new_tensor(order).long()
    batch.reorder(index)
    batch.batch[ROW_KEY] = mask.new_tensor(rows).long()
    metrics.update(_balance(lengths, order, topology.dp, logging_prefix))


def _engine(actor: Any) -> Any:
    return actor.get("megatron") or {}


def _sequence_ranks(actor: Any) -> int:
    """Ranks that share one micro-batch: context parallel ranks of Megatron, or those of Ulysses."""
    return int(_engine(actor).get("context_parallel_size") or actor.get("ulysses_sequence_parallel_size") or 1)


def _topology(actor: Any, dp: int) -> Topology:
    """Fold the sizes of a Megatron actor; any other has no expert parallelism."""
    engine = _engine(actor)
    tp, cp, ep = (int(engine.get(f"{name}_parallel_size") or 1) for name in ("tensor_model", "context", "expert_model"))
    etp = engine.get("expert_tensor_parallel_size")
    return Topology.from_trainer(dp * tp * cp, tp=tp, cp=cp, ep=ep, etp=None if etp is None else int(etp))


def _balance(lengths: Sequence[int], order: Sequence[int], dp: int, prefix: str) -> dict[str, float]:
    """Tokens of each rank before and after the new order."""
    share = len(lengths) // dp
    before = [sum(lengths[d * share : (d + 1) * share]) for d in range(dp)]
    after = [sum(lengths[i] for i in order[d * share : (d + 1) * share]) for d in range(dp)]
    return {
        f"{prefix}/min": min(before),
        f"{prefix}/max": max(before),
        f"{prefix}/minmax_diff": max(before) - min(before),
        f"{prefix}/balanced_min": min(after),
        f"{prefix}/balanced_max": max(after),
        f"{prefix}/mean": sum(lengths) / dp,
    }
