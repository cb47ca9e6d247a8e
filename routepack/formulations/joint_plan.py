"""Placement and layout decided together: what the hierarchy of first one, then the other costs. For tiny windows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from routepack.certificate import placement_bounds
from routepack.formulations.edp_layout import EdpLayout
from routepack.formulations.language import Encoding, Language
from routepack.layout_problem import LayoutProblem
from routepack.plan import Placement
from routepack.window import IntArray


class JointPlan(EdpLayout):
    r"""
    `EdpLayout` with the placement z[l,e,p] in {0, 1} as a decision; (5) becomes linear through v[h,l,e,p], expert e's load if it is on p.

    .. math::

        &\sum_p z_{lep} = 1, \quad \sum_e z_{lep} = E / P  && \forall l, e, p   & (J1) \\
        &\sum_p v_{hlep} = \sum_i a_{ile} y_{ih}           && \forall h, l, e   & (J2) \\
        &0 \le v_{hlep} \le z_{lep} \sum_i a_{ile}         && \forall h, l, e, p & (J3) \\
        &X_{hl} \ge \sum_e v_{hlep}                        && \forall h, l, p   & (J5)

    Ranks of a layer are interchangeable: the k-th heaviest expert of a layer lies on one of its first k ranks (J6). The cut (12) takes the
    layer's bound over all placements.

    Parameters
    ----------
    problem
        What is laid out; the last axis of ``loads`` is logical experts.
    num_ranks
        EP ranks P, a divisor of E.
    symmetry, cuts, bound
        As in `EdpLayout`; the bound must hold for any placement.
    """

    def __init__(self, problem: LayoutProblem, num_ranks: int, *, symmetry: bool = True, cuts: bool = True, bound: int = 0) -> None:
        super().__init__(problem, symmetry=symmetry, cuts=cuts, bound=bound)
        self.num_ranks = num_ranks
        self.placement: IntArray | None = None
        self._z: list[list[list[Any]]] = []

    def encode(self, engine: str, hint: IntArray | None = None, placement: IntArray | None = None) -> Encoding:
        """
        Build the model.

        Parameters
        ----------
        engine
            ``"cp-sat"`` or ``"milp"``.
        hint
            Cell of each unit in a known solution, shape (units,).
        placement
            Rank of each expert in that solution, shape (L, E); without one there is no start.
        """
        self.placement = None if placement is None else self._in_order(placement)
        self._z = []
        encoding = super().encode(engine, None if placement is None else hint)
        encoding.decisions += [v for layer in self._z for row in layer for v in row]
        return encoding

    def _assignment(self, say: Language, known: IntArray | None) -> dict[tuple[int, int], Any]:
        self._place(say)
        return super()._assignment(say, known)

    def _place(self, say: Language) -> None:
        layers, experts = self.problem.loads.shape[1:]
        totals = self.problem.loads.sum(axis=0)
        for layer in range(layers):
            at = None if self.placement is None else self.placement[layer]
            z = [[say.boolean(None if at is None else bool(at[e] == p)) for p in range(self.num_ranks)] for e in range(experts)]
            for row in z:
                say.add(sum(row) == 1)  # (J1)
            for p in range(self.num_ranks):
                say.add(sum(row[p] for row in z) == experts // self.num_ranks)  # (J1)
            if self.symmetry:
                for k, e in enumerate(np.argsort(-totals[layer], kind="stable")[: self.num_ranks - 1].tolist()):
                    say.add(sum(z[e][k + 1 :]) <= 0)  # (J6)
            self._z.append(z)

    def rank_loads(self, say: Language, y: list[Any], layer: int) -> list[Any]:
        """Load of each rank from the units y of a row-shard, under the placement decided."""
        loads = self.problem.loads[:, layer]
        on_rank: list[list[Any]] = [[] for _ in range(self.num_ranks)]
        for e in range(loads.shape[1]):
            most = int(loads[:, e].sum())
            parts = [say.amount(most) for _ in range(self.num_ranks)]
            say.add(sum(parts) == say.weighted(y, loads[:, e]))  # (J2)
            for p, part in enumerate(parts):
                say.add(part <= most * self._z[layer][e][p])  # (J3)
                on_rank[p].append(part)
        return [sum(parts) for parts in on_rank]  # (J5)

    def layer_bounds(self) -> IntArray:
        """Lower bound on the rank maxima of each layer over all placements, shape (L,)."""
        return placement_bounds(self.problem.loads.sum(axis=0), self.num_ranks)

    def priced(self) -> LayoutProblem:
        """The problem under the placement of the hint."""
        if self.placement is None:
            return self.problem
        return replace(self.problem, loads=Placement(self.placement).project(self.problem.loads, self.num_ranks))

    def _in_order(self, placement: IntArray) -> IntArray:
        """Relabel the ranks of each layer so that its heaviest experts open them in order."""
        totals = self.problem.loads.sum(axis=0)
        rows = []
        for layer, row in enumerate(placement):
            first = dict.fromkeys(row[np.argsort(-totals[layer], kind="stable")].tolist())
            label = {p: k for k, p in enumerate(first)}
            rows.append([label[p] for p in row.tolist()])
        return np.array(rows, dtype=np.int64)

    def decode_placement(self, values: Sequence[int]) -> IntArray:
        """Rank of each expert, shape (L, E), from the values of the decisions."""
        layers, experts = self.problem.loads.shape[1:]
        chosen = np.asarray(values[-layers * experts * self.num_ranks :]).reshape(layers, experts, self.num_ranks)
        ranks: IntArray = chosen.argmax(axis=2).astype(np.int64)
        return ranks

    def decode(self, values: Sequence[int]) -> IntArray:
        """Cell of each unit, shape (units,), from the values of the decisions."""
        return super().decode(values[: self.problem.num_units * len(self.cells)])
