"""Layout for a fixed placement and a fixed number of rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from routepack.certificate import aggregation_bound
from routepack.formulations.language import Encoding, Language, language
from routepack.formulations.symmetry import canonical, families, precedences, size_order
from routepack.layout_problem import LayoutProblem
from routepack.window import IntArray


class EdpLayout:
    r"""
    Assignment of units i to cells c, whose row-shards h = c // D are ``(r, g)``.

    Variables: x[i,c] in {0, 1}; y[i,h] = sum of x[i,c] over the cells of h; A[h,s], X[h,l], E[h], V, all >= 0.

    .. math::

        &\min_{lex} (V, \sum_h J_h, T)                                          & (0) \\
        &\sum_c x_{ic} = 1                                 && \forall i         & (1) \\
        &\sum_i t_i x_{ic} \le C                           && \forall c         & (2) \\
        &\sum_i x_{ic} \ge 1                               && \forall c         & (3) \\
        &A_{hs} \ge \sum_i b_{is} x_{ic}                   && \forall c \in h, s & (4) \\
        &X_{hl} \ge \sum_i q_{ilp} y_{ih}                  && \forall h, l, p   & (5) \\
        &parts \cdot E_h \ge \sum_l X_{hl}, \quad J_h = \sum_s A_{hs} + E_h && \forall h & (6) \\
        &V \ge \sum_r J_{rg} \; \forall g \quad \text{or} \quad V = \sum_r V_r,\; V_r \ge J_{rg} && & (7) \\
        &T \ge J_h                                         && \forall h         & (8) \\
        &\sum_{r,i} n_i x_{i,(r,d)} = n_d                  && \forall d \text{ (equal\_samples)} & (9)

    First use, with units in descending size, for every family of interchangeable groups K_1, K_2, ... of cells:

    .. math:: \sum_{c \in K_m} x_{ic} \le \sum_{j < i} \sum_{c \in K_{m-1}} x_{jc} \qquad (10)

    Cuts, valid for every integer solution: ``D A[h,s] >= sum_i b[i,s] y[i,h]`` and ``P X[h,l] >= sum_i sum_p q[i,l,p] y[i,h]`` (11),
    ``sum_h X[h,l] >= max_p sum_i q[i,l,p]`` (12), ``G V >= sum_h J[h] >= G LB`` and ``V >= LB`` with the aggregation bound or a better
    known one (13), and at most one unit longer than C/2 in a cell (14).

    Parameters
    ----------
    problem
        What is laid out.
    symmetry, cuts
        Whether to add (10), and (11) to (14).
    fixed
        Costs J[r, g] of row-shards whose units are not in the problem, shape (R, G), and -1 for those to be laid out: a neighbourhood. Then
        only slots are interchangeable.
    samples_of_slot
        Samples n_d that ``equal_samples`` asks of each slot here, shape (G * D,); by default the same for all.
    bound
        A lower bound on the makespan that is already known.
    """

    def __init__(
        self,
        problem: LayoutProblem,
        *,
        symmetry: bool = True,
        cuts: bool = True,
        fixed: IntArray | None = None,
        samples_of_slot: IntArray | None = None,
        bound: int = 0,
    ) -> None:
        self.problem = problem
        self.symmetry, self.cuts = symmetry, cuts
        self.order = size_order(problem)
        self.fixed = np.full((problem.rows, problem.shards), -1) if fixed is None else fixed
        self.whole = fixed is None
        self.bound = bound
        self.free = [h for h in range(problem.num_row_shards) if self.fixed.T.flat[h] < 0]
        self.cells = [h * problem.slots + d for h in self.free for d in range(problem.slots)]
        slots = problem.shards * problem.slots
        share = int(problem.sizes.sum()) // slots
        self.samples_of_slot = np.full(slots, share) if samples_of_slot is None else samples_of_slot

    def encode(self, engine: str, hint: IntArray | None = None) -> Encoding:
        """
        Build the model.

        Parameters
        ----------
        engine
            ``"cp-sat"`` or ``"milp"``.
        hint
            Cell of each unit in a known solution, shape (units,).
        """
        say = language(engine)
        known = None if hint is None else self.representative(hint)
        x = self._assignment(say, known)
        cost = self._costs(say, x, known)
        objectives = self._objectives(say, cost, known)
        if self.symmetry:
            self._break_symmetry(say, x)
        decisions = [x[i, c] for i in range(self.problem.num_units) for c in self.cells]
        return Encoding(say.model, objectives, decisions)

    def representative(self, cell_of_unit: IntArray) -> IntArray:
        """Relabel an assignment to the one that (10) admits."""
        if not (self.symmetry and self.whole):
            return cell_of_unit
        return canonical(self.problem, cell_of_unit, self.order)

    def decode(self, values: Sequence[int]) -> IntArray:
        """Cell of each unit, shape (units,), from the values of the decisions."""
        chosen = np.asarray(values).reshape(self.problem.num_units, len(self.cells))
        cells: IntArray = np.asarray(self.cells, dtype=np.int64)[chosen.argmax(axis=1)]
        return cells

    def _assignment(self, say: Language, known: IntArray | None) -> dict[tuple[int, int], Any]:
        problem = self.problem
        units = range(problem.num_units)
        x = {(i, c): say.boolean(None if known is None else bool(known[i] == c)) for i in units for c in self.cells}
        for i in units:
            say.add(sum(x[i, c] for c in self.cells) == 1)  # (1)
        long = np.flatnonzero(2 * problem.lengths > problem.token_cap).tolist()
        for c in self.cells:
            column = [x[i, c] for i in units]
            say.add(say.weighted(column, problem.lengths) <= problem.token_cap)  # (2)
            say.add(sum(column) >= 1)  # (3)
            if self.cuts and len(long) > 1:
                say.at_most_one([x[i, c] for i in long])  # (14)
        if problem.equal_samples:
            self._equal_samples(say, x)
        return x

    def _equal_samples(self, say: Language, x: dict[tuple[int, int], Any]) -> None:
        problem = self.problem
        height = problem.rows * problem.slots
        for g in range(problem.shards):
            for d in range(problem.slots):
                column = [c for c in self.cells if c // height == g and c % problem.slots == d]
                pairs = [(x[i, c], n) for i, n in enumerate(problem.sizes.tolist()) for c in column]
                if pairs:
                    count = say.weighted([v for v, _ in pairs], [n for _, n in pairs])
                    say.add(count == int(self.samples_of_slot[g * problem.slots + d]))  # (9)

    def _costs(self, say: Language, x: dict[tuple[int, int], Any], known: IntArray | None) -> dict[int, Any]:
        problem, units = self.problem, range(self.problem.num_units)
        starts = _known_maxima(self.priced(), known)
        total = problem.attention.sum(axis=0)
        of_layer: list[list[Any]] = [[] for _ in range(problem.loads.shape[1])]
        cost: dict[int, Any] = {}
        for h in self.free:
            cells = range(h * problem.slots, (h + 1) * problem.slots)
            y = [say.boolean(None if known is None else bool(known[i] // problem.slots == h)) for i in units]
            for i in units:
                say.add(y[i] == sum(x[i, c] for c in cells))
            terms = []
            for s in range(problem.attention.shape[1]):
                slowest = say.amount(total[s], starts and starts[0][h, s])
                for c in cells:
                    say.add(slowest >= say.weighted([x[i, c] for i in units], problem.attention[:, s]))  # (4)
                if self.cuts and problem.slots > 1:
                    say.add(problem.slots * slowest >= say.weighted(y, problem.attention[:, s]))  # (11)
                terms.append(slowest)
            peaks = []
            for layer, on_layer in enumerate(of_layer):
                peaks.append(self._peak(say, y, layer, starts and starts[1][h, layer]))
                on_layer.append(peaks[-1])
            cost[h] = sum(terms) + self._expert(say, peaks, starts and int(starts[1][h].sum()))  # (6)
        if self.cuts and self.whole:
            for peaks, least in zip(of_layer, self.layer_bounds().tolist(), strict=True):
                say.add(sum(peaks) >= least)  # (12)
        return cost

    def _peak(self, say: Language, y: list[Any], layer: int, start: int | None) -> Any:
        """Largest rank load of a row-shard in a layer."""
        loads = self.problem.loads[:, layer]
        peak = say.amount(int(loads.sum()), start)
        rank_loads = self.rank_loads(say, y, layer)
        for load in rank_loads:
            say.add(peak >= load)  # (5)
        if self.cuts and len(rank_loads) > 1:
            say.add(len(rank_loads) * peak >= say.weighted(y, loads.sum(axis=1)))  # (11)
        return peak

    def priced(self) -> LayoutProblem:
        """The problem under the placement of the hint."""
        return self.problem

    def rank_loads(self, say: Language, y: list[Any], layer: int) -> list[Any]:
        """Load of each rank from the units y of a row-shard."""
        loads = self.problem.loads[:, layer]
        return [say.weighted(y, loads[:, p]) for p in range(loads.shape[1])]

    def layer_bounds(self) -> IntArray:
        """Lower bound on the rank maxima of each layer, summed over row-shards, shape (L,)."""
        bounds: IntArray = self.problem.loads.sum(axis=0).max(axis=1)
        return bounds

    def _expert(self, say: Language, peaks: list[Any], start: int | None) -> Any:
        parts = self.problem.parts
        if parts == 1:
            return sum(peaks)
        most = int(self.problem.loads.sum()) // parts + 1
        expert = say.integer(most, None if start is None else -(-start // parts))
        say.add(parts * expert >= sum(peaks))  # (6)
        return expert

    def _objectives(self, say: Language, cost: dict[int, Any], known: IntArray | None) -> list[Any]:
        problem = self.problem
        costs = np.where(self.fixed >= 0, self.fixed, 0)
        if known is not None:
            costs = np.where(self.fixed >= 0, self.fixed, self.priced().row_shards(known))
        fixed = [int(v) for v in self.fixed.T.ravel()]
        every = [cost.get(h, fixed[h]) for h in range(problem.num_row_shards)]
        most = int(problem.attention.sum() + problem.loads.sum()) + int(np.where(self.fixed > 0, self.fixed, 0).sum())
        rows, shards = problem.rows, problem.shards
        lines = [[every[g * rows + r] for r in range(rows)] for g in range(shards)]
        if problem.sync == "shard":
            makespan = say.amount(most, None if known is None else int(costs.sum(axis=0).max()))
            for line in lines:
                say.add(makespan >= sum(line))  # (7)
        else:
            slowest = [say.amount(most, None if known is None else int(costs[r].max())) for r in range(rows)]
            for r in range(rows):
                for g in range(shards):
                    say.add(slowest[r] >= lines[g][r])  # (7)
            makespan = sum(slowest)
        peak = say.amount(most, None if known is None else int(costs.max()))
        for value in every:
            say.add(peak >= value)  # (8)
        total = sum(every)
        if self.cuts and self.whole:
            slots, parts = problem.slots, problem.parts
            least = aggregation_bound(problem.attention.sum(axis=0), self.layer_bounds(), slots, 1, parts)
            say.add(total >= least)  # (13)
            say.add(makespan >= max(self.bound, -(-least // shards)))  # (13)
            say.add(shards * makespan >= total)  # (13)
        return [makespan, total, peak]

    def _break_symmetry(self, say: Language, x: dict[tuple[int, int], Any]) -> None:
        problem = self.problem
        groups = families(problem)
        if not self.whole:
            groups = [] if problem.equal_samples else [[[h * problem.slots + d] for d in range(problem.slots)] for h in self.free]
        for i, group, earlier, before in precedences(groups, self.order):
            opened = sum(x[j, c] for j in earlier for c in before)
            say.add(sum(x[i, c] for c in group) <= opened)  # (10)


def _known_maxima(problem: LayoutProblem, known: IntArray | None) -> tuple[IntArray, IntArray] | None:
    """Attention maxima A, shape (row-shards, stages), and rank maxima X, shape (row-shards, L), of a known solution."""
    if known is None:
        return None
    work = np.zeros((problem.num_cells, problem.attention.shape[1]), dtype=np.int64)
    np.add.at(work, known, problem.attention)
    load = np.zeros((problem.num_row_shards, *problem.loads.shape[1:]), dtype=np.int64)
    np.add.at(load, known // problem.slots, problem.loads)
    return work.reshape(problem.num_row_shards, problem.slots, -1).max(axis=1), load.max(axis=2)
