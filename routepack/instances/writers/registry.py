"""Every form that a plan can be written in, by name."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from routepack.errors import InvalidInstance
from routepack.instances.moves import list_moves, spare_buffers, traffic, transfer_rounds
from routepack.instances.writers import even_batches, expert_maps
from routepack.instances.writers.megatron import megatron_document
from routepack.instances.writers.nemo_rl import nemo_document
from routepack.instances.writers.order import permutation
from routepack.instances.writers.slime import slime_document
from routepack.instances.writers.trtllm import trtllm_yaml
from routepack.plan import Plan
from routepack.window import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Export:
    """
    A plan and what some forms need besides it.

    Parameters
    ----------
    plan
        Placement and layout.
    lengths
        Aligned tokens of each sample, shape (N,).
    moe_layers
        Model layer number of each MoE layer.
    model_layers
        Layers of the serving engine's map; dense ones get the identity.
    current
        Placement now, shape (L, E).
    cp
        Context-parallel ranks of a slot.
    parameters
        Parameters of one expert.
    shards
        Physical EDP shards.
    """

    plan: Plan
    lengths: Sequence[int] | None = None
    moe_layers: Sequence[int] | None = None
    model_layers: int | None = None
    current: IntArray | None = None
    cp: int = 1
    parameters: int | None = None
    shards: int = 1

    @property
    def num_ranks(self) -> int:
        """EP ranks: every rank holds experts, so the highest that is named is the last."""
        ranks = self.plan.placement.rank_of_expert
        return int(ranks.max()) + 1 if ranks.size else 0


def _sglang(export: Export) -> dict[str, Any]:
    slots = expert_maps.physical_to_logical_map(export.plan.placement.rank_of_expert, export.num_ranks)
    if export.model_layers is not None:
        numbers = export.moe_layers if export.moe_layers is not None else range(len(slots))
        slots = expert_maps.for_model_layers(slots, list(numbers), export.model_layers)
    return {"physical_to_logical_map": slots}


def _moves(export: Export) -> dict[str, Any]:
    if export.current is None:
        raise InvalidInstance("current_placement is missing; give --current-placement FILE or contiguous, or have it in the window.")
    moves = list_moves(export.current, export.plan.placement.rank_of_expert, export.num_ranks)
    rounds = transfer_rounds(moves)
    number = {move: n for n, move in enumerate(moves)}
    document: dict[str, Any] = {
        "moves": [move.to_list() for move in moves],
        "slots": [[move.source_slot, move.target_slot] for move in moves],
        "rounds": [[number[move] for move in part] for part in rounds],
        "spare_buffers": spare_buffers(rounds),
    }
    if export.parameters is not None:
        sent = traffic(moves, export.parameters, shards=export.shards)
        document |= {"weight_bytes": sent.weight_bytes, "all_bytes": sent.all_bytes}
    return document


def _ranks(export: Export) -> tuple[IntArray, int]:
    return export.plan.placement.rank_of_expert, export.num_ranks


FORMATS: dict[str, Callable[[Export], dict[str, Any] | str]] = {
    "slime": lambda x: slime_document(x.plan.layout.cells),
    "miles": lambda x: slime_document(x.plan.layout.cells),
    "verl": lambda x: even_batches.verl_batches(x.plan.layout.cells),
    "nemo-rl": lambda x: nemo_document(x.plan.layout.cells, x.lengths),
    "areal": lambda x: even_batches.areal_groups(x.plan.layout.cells),
    "skyrl": lambda x: even_batches.skyrl_batches(x.plan.layout.cells),
    "megatron": lambda x: megatron_document(x.plan.layout.cells, x.cp),
    "permutation": lambda x: permutation(x.plan.layout.cells),
    "eplb": lambda x: expert_maps.eplb_document(*_ranks(x)),
    "sglang": _sglang,
    "trtllm": lambda x: trtllm_yaml(*_ranks(x), x.moe_layers),
    "ascend": lambda x: {"placement_table": expert_maps.ascend_table(*_ranks(x))},
    "expert-to-ep-rank": lambda x: {"expert_to_ep_rank": expert_maps.expert_to_ep_rank(*_ranks(x))},
    "moves": _moves,
}


def text_of(name: str, export: Export) -> str:
    """
    Write a plan in one of the forms, as the text of a file.

    Raises
    ------
    InvalidInstance, InvalidPlan
        The form is unknown, lacks an input, or cannot take this plan.
    """
    if name not in FORMATS:
        raise InvalidInstance(f"format = {name!r} is unknown; choose {', '.join(FORMATS)}.")
    document = FORMATS[name](export)
    return document if isinstance(document, str) else json.dumps(document) + "\n"
