"""A sparse linear program whose dual values are wanted; whoever uses them must not trust them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def silent_highs() -> Any:
    """Return an engine that prints nothing; on construction it would print a banner."""
    import highspy

    loud: Any = highspy.Highs

    def quietly(self: Any) -> None:
        self.setOptionValue("output_flag", False)
        loud.enableCallbacks(self)

    engine: Any = type("SilentHighs", (loud,), {"enableCallbacks": quietly})
    highs = engine()
    highs.resetGlobalScheduler(True)  # threads may differ from the last run's
    return highs


@dataclass(slots=True)
class LinearProgram:
    """Minimise ``cost x`` over x >= 0 under rows ``lower <= a x``, equalities where ``equal``; built term by term."""

    cost: list[float] = field(default_factory=list)
    sides: list[tuple[float, bool]] = field(default_factory=list)
    entries: list[tuple[int, int, float]] = field(default_factory=list)

    def column(self, cost: float = 0.0) -> int:
        """Add a variable and return its index."""
        self.cost.append(cost)
        return len(self.cost) - 1

    def row(self, terms: list[tuple[int, float]], lower: float, equal: bool = False) -> int:
        """Add a row of (variable, coefficient) terms and return its index."""
        index = len(self.sides)
        self.sides.append((lower, equal))
        self.entries.extend((index, j, a) for j, a in terms if a)
        return index

    def duals(self, seconds: float) -> tuple[FloatArray, FloatArray] | None:
        """Values of the variables and of the rows' duals; ``None`` where no optimum was found in time."""
        import highspy

        highs = silent_highs()
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("time_limit", seconds)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.cost), len(self.sides)
        lp.col_cost_ = np.asarray(self.cost, dtype=np.float64)
        lp.col_lower_ = np.zeros(lp.num_col_)
        lp.col_upper_ = np.full(lp.num_col_, highspy.kHighsInf)
        lp.row_lower_ = np.asarray([low for low, _ in self.sides], dtype=np.float64)
        lp.row_upper_ = np.asarray([low if equal else highspy.kHighsInf for low, equal in self.sides], dtype=np.float64)
        row, col, value = (np.asarray(part) for part in zip(*self.entries, strict=True))
        order = np.lexsort((row, col))
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum(np.bincount(col, minlength=lp.num_col_))])
        lp.a_matrix_.index_ = row[order]
        lp.a_matrix_.value_ = value[order].astype(np.float64)
        highs.passModel(lp)
        highs.run()
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = highs.getSolution()
        return np.asarray(solution.col_value), np.asarray(solution.row_dual)
