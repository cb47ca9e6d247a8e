"""What happened: the plan, what is proved about it, and how it was found."""

from dataclasses import dataclass, field

from routepack import __version__
from routepack.certificate import RowProof
from routepack.cost import Cost, Score
from routepack.plan import Plan
from routepack.score_proof import ScoreProof
from routepack.verify import SolverClaim, optimal_by_bound


@dataclass(frozen=True, slots=True)
class Method:
    """
    How a plan was found.

    Parameters
    ----------
    name
        Key in the registry of methods.
    seed
        Seed of every random draw.
    attempts
        Proposals made.
    seconds
        Wall-clock time, the one field that differs between equal runs.
    """

    name: str
    seed: int
    attempts: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RowsTried:
    """
    A number of rows that was tried.

    Parameters
    ----------
    count
        Rows R.
    makespan
        First score component that a part of the budget reached, in ticks.
    cost
        Makespan and the overhead of the rows together, in ticks.
    """

    count: int
    makespan: int
    cost: int


@dataclass(frozen=True, slots=True)
class Result:
    """
    A verified plan.

    Parameters
    ----------
    instance_name, sha256
        The instance that was planned.
    plan
        The decisions.
    cost
        Recomputed cost of every row-shard.
    rows
        Number of rows and the proof that fewer are impossible.
    bound
        Lower bound on the first score component over all placements, with its proof.
    placement_bound
        The same for the placement of this plan; a bound for any placement where that is the larger.
    method
        How it was found.
    interrupted
        The run was stopped from outside; the plan is the best until then.
    solver
        What an engine claims about the plan, for exact methods.
    rows_tried
        Numbers of rows that were compared, under equal effort; none where the number was given.
    """

    instance_name: str
    sha256: str
    plan: Plan
    cost: Cost
    rows: RowProof
    bound: ScoreProof
    placement_bound: ScoreProof
    method: Method
    interrupted: bool = False
    solver: SolverClaim | None = None
    versions: dict[str, str] = field(default_factory=lambda: {"routepack": __version__})
    rows_tried: tuple[RowsTried, ...] = ()

    @property
    def score(self) -> Score:
        """The objective, in ticks."""
        return self.cost.score

    @property
    def gap(self) -> float | None:
        """Relative distance of the first score component above the bound for any placement."""
        return self.bound.gap(self.score.makespan)

    @property
    def proved(self) -> bool:
        """Whether the bound alone shows that no plan with as many rows scores lower."""
        return optimal_by_bound(self.cost, self.bound)

    @property
    def status(self) -> str:
        """``optimal`` when the bound shows, or an engine claims, that no plan with as many rows scores lower; else ``feasible``."""
        claimed = self.solver is not None and self.solver.status == "optimal"
        return "optimal" if claimed or self.proved else "feasible"

    @property
    def placement(self) -> list[list[int]]:
        """Plain ``[layer][expert] -> EP rank``."""
        return self.plan.placement.to_list()

    @property
    def layout(self) -> list[list[list[int]]]:
        """Plain ``[slot][row] -> samples``."""
        return self.plan.layout.to_list()
