"""Loads without sample boundaries: enough to place experts, not to lay samples out."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from routepack.errors import InvalidInstance
from routepack.instances.readers.counter import SampleFacts
from routepack.instances.readers.model_shape import ModelShape
from routepack.window import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Loads:
    """
    Token-slots of each expert over many tokens.

    Parameters
    ----------
    tokens
        Tokens that were counted.
    counts
        Shape (L, E).
    facts
        What was found on the way.
    """

    tokens: int
    counts: IntArray
    facts: SampleFacts = field(default_factory=SampleFacts)


def checked(counts: IntArray, model: ModelShape, tokens: int | None, repeated: IntArray | None = None) -> Loads:
    """
    Check that every MoE layer adds up to the same tokens.

    Parameters
    ----------
    counts
        Shape (L, E).
    model
        Its top-k is how often a token counts in a layer.
    tokens
        Tokens that went in, where they are known.
    repeated
        Choices left out of the counts because the token had named the expert already, by layer; shape (L,).

    Raises
    ------
    InvalidInstance
        A layer holds fewer or more token-slots than the tokens have.
    """
    left_out = np.zeros(len(counts), dtype=np.int64) if repeated is None else repeated
    slots = counts.sum(axis=1) + left_out  # (layer,)
    wanted = int(slots.max()) if tokens is None else tokens * model.top_k
    if not wanted or wanted % model.top_k:
        raise InvalidInstance(
            f"counts add up to {wanted} in a layer, no whole number of tokens with {model.top_k} choices; check the model."
        )
    wrong = np.flatnonzero(slots != wanted)
    if len(wrong):
        layer = model.moe_layers[wrong[0]]
        raise InvalidInstance(
            f"counts of layer {layer} add up to {slots[wrong[0]]}, not to {wanted} = {wanted // model.top_k} tokens * {model.top_k}; "
            "the recorder lost tokens, record again with a larger buffer."
        )
    facts = SampleFacts(rows_counted=wanted // model.top_k, repeated_choices=int(left_out.sum()))
    return Loads(wanted // model.top_k, counts, facts)


def add_tokens(ids: NDArray[np.int64], counts: IntArray) -> int:
    """
    Add chosen experts of one layer to its counts, an expert once a token.

    Parameters
    ----------
    ids
        Expert ids from 0 to E-1, shape (tokens, k).
    counts
        Shape (E,).

    Returns
    -------
    int
        Repeated choices, which were left out.
    """
    ordered = np.sort(ids, axis=1)
    first = np.ones(ordered.shape, dtype=bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    counts += np.bincount(ordered[first], minlength=len(counts))
    return int(first.size - first.sum())
