"""How attention compares with expert work: what is asked, before any tick is computed."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from routepack.errors import InvalidInstance
from routepack.window import IntArray


@dataclass(frozen=True, slots=True)
class Stage:
    """One kind of attention block: a sample of t tokens costs ``linear * t + quadratic * t**2``, in the unit of the cost model."""

    name: str
    linear: float
    quadratic: float

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InvalidInstance(f"cost.stages: name = {self.name!r} is not a string.")
        for key in ("linear", "quadratic"):
            object.__setattr__(self, key, _finite(f"cost.stages[{self.name}].{key}", getattr(self, key)))


def _finite(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidInstance(f"{name} = {value!r} is not a number.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (math.isfinite(number) and number >= 0):
        raise InvalidInstance(f"{name} = {value} is not finite and non-negative.")
    return number


@dataclass(frozen=True, slots=True)
class CostModel:
    """
    How attention compares with expert work.

    Parameters
    ----------
    kind
        ``"window"``: attention's ideal is ``share / (1 - share)`` of the experts' ideal in this window.
        ``"absolute"``: stages and ``expert_cost`` are in one unit (seconds, FLOPs).
    share
        Attention's share of the ideal total, in [0, 1); for ``window``.
    expert_cost
        Cost of one routed token-slot on one EP rank, above 0; for ``absolute``.
    stages
        Kinds of attention block. Empty means one full-attention stage whose linear and quadratic parts are equal over the window.
    """

    kind: Literal["window", "absolute"] = "window"
    share: float = 0.5
    expert_cost: float | None = None
    stages: tuple[Stage, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in ("window", "absolute"):
            raise InvalidInstance(f"cost.kind = {self.kind!r} is unknown; choose window or absolute.")
        object.__setattr__(self, "share", _finite("cost.share", self.share))
        if not self.share < 1:
            raise InvalidInstance(f"cost.share = {self.share} is not below 1; give attention's share in [0, 1).")
        if self.kind == "absolute":
            if self.expert_cost is None or not self.stages:
                raise InvalidInstance("cost.kind = absolute needs cost.expert_cost and cost.stages.")
            object.__setattr__(self, "expert_cost", _finite("cost.expert_cost", self.expert_cost))
            if not self.expert_cost:
                raise InvalidInstance("cost.expert_cost = 0 leaves ticks undefined; give a cost above 0.")
        elif self.expert_cost is not None:
            raise InvalidInstance("cost.expert_cost is for cost.kind = absolute; remove it or change the kind.")

    def for_window(self, lengths: IntArray) -> "CostModel":
        """Return the model with its default stage filled in."""
        if self.stages:
            return self
        quadratic = int(lengths.sum()) / sum(t * t for t in lengths.tolist())
        return CostModel(self.kind, self.share, self.expert_cost, (Stage("full", 1.0, quadratic),))
