"""Two modelling languages behind one small vocabulary, so that every formulation is written once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(slots=True)
class Encoding:
    """
    A model that an engine can solve.

    Parameters
    ----------
    model
        ``CpModel`` of OR-tools or ``ConcreteModel`` of Pyomo.
    objectives
        Integer-valued expressions, minimised one after the other, each under the optima of those before it.
    decisions
        The 0-1 variables whose values `decode` reads, in its order.
    """

    model: Any
    objectives: list[Any] = field(default_factory=list)
    decisions: list[Any] = field(default_factory=list)


class Language(Protocol):
    """What a formulation says to a modelling language."""

    model: Any

    def boolean(self, start: bool | None = None) -> Any:
        """Add a 0-1 variable, with its value in a known solution."""

    def amount(self, high: int, start: int | None = None) -> Any:
        """Add a variable in [0, high] that is an integer in some optimal solution."""

    def integer(self, high: int, start: int | None = None) -> Any:
        """Add an integer variable in [0, high]."""

    def weighted(self, variables: Iterable[Any], weights: Iterable[Any]) -> Any:
        """Weighted sum of variables."""

    def add(self, constraint: Any) -> None:
        """Require a linear comparison."""

    def at_most_one(self, variables: Sequence[Any]) -> None:
        """Require that at most one of these 0-1 variables is 1."""


class CpSatLanguage:
    """Builds a ``CpModel``."""

    def __init__(self) -> None:
        from ortools.sat.python import cp_model

        self.model: Any = cp_model.CpModel()
        self._sum = cp_model.LinearExpr.weighted_sum

    def boolean(self, start: bool | None = None) -> Any:
        """Add a 0-1 variable."""
        variable = self.model.new_bool_var("")
        if start is not None:
            self.model.add_hint(variable, bool(start))
        return variable

    def integer(self, high: int, start: int | None = None) -> Any:
        """Add an integer variable in [0, high]."""
        variable = self.model.new_int_var(0, int(high), "")
        if start is not None:
            self.model.add_hint(variable, int(start))
        return variable

    def amount(self, high: int, start: int | None = None) -> Any:
        """All variables of CP-SAT are integers."""
        return self.integer(high, start)

    def weighted(self, variables: Iterable[Any], weights: Iterable[Any]) -> Any:
        """Weighted sum; terms of weight 0 are left out."""
        terms = [(x, int(w)) for x, w in zip(variables, weights, strict=True) if w]
        return self._sum([x for x, _ in terms], [w for _, w in terms])

    def add(self, constraint: Any) -> None:
        """Require a linear comparison."""
        self.model.add(constraint)

    def at_most_one(self, variables: Sequence[Any]) -> None:
        """Require that at most one of these 0-1 variables is 1."""
        self.model.add_at_most_one(variables)


class PyomoLanguage:
    """Builds a ``ConcreteModel``; known values become the variables' initial values."""

    def __init__(self) -> None:
        import pyomo.environ as pyomo

        self._pyomo = pyomo
        self.model: Any = pyomo.ConcreteModel()
        self.model.variables = pyomo.VarList()
        self.model.constraints = pyomo.ConstraintList()

    def _variable(self, domain: Any, high: int, start: float | None) -> Any:
        variable = self.model.variables.add()
        variable.domain = domain
        variable.setlb(0)
        variable.setub(int(high))
        if start is not None:
            variable.set_value(int(start))
        return variable

    def boolean(self, start: bool | None = None) -> Any:
        """Add a 0-1 variable."""
        return self._variable(self._pyomo.Binary, 1, start)

    def integer(self, high: int, start: int | None = None) -> Any:
        """Add an integer variable in [0, high]."""
        return self._variable(self._pyomo.Integers, high, start)

    def amount(self, high: int, start: int | None = None) -> Any:
        """Add a continuous variable in [0, high]."""
        return self._variable(self._pyomo.Reals, high, start)

    def weighted(self, variables: Iterable[Any], weights: Iterable[Any]) -> Any:
        """Weighted sum; terms of weight 0 are left out."""
        return self._pyomo.quicksum((int(w) * x for x, w in zip(variables, weights, strict=True) if w))

    def add(self, constraint: Any) -> None:
        """Require a linear comparison; one between constants that holds is left out."""
        if constraint is not True:
            self.model.constraints.add(self.integer(0) >= 1 if constraint is False else constraint)

    def at_most_one(self, variables: Sequence[Any]) -> None:
        """Require that at most one of these 0-1 variables is 1."""
        self.add(self._pyomo.quicksum(variables) <= 1)


def language(engine: str) -> Language:
    """Modelling language of an engine: ``"cp-sat"`` or ``"milp"``."""
    return CpSatLanguage() if engine == "cp-sat" else PyomoLanguage()
