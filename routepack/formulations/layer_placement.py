"""Placement of the experts of one layer on EP ranks."""

from collections.abc import Sequence

import numpy as np

from routepack.certificate import placement_bounds
from routepack.formulations.language import Encoding, language
from routepack.window import IntArray


class LayerPlacement:
    r"""
    Assignment of experts e with loads w_e to ranks p.

    Variables: x[e,p] in {0, 1}; Z >= 0.

    .. math::

        &\min Z                                                              & (0) \\
        &\sum_p x_{ep} = 1                            && \forall e           & (1) \\
        &\sum_e x_{ep} = E / P                        && \forall p           & (2) \\
        &Z \ge \sum_e w_e x_{ep}                     && \forall p           & (3) \\
        &\sum_e x_{e,p_0(e)} \ge E - M                && \text{(moves)}      & (4)

    Without a current placement p_0 ranks are interchangeable: the k-th heaviest expert lies on one of the first k ranks, and the first P
    experts open ranks in order, ``x[k,p] <= sum of x[j,p-1] over j < k`` (5). Cut: ``Z >=`` the layer's cardinality bound (6).

    Parameters
    ----------
    loads
        Token-slots of each expert, shape (E,).
    num_ranks
        EP ranks P, a divisor of E.
    current, max_moves
        Rank of each expert now, shape (E,), and how many may change it.
    symmetry
        Whether to add (5).
    """

    def __init__(
        self, loads: IntArray, num_ranks: int, *, current: IntArray | None = None, max_moves: int | None = None, symmetry: bool = True
    ) -> None:
        self.loads, self.num_ranks = loads, num_ranks
        self.current, self.max_moves = current, max_moves
        self.bounded = current is not None and max_moves is not None
        self.symmetry = symmetry and not self.bounded
        self.order: IntArray = np.argsort(-loads, kind="stable")

    def encode(self, engine: str, hint: IntArray | None = None) -> Encoding:
        """
        Build the model.

        Parameters
        ----------
        engine
            ``"cp-sat"`` or ``"milp"``.
        hint
            Rank of each expert in a known placement, shape (E,).
        """
        say = language(engine)
        known = None if hint is None else self.representative(hint)
        experts, ranks = range(len(self.loads)), range(self.num_ranks)
        x = [[say.boolean(None if known is None else bool(known[e] == p)) for p in ranks] for e in experts]
        start = None if known is None else int(np.bincount(known, self.loads, self.num_ranks).max())
        largest = say.amount(int(self.loads.sum()), start)
        for e in experts:
            say.add(sum(x[e]) == 1)  # (1)
        for p in ranks:
            column = [x[e][p] for e in experts]
            say.add(sum(column) == len(self.loads) // self.num_ranks)  # (2)
            say.add(largest >= say.weighted(column, self.loads))  # (3)
        if self.current is not None and self.max_moves is not None:
            say.add(sum(x[e][int(self.current[e])] for e in experts) >= len(self.loads) - self.max_moves)  # (4)
        if self.symmetry:
            heaviest = self.order[: self.num_ranks].tolist()
            for k, e in enumerate(heaviest):
                for p in range(1, self.num_ranks):
                    say.add(x[e][p] <= sum(x[j][p - 1] for j in heaviest[:k]))  # (5)
        say.add(largest >= int(placement_bounds(self.loads[None], self.num_ranks)[0]))  # (6)
        return Encoding(say.model, [largest], [v for row in x for v in row])

    def representative(self, rank_of_expert: IntArray) -> IntArray:
        """Relabel ranks so that the heaviest experts open them in order, where ranks are interchangeable."""
        if not self.symmetry:
            return rank_of_expert
        label = {p: k for k, p in enumerate(dict.fromkeys(rank_of_expert[self.order].tolist()))}
        return np.array([label[p] for p in rank_of_expert.tolist()], dtype=np.int64)

    def decode(self, values: Sequence[int]) -> IntArray:
        """Rank of each expert, shape (E,), from the values of the decisions."""
        ranks: IntArray = np.asarray(values).reshape(len(self.loads), self.num_ranks).argmax(axis=1).astype(np.int64)
        return ranks
