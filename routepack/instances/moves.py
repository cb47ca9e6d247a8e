"""From one placement to the next: which expert moves from where to where, how many bytes that is, and in which rounds."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from routepack.errors import InvalidInstance
from routepack.instances.writers.expert_maps import checked_placement, slot_of_expert
from routepack.topology import positive

WEIGHT_BYTES = 2  # bf16
STATE_BYTES = 12  # fp32 master weight and two fp32 Adam moments


@dataclass(frozen=True, slots=True, order=True)
class Move:
    """
    One expert that changes rank.

    Parameters
    ----------
    layer, expert
        The layer's place among the MoE layers, and the logical expert.
    source, target
        EP rank now and next.
    source_slot, target_slot
        Its slot in each: numbered rank by rank, inside a rank by rising expert id.
    """

    layer: int
    expert: int
    source: int
    target: int
    source_slot: int
    target_slot: int

    def to_list(self) -> list[int]:
        """``[layer, expert, from, to]``."""
        return [self.layer, self.expert, self.source, self.target]


def list_moves(current: ArrayLike, placement: ArrayLike, num_ranks: int) -> list[Move]:
    """
    Experts that change rank, by layer and expert.

    Parameters
    ----------
    current, placement
        EP rank of each expert now and next, shape (L, E).
    num_ranks
        EP ranks P.

    Raises
    ------
    InvalidInstance
        Either is no placement, or their shapes differ.
    """
    before, after = checked_placement(current, num_ranks, "current_placement"), checked_placement(placement, num_ranks)
    if before.shape != after.shape:
        raise InvalidInstance(f"current_placement has shape {before.shape}, placement has {after.shape}; give both for one model.")
    old, new = slot_of_expert(before, num_ranks), slot_of_expert(after, num_ranks)
    places = np.argwhere(before != after).tolist()
    return [Move(layer, e, int(before[layer, e]), int(after[layer, e]), int(old[layer, e]), int(new[layer, e])) for layer, e in places]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of a list of moves: weights alone, and with gradients left out but master weights and moments in."""

    experts: int
    weight_bytes: int
    all_bytes: int


def traffic(
    moves: Sequence[Move], parameters: int, weight_bytes: int = WEIGHT_BYTES, state_bytes: int = STATE_BYTES, shards: int = 1
) -> Traffic:
    """
    Count the bytes that moves send over all ranks.

    Parameters
    ----------
    moves
        Experts that change rank.
    parameters
        Parameters of one expert: 3 * hidden * width for a gated one.
    weight_bytes, state_bytes
        Bytes of a parameter's weight, and of its master weight and optimizer moments.
    shards
        Physical EDP shards G. Each holds a copy of the weights and moves it; the sharded optimizer state moves once over all.
    """
    count = len(moves) * positive("parameters", parameters)
    weights = count * positive("weight_bytes", weight_bytes) * positive("shards", shards)
    return Traffic(len(moves), weights, weights + count * state_bytes)


def transfer_rounds(moves: Iterable[Move]) -> list[list[Move]]:
    """
    Deal moves out to rounds in which each rank sends at most one expert and receives at most one.

    Ranks as senders and ranks as receivers are the two sides of a bipartite multigraph, moves its edges, rounds a proper edge colouring. As
    many rounds as the busiest sender or receiver has moves are enough (König [1]_), and fewer never are. Each move in turn takes a colour
    free at both ends, once the alternating path of two colours that stands in the way is flipped.

    Returns
    -------
    list[list[Move]]
        Moves of each round.

    References
    ----------
    .. [1] König, D. (1916). Über Graphen und ihre Anwendung auf Determinantentheorie und Mengenlehre. *Mathematische Annalen* 77: 453-465.
    """
    edges = sorted(moves)
    ends = [(("send", move.source), ("receive", move.target)) for move in edges]
    degree = Counter(end for pair in ends for end in pair)
    rounds = max(degree.values(), default=0)
    edge_at: dict[tuple[str, int], list[int]] = {end: [-1] * rounds for end in degree}  # edge of each colour, -1 for none
    for edge, (sender, receiver) in enumerate(ends):
        free, other = edge_at[sender].index(-1), edge_at[receiver].index(-1)
        if edge_at[receiver][free] >= 0:
            _flip(edge_at, ends, receiver, free, other)
        edge_at[sender][free] = edge_at[receiver][free] = edge
    colour = {edge: c for end, at in edge_at.items() if end[0] == "send" for c, edge in enumerate(at) if edge >= 0}
    return [[move for edge, move in enumerate(edges) if colour[edge] == c] for c in range(rounds)]


def _flip(
    edge_at: dict[tuple[str, int], list[int]], ends: list[tuple[tuple[str, int], tuple[str, int]]], end: tuple[str, int], a: int, b: int
) -> None:
    """Exchange colours a and b along the path of edges a, b, a, ... that starts at an end without b; it never reaches one without a."""
    path, at, colour = [], end, a
    while (edge := edge_at[at][colour]) >= 0:
        path.append((edge, colour))
        at = ends[edge][0] if at == ends[edge][1] else ends[edge][1]
        colour = a + b - colour
    for edge, colour in path:
        for at in ends[edge]:
            if edge_at[at][colour] == edge:
                edge_at[at][colour] = -1
    for edge, colour in path:
        for at in ends[edge]:
            edge_at[at][a + b - colour] = edge


def spare_buffers(rounds: Sequence[Sequence[Move]]) -> int:
    """Expert buffers beyond its own slots that some rank needs, when a slot is free again only after the round that sends it."""
    held: Counter[int] = Counter()
    most = 0
    for moves in rounds:
        for move in moves:
            held[move.target] += 1
        most = max(most, max(held.values(), default=0))
        for move in moves:
            held[move.source] -= 1
    return most
