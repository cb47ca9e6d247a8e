"""Every constraint and every claimed number, recomputed from the data alone."""

from dataclasses import dataclass
from typing import Literal

from routepack.certificate import RowProof, WeightCertificate, check_weights
from routepack.cost import Cost, Score, cost
from routepack.errors import InvalidCertificate, InvalidPlan
from routepack.instance import Instance, placement_fault
from routepack.plan import Placement, Plan
from routepack.score_certificate import ScoreData
from routepack.score_proof import CLOSED_FORMS, ProofKind, ScoreProof, recompute_proof


@dataclass(frozen=True, slots=True)
class SolverClaim:
    """
    What an engine says about a plan; nobody has checked it.

    Parameters
    ----------
    by
        The engine, its version and its own status.
    status
        ``optimal`` when it claims that no plan in its scope, with as many rows, scores lower; else ``feasible``.
    bound
        Lower bound on the first score component that it claims, in ticks.
    scope
        What it speaks of: layouts under ``this placement``, or under ``any placement``.
    """

    by: str
    status: Literal["optimal", "feasible"]
    bound: int | None
    scope: Literal["this placement", "any placement"]


@dataclass(frozen=True, slots=True)
class Claims:
    """
    What an answer says about itself.

    Parameters
    ----------
    sha256
        Fingerprint of the instance that was planned.
    rows_count, cells_lower_bound
        Rows of the plan, and cells that every plan needs.
    rows_status
        ``proved`` or ``best known, at least n``.
    certificate
        Weights that prove ``cells_lower_bound``.
    score
        The three components, in ticks.
    bound
        Lower bound on the first component, and its proof.
    placement_bound
        Another one, meant for the placement of the plan, if there is one.
    status
        ``optimal``, by the bound or by an engine's claim, or ``feasible``.
    solver
        The engine's claim, if there is one; it is believed no more than it is checked.
    """

    sha256: str
    rows_count: int
    cells_lower_bound: int
    rows_status: str
    certificate: WeightCertificate
    score: Score
    bound: ScoreProof
    placement_bound: ScoreProof | None = None
    status: str = "feasible"
    solver: SolverClaim | None = None


def verify_plan(instance: Instance, plan: Plan) -> Cost:
    """
    Check every constraint of a plan and return its recomputed cost.

    Raises
    ------
    InvalidPlan
        Naming the first constraint that is broken, and where.
    Infeasible
        The instance itself cannot be planned.
    """
    _check_placement(instance, plan.placement)
    _check_shape(instance, plan)
    cell_of_sample = _check_samples(instance, plan)
    _check_cells(instance, plan, cell_of_sample)
    return cost(instance, plan)


def _check_placement(instance: Instance, placement: Placement) -> None:  # (5)
    window = instance.window
    fault = placement_fault("placement", placement.rank_of_expert, window.num_layers, window.num_experts, instance.topology.ep)
    if fault:
        raise InvalidPlan(fault)


def _check_shape(instance: Instance, plan: Plan) -> None:  # (4), (6)
    slots = plan.layout.cells
    if len(slots) != instance.topology.dp:
        raise InvalidPlan(f"layout has {len(slots)} slots; dp = {instance.topology.dp} needed.")
    rows = len(slots[0])
    for d, slot in enumerate(slots):
        if len(slot) != rows:
            raise InvalidPlan(f"layout[{d}] has {len(slot)} rows, slot 0 has {rows}; all slots run the same number.")
    if not rows or rows % instance.row_multiple:
        raise InvalidPlan(f"layout has {rows} rows; a positive multiple of row_multiple = {instance.row_multiple} needed.")


def _check_samples(instance: Instance, plan: Plan) -> list[int]:  # (1), (3)
    count = instance.window.num_samples
    cell_of_sample = [-1] * count
    rows = plan.layout.num_rows
    for d, slot in enumerate(plan.layout.cells):
        for r, cell in enumerate(slot):
            if not cell:
                raise InvalidPlan(f"layout[{d}][{r}] is empty; every cell holds a sample.")
            for i in cell:
                if not 0 <= i < count:
                    raise InvalidPlan(f"layout[{d}][{r}] names sample {i}; the window has samples 0 to {count - 1}.")
                if cell_of_sample[i] >= 0:
                    raise InvalidPlan(f"layout[{d}][{r}] places {instance.window.label(i)} a second time; every sample is in one cell.")
                cell_of_sample[i] = d * rows + r
    if -1 in cell_of_sample:
        raise InvalidPlan(f"layout misses {instance.window.label(cell_of_sample.index(-1))}; every sample is in one cell.")
    return cell_of_sample


def _check_cells(instance: Instance, plan: Plan, cell_of_sample: list[int]) -> None:  # (2) and the options
    for group in instance.options.keep_together:
        cells = {cell_of_sample[i] for i in group}
        if len(cells) > 1:
            raise InvalidPlan(f"layout splits kept-together group {list(group)} over {len(cells)} cells; it lies in one.")
    aligned, unit = instance.aligned_lengths, instance.unit_of_sample
    instance.unit_lengths()
    for d, slot in enumerate(plan.layout.cells):
        for r, cell in enumerate(slot):
            tokens = int(aligned[list(cell)].sum())
            if tokens > instance.token_cap and len({int(unit[i]) for i in cell}) > 1:
                raise InvalidPlan(f"layout[{d}][{r}] holds {tokens} aligned tokens; token_cap = {instance.token_cap}.")
    if instance.options.equal_samples:
        counts = [sum(len(cell) for cell in slot) for slot in plan.layout.cells]
        if len(set(counts)) > 1:
            raise InvalidPlan(f"layout gives the slots {counts} samples; equal_samples needs the same number on each.")


def verify_rows(instance: Instance, count: int, certificate: WeightCertificate) -> RowProof:
    """
    Check a weight certificate for this instance's units and return what it proves about the number of rows.

    Raises
    ------
    InvalidCertificate
        The certificate does not hold.
    """
    cells = check_weights(certificate, instance.unit_lengths(), instance.token_cap)
    return RowProof(count, cells, instance.rows_for(cells), certificate)


def recompute_bound(
    instance: Instance, placement: Placement | None, num_rows: int | None = None, kind: ProofKind | None = None
) -> ScoreProof:
    """
    Recompute a bound on the first score component in closed form.

    Parameters
    ----------
    instance
        What is planned.
    placement
        Placement that the bound is for; any placement where none is given.
    num_rows
        Rows R that it holds for; only aggregation holds for any number.
    kind
        A key of `CLOSED_FORMS`; the largest of them if not given, the first where they are equal.
    """
    data = ScoreData.of(instance, placement, num_rows or 1)
    kinds = list(CLOSED_FORMS) if kind is None and num_rows is not None else [kind or "aggregation"]
    values = {k: CLOSED_FORMS[k](data) for k in kinds}
    best = max(values, key=lambda k: values[k])
    return ScoreProof(best, values[best], placement is None)


def verify(instance: Instance, plan: Plan, claims: Claims) -> tuple[Cost, RowProof]:
    """
    Check a plan and everything that it claims; trust nothing in it.

    Returns
    -------
    tuple[Cost, RowProof]
        The recomputed cost and row proof.

    Raises
    ------
    InvalidPlan
        Another instance's plan, a broken constraint, or a number that recomputation contradicts.
    InvalidCertificate
        The certificate of the rows or of a bound does not hold.
    """
    fingerprint = instance.sha256()
    if claims.sha256 != fingerprint:
        raise InvalidPlan(
            f"instance.sha256 = {claims.sha256[:12]}… is another instance's, this one is {fingerprint[:12]}…; "
            "pass the window that was planned, with the same options."
        )
    recomputed = verify_plan(instance, plan)
    if claims.rows_count != plan.layout.num_rows:
        raise InvalidPlan(f"rows.count = {claims.rows_count} but the layout has {plan.layout.num_rows} rows.")
    proof = verify_rows(instance, claims.rows_count, claims.certificate)
    if claims.cells_lower_bound > proof.cells_lower_bound:
        raise InvalidCertificate(
            f"rows.cells_lower_bound = {claims.cells_lower_bound} but the certificate proves only {proof.cells_lower_bound}."
        )
    if claims.rows_status != proof.status:
        raise InvalidPlan(f"rows.status = {claims.rows_status!r} but the certificate shows {proof.status!r}.")
    if claims.score != recomputed.score:
        raise InvalidPlan(f"score = {list(claims.score)} but recomputation gives {list(recomputed.score)}.")
    bounds = {"bound": claims.bound} | ({"placement_bound": claims.placement_bound} if claims.placement_bound else {})
    for name, bound in bounds.items():
        _check_bound(name, instance, plan, bound)
    engine_says_so = claims.solver is not None and claims.solver.status == "optimal"
    if claims.status == "optimal" and not (engine_says_so or optimal_by_bound(recomputed, claims.bound)):
        raise InvalidPlan("status = 'optimal' but neither the bound shows it nor does an engine claim it.")
    return recomputed, proof


def _check_bound(name: str, instance: Instance, plan: Plan, bound: ScoreProof) -> None:
    value = recompute_proof(instance, plan.placement, plan.layout.num_rows, bound)
    if bound.value > value:
        raise InvalidPlan(f"{name}.value = {bound.value} but {bound.kind} for {bound.scope} gives only {value}.")


def optimal_by_bound(cost: Cost, bound: ScoreProof) -> bool:
    """
    Whether a bound alone shows that no plan with as many rows scores lower, in any component.

    It can where there is one shard: makespan and sum are the same number, and equal rows make the peak least.
    """
    row_shards = cost.row_shards
    level = row_shards.shape[1] == 1 and bool((row_shards == row_shards.flat[0]).all())
    return level and bound.any_placement and cost.score.makespan == bound.value
