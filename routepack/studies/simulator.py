"""
A discrete-event replay of one optimizer step under a plan, in ticks.

Each row is a microbatch of every DP slot. Inside a row-shard the layers run one after another: attention, one barrier for each kind of
stage, then the experts, with a barrier of their own, so a phase lasts as long as its busiest slot or rank. Shards do not wait for one
another before the step's end, or do so in each row (``sync="row"``). Forward and backward of a row are one pass on one pipeline stage;
with more stages they follow one another as in 1F1B, the backward taking two thirds.

A stage kind's attention is spread over the MoE layers as evenly as whole ticks allow, since a cost model states it for the whole model.
Work outside attention and experts, and the step's closing all-reduce, are not modelled.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from routepack.cost import attention_ticks
from routepack.errors import InvalidInstance
from routepack.instance import Instance, Sync
from routepack.plan import Plan
from routepack.topology import positive
from routepack.window import IntArray

MAX_DISPATCH = 1e6
Kind = Literal["row", "forward", "backward"]


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """
    What the slots and ranks of each row-shard have to do.

    Parameters
    ----------
    attention
        Ticks of each slot in each stage kind, shape (R, G, D, kinds).
    expert
        Token-slots of each EP rank in each layer, shape (R, G, L, P).
    sent
        Token-slots that each slot sends in each layer, shape (R, G, L, D).
    """

    attention: IntArray
    expert: IntArray
    sent: IntArray

    @classmethod
    def of(cls, instance: Instance, plan: Plan) -> "Workload":
        """Sum ticks and demand over the cells of a verified plan."""
        topology, demand = instance.topology, instance.window.demand
        rows, shards, layers = plan.layout.num_rows, topology.num_shards, instance.window.num_layers
        ticks = attention_ticks(instance)
        attention = np.zeros((rows, shards, topology.slots_per_shard, ticks.shape[1]), dtype=np.int64)
        expert = np.zeros((rows, shards, layers, topology.ep), dtype=np.int64)
        sent = np.zeros((rows, shards, layers, topology.slots_per_shard), dtype=np.int64)
        for r, g, cells in plan.layout.row_shards(topology):
            routed = np.stack([demand[list(cell)].sum(axis=0, dtype=np.int64) for cell in cells])  # (slot, layer, expert)
            attention[r, g] = np.stack([ticks[list(cell)].sum(axis=0) for cell in cells])
            expert[r, g] = plan.placement.project(routed.sum(axis=0), topology.ep)
            sent[r, g] = routed.sum(axis=2).T
        return cls(attention, expert, sent)


class Span(NamedTuple):
    """One row on one pipeline stage of one shard, from ``start`` to ``end`` in ticks."""

    stage: int
    shard: int
    row: int
    kind: Kind
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Phases:
    """
    How long the phases of each row-shard last, layer by layer, and what they keep busy.

    Parameters
    ----------
    attention
        Ticks of each stage kind, shape (R, G, L, kinds).
    dispatch
        Ticks of the all-to-all before, and again after, the experts, shape (R, G, L).
    expert
        Ticks of the experts, shape (R, G, L).
    busy
        Ticks that each rank of a shard works on attention and on experts, shape (2, R, G, L, ranks).
    """

    attention: IntArray
    dispatch: IntArray
    expert: IntArray
    busy: IntArray

    @property
    def layers(self) -> IntArray:
        """Ticks of each layer, shape (R, G, L)."""
        total: IntArray = self.attention.sum(axis=3) + 2 * self.dispatch + self.expert
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """
    What a replay shows.

    Parameters
    ----------
    time
        Ticks from the first row to the end of the slowest shard.
    spans
        Every row of every shard on every pipeline stage, by start.
    busy
        Ticks that each rank works, shape (pp, G, ranks of a shard).
    tokens
        Tokens of the window.
    phases
        What the rows consist of.
    """

    time: int
    spans: tuple[Span, ...]
    busy: IntArray
    tokens: int
    phases: Phases

    @property
    def idle_share(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """Share of the time that each rank waits or communicates, shape (pp, G, ranks of a shard)."""
        return 1.0 - self.busy / self.time if self.time else np.zeros(self.busy.shape)

    @property
    def tokens_per_tick(self) -> float | None:
        """Tokens of the window per tick; ``None`` for a step without work."""
        return self.tokens / self.time if self.time else None

    @property
    def num_stages(self) -> int:
        """Pipeline stages."""
        return int(self.busy.shape[0])


def simulate(instance: Instance, plan: Plan, *, pp: int = 1, dispatch: float = 0.0) -> Replay:
    """
    Replay a step under a verified plan.

    Without dispatch cost and with ``pp = 1`` the time is the first component of the score, exactly.

    Parameters
    ----------
    instance
        What was planned; its ``sync`` says when shards meet.
    plan
        The decisions.
    pp
        Pipeline stages, each with an equal run of the MoE layers.
    dispatch
        Ticks that one token-slot costs its sender or receiver, the busiest of which a layer waits for before and after its experts.

    Raises
    ------
    InvalidInstance
        ``pp`` is no size or exceeds the layers, or ``dispatch`` is no cost.

    References
    ----------
    .. [1] Narayanan, D., et al. (2021). Efficient large-scale language model training on GPU clusters using Megatron-LM. *SC '21*.
       DOI 10.1145/3458817.3476209 (the 1F1B schedule).
    """
    stages, layers = positive("pp", pp), instance.window.num_layers
    if stages > layers:
        raise InvalidInstance(f"pp = {stages} exceeds the {layers} MoE layers; give each pipeline stage at least one.")
    if not 0 <= dispatch <= MAX_DISPATCH:
        raise InvalidInstance(f"dispatch = {dispatch} is outside [0, {MAX_DISPATCH:g}]; give the ticks of one token-slot.")
    phases = _phases(instance, Workload.of(instance, plan), dispatch)
    first = [k * layers // stages for k in range(stages)]  # first layer of each stage
    durations: IntArray = np.add.reduceat(phases.layers, first, axis=2)  # (row, shard, stage)
    busy = np.add.reduceat(phases.busy.sum(axis=(0, 1)), first, axis=1)  # (shard, stage, rank)
    spans = _run(durations, instance.options.sync)
    time = max(span.end for span in spans)
    return Replay(time, spans, busy.transpose(1, 0, 2), int(instance.window.lengths.sum()), phases)


def _phases(instance: Instance, work: Workload, dispatch: float) -> Phases:
    topology = instance.topology
    parts, layers = topology.parts_per_slot, instance.window.num_layers
    peaks = work.expert.max(axis=3)  # (row, shard, layer)
    expert = _whole_steps(-(-np.cumsum(peaks, axis=2) // parts), axis=2)
    slowest = work.attention.max(axis=2)  # (row, shard, kind)
    until = np.arange(1, layers + 1)[:, None] * slowest[:, :, None] // layers  # (row, shard, layer, kind): ends are whole ticks
    attention = _whole_steps(until, axis=2)
    ranks = math.lcm(topology.slots_per_shard, topology.ep)
    slot_of_rank = np.arange(ranks) * topology.slots_per_shard // ranks
    # a slot with less to do is busy in proportion; the slowest one always
    scale = work.attention[:, :, None] / np.maximum(slowest, 1)[:, :, None, None]  # (row, shard, 1, slot, kind)
    at_work = _whole_steps(np.rint(until[:, :, :, None] * scale).astype(np.int64), axis=2).sum(axis=4)  # (row, shard, layer, slot)
    computing = work.expert * expert[..., None] // np.maximum(peaks, 1)[..., None]  # (row, shard, layer, EP rank)
    busy = np.stack([at_work[..., slot_of_rank], computing[..., np.arange(ranks) * topology.ep // ranks]])
    sent = work.sent.max(axis=3) * topology.slots_per_shard / topology.ep  # in token-slots of an EP rank
    return Phases(attention, np.ceil(dispatch * np.maximum(peaks, sent) / parts).astype(np.int64), expert, busy)


def _whole_steps(ends: IntArray, axis: int) -> IntArray:
    steps: IntArray = np.diff(ends, axis=axis, prepend=0)
    return steps


def _order(stage: int, stages: int, rows: int) -> list[tuple[Kind, int]]:
    """Passes of a pipeline stage in the order of 1F1B: enough forwards to fill the stages behind, then in turn, then the last backwards."""
    if stages == 1:
        return [("row", r) for r in range(rows)]
    ahead = min(stages - stage - 1, rows)
    order: list[tuple[Kind, int]] = [("forward", r) for r in range(ahead)]
    for r in range(rows):
        order += [("forward", r + ahead)] if r + ahead < rows else []
        order.append(("backward", r))
    return order


def _run(durations: IntArray, sync: Sync) -> tuple[Span, ...]:
    """Start every pass as soon as its stage is free and what it needs is there; durations have shape (R, G, stages)."""
    rows, shards, stages = durations.shape
    queues = [_order(k, stages, rows) for k in range(stages)]
    done: dict[tuple[int, Kind, int], IntArray] = {}  # (stage, kind, row) -> end in each shard
    free = np.zeros((stages, shards), dtype=np.int64)
    at = [0] * stages
    spans = []
    while any(n < len(queue) for n, queue in zip(at, queues, strict=True)):
        for k in range(stages):
            while at[k] < len(queues[k]):
                kind, r = queues[k][at[k]]
                before = k - 1 if kind == "forward" else k + 1
                needed = done.get((before, kind, r)) if 0 <= before < stages else free[k]
                if needed is None:
                    break  # the other stage has not come so far
                start = np.maximum(free[k], needed)
                if sync == "row":
                    start = np.full_like(start, start.max())
                whole = durations[r, :, k]
                end = start + {"row": whole, "forward": whole // 3, "backward": whole - whole // 3}[kind]
                done[k, kind, r] = free[k] = end
                spans += [Span(k, g, r, kind, int(start[g]), int(end[g])) for g in range(shards)]
                at[k] += 1
    return tuple(sorted(spans, key=lambda span: (span.start, span.stage, span.shard)))
