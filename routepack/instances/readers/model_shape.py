"""What a reader must know of the model: its layers, its experts, and how many a token chooses."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from routepack.errors import InvalidInstance
from routepack.instances.instance_form import MAX_EXPERTS, MAX_LAYERS
from routepack.instances.presets import Preset
from routepack.topology import positive
from routepack.window import IntArray, integer_array


@dataclass(frozen=True, slots=True, eq=False)
class ModelShape:
    """
    Sizes that routes are read by.

    Parameters
    ----------
    num_layers
        Hidden layers of the model, dense ones included.
    moe_layers
        Numbers of the MoE layers among them, rising, shape (L,).
    experts, top_k
        Experts E of a layer, and how many a token chooses.

    Raises
    ------
    InvalidInstance
        The sizes contradict each other.
    """

    num_layers: int
    moe_layers: IntArray
    experts: int
    top_k: int

    def __post_init__(self) -> None:
        limits = {"num_layers": MAX_LAYERS, "experts": MAX_EXPERTS, "top_k": self.experts}
        for key, limit in limits.items():
            size = positive(key, getattr(self, key))
            if size > limit:
                raise InvalidInstance(f"{key} = {size} exceeds {limit}; check the model.")
            object.__setattr__(self, key, size)
        layers = integer_array("moe_layers", self.moe_layers, np.int64, 1, 0, self.num_layers - 1)
        if not len(layers) or (layers[1:] <= layers[:-1]).any():
            raise InvalidInstance("moe_layers is empty or does not rise; name each MoE layer once, in order.")
        object.__setattr__(self, "moe_layers", layers)

    @classmethod
    def of(cls, model: Preset) -> Self:
        """Take the sizes of a model; its attention blocks tell how many hidden layers it has."""
        layers = sum(attention.layers for attention in model.attention)
        return cls(layers, np.array(model.moe_layers), model.experts, model.top_k)

    def positions(self, axis: int) -> IntArray:
        """
        Find the MoE layers on a layer axis: by number if it holds every hidden layer, in order if it holds only them.

        Parameters
        ----------
        axis
            Length of the layer axis.

        Returns
        -------
        IntArray
            Place of each MoE layer on the axis, shape (L,).

        Raises
        ------
        InvalidInstance
            The axis has another length.
        """
        if axis == self.num_layers:
            return self.moe_layers
        if axis == len(self.moe_layers):
            return np.arange(axis)
        raise InvalidInstance(
            f"routes have {axis} layers; {self.num_layers} (all of the model) or {len(self.moe_layers)} (its MoE layers) needed."
        )
