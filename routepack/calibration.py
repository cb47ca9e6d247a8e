"""What attention and experts cost, from measured microbatch times, and whether the measurements can tell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from routepack.cost import cost
from routepack.cost_model import CostModel, Stage
from routepack.errors import InvalidInstance
from routepack.instance import Instance
from routepack.plan import Plan

Floats = NDArray[np.float64]

SECONDS, TOKENS, SQUARES, SLOTS = "seconds", "tokens", "squared_tokens", "token_slots"
EXPERTS, ONLY_STAGE = "experts", "full"
CONFIDENCE = 0.95
ROWS_PER_COEFFICIENT = 2
COLLINEAR = 30.0
SINGULAR = 1e7
WIDEST = 0.25  # of a microbatch's time: a coefficient whose interval reaches further is not known


@dataclass(frozen=True, slots=True)
class Coefficient:
    """
    One fitted cost in seconds: of a microbatch (overhead), a token, a squared token, or a token-slot.

    Parameters
    ----------
    name
        As in ``full.quadratic``, ``expert_cost`` or ``overhead``.
    value
        Non-negative least squares.
    low, high
        95 % interval, cut off at 0.
    """

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Fit:
    """
    One least-squares fit.

    Parameters
    ----------
    of
        The column of seconds that it explains.
    coefficients
        What was fitted.
    condition
        Condition number of the columns, each scaled to length 1.
    explained
        Share of the variance of the seconds.
    error
        Median of the relative errors.
    faults
        Why a coefficient is not known.
    notes
        What a reader should know of the others.
    """

    of: str
    coefficients: tuple[Coefficient, ...]
    condition: float
    explained: float
    error: float
    faults: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """
    Fitted costs of every kind of attention and of the experts.

    Parameters
    ----------
    stages
        Names of the kinds of attention.
    fits
        One for the whole time, or one for each kind of attention and one for the experts.
    """

    stages: tuple[str, ...]
    fits: tuple[Fit, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        """Why no cost model follows; none if one does."""
        return tuple(fault for fit in self.fits for fault in fit.faults)

    def cost_model(self) -> CostModel:
        """
        Return the absolute cost model, in seconds.

        Raises
        ------
        InvalidInstance
            The measurements do not determine it.
        """
        if self.faults:
            raise InvalidInstance(f"the timings do not determine the costs: {self.faults[0]}")
        value = {c.name: c.value for fit in self.fits for c in fit.coefficients}
        stages = tuple(Stage(name, value[f"{name}.linear"], value[f"{name}.quadratic"]) for name in self.stages)
        return CostModel("absolute", expert_cost=value["expert_cost"], stages=stages)

    @property
    def row_overhead(self) -> int:
        """
        What a row costs beside its tokens, in ticks: the overheads over the cost of a token-slot.

        Raises
        ------
        InvalidInstance
            The measurements do not determine it.
        """
        model = self.cost_model()
        assert model.expert_cost is not None
        overheads = [c.value for fit in self.fits for c in fit.coefficients if c.name == "overhead"]
        return round(sum(overheads) / model.expert_cost)


def timing_columns(instance: Instance, plan: Plan) -> dict[str, Floats]:
    """
    Columns ``tokens``, ``squared_tokens`` and ``token_slots`` of a plan, one entry for each row-shard, row by row.

    The slot of a row-shard that is counted is the one with the most squared tokens; token-slots are those of the fullest rank, over layers.
    """
    lengths = instance.window.lengths.astype(np.float64)
    tokens, squares = [], []
    for _, _, cells in plan.layout.row_shards(instance.topology):
        slowest = max((lengths[list(cell)] for cell in cells), key=lambda t: (float((t * t).sum()), float(t.sum())))
        tokens.append(slowest.sum())
        squares.append((slowest * slowest).sum())
    return {TOKENS: np.array(tokens), SQUARES: np.array(squares), SLOTS: cost(instance, plan).expert.ravel().astype(np.float64)}


def calibrate(timings: Mapping[str, Floats]) -> Calibration:
    """
    Fit the costs of the objective to measured times by non-negative least squares [1]_.

    With one column ``seconds``, a microbatch takes ``overhead + sum over kinds (linear tokens + quadratic squared_tokens) + expert_cost
    token_slots``. With ``seconds:KIND`` for every kind of attention and ``seconds:experts``, each is fitted alone, with an overhead each.
    Intervals are those of least squares on the coefficients that are not 0, robust to unequal noise [2]_.

    Parameters
    ----------
    timings
        Columns, shape (microbatches,), finite and not negative: ``seconds`` or ``seconds:KIND``; ``tokens`` and ``squared_tokens``, or
        ``tokens:KIND`` and ``squared_tokens:KIND`` where kinds have other slowest slots; ``token_slots``.

    Raises
    ------
    InvalidInstance
        A column is missing, unknown or malformed, there are too few microbatches, or scipy is not installed.

    References
    ----------
    .. [1] Lawson, C., and R. Hanson (1974). *Solving Least Squares Problems*. Prentice-Hall. DOI 10.1137/1.9781611971217.
    .. [2] MacKinnon, J., and H. White (1985). Some heteroskedasticity-consistent covariance matrix estimators with improved finite sample
       properties. *Journal of Econometrics* 29(3): 305-325. DOI 10.1016/0304-4076(85)90158-7.
    """
    stages = _stages(timings)
    ones = np.ones(len(next(iter(timings.values()))))
    attention = {s: {f"{s}.linear": _column(timings, TOKENS, s), f"{s}.quadratic": _column(timings, SQUARES, s)} for s in stages}
    experts = {"expert_cost": timings[SLOTS]}
    if SECONDS in timings:
        terms = {"overhead": ones} | {name: column for kind in attention.values() for name, column in kind.items()} | experts
        return Calibration(stages, (_fit(SECONDS, timings[SECONDS], terms),))
    parts = [*attention.items(), (EXPERTS, experts)]
    fits = [_fit(f"{SECONDS}:{part}", timings[f"{SECONDS}:{part}"], {"overhead": ones} | terms) for part, terms in parts]
    return Calibration(stages, tuple(fits))


def _stages(timings: Mapping[str, Floats]) -> tuple[str, ...]:
    """Check the names of the columns and return the kinds of attention."""
    kinds: list[str] = []
    for name in timings:
        base, _, kind = name.partition(":")
        if base not in (SECONDS, TOKENS, SQUARES) and name != SLOTS:
            raise InvalidInstance(f"column {name!r} is unknown; give {SECONDS}, {TOKENS}, {SQUARES}, the same with :KIND, and {SLOTS}.")
        if kind and kind != EXPERTS and kind not in kinds:
            kinds.append(kind)
    stages = tuple(kinds) or (ONLY_STAGE,)
    whole = SECONDS in timings
    if whole and any(name.startswith(f"{SECONDS}:") for name in timings):
        raise InvalidInstance(f"columns {SECONDS} and {SECONDS}:KIND are both given; keep the whole time or its parts.")
    needed = [SECONDS] if whole or not kinds else [f"{SECONDS}:{part}" for part in (*stages, EXPERTS)]
    needed.append(SLOTS)
    needed += [name for name in (TOKENS, SQUARES) if any(f"{name}:{stage}" not in timings for stage in stages)]
    missing = [name for name in needed if name not in timings]
    if missing:
        raise InvalidInstance(f"column {missing[0]} is missing; give {', '.join(needed)}.")
    return stages


def _column(timings: Mapping[str, Floats], name: str, stage: str) -> Floats:
    return timings[f"{name}:{stage}"] if f"{name}:{stage}" in timings else timings[name]


def _fit(of: str, seconds: Floats, terms: Mapping[str, Floats]) -> Fit:
    """Fit one column of seconds to terms; say what it leaves unknown."""
    names = tuple(terms)
    columns = np.stack(list(terms.values()), axis=1)  # (microbatch, term)
    needed = ROWS_PER_COEFFICIENT * len(names)
    if len(seconds) < needed:
        raise InvalidInstance(f"{of} has {len(seconds)} microbatches for {len(names)} coefficients; time at least {needed}.")
    if not (seconds > 0).all():
        raise InvalidInstance(f"{of}[{int(np.argmin(seconds))}] = {seconds.min():g} is not above 0; leave out what was not timed.")
    empty = [name for name, column in terms.items() if not column.any()]
    if empty:
        faults = [f"{name} is unknown: its column is 0 everywhere; time microbatches that have such work." for name in empty]
        return Fit(of, (), np.inf, 0.0, 1.0, tuple(faults), ())
    size = np.linalg.norm(columns, axis=0)
    singular, directions = np.linalg.svd(columns / size, full_matrices=False)[1:]
    condition = float(singular[0] / singular[-1]) if singular[-1] > 0 else np.inf
    mixed = [name for name, part in zip(names, directions[-1], strict=True) if abs(part) > 0.1]
    if condition > SINGULAR:
        fault = f"{' and '.join(mixed)} cannot be told apart: their columns depend on one another; time microbatches of other shapes."
        return Fit(of, (), condition, 0.0, 1.0, (fault,), ())
    scaled, bounds = _solve(columns / size, seconds)
    values, reach = scaled / size, bounds / size[:, None]
    found = tuple(Coefficient(name, *map(float, part)) for name, part in zip(names, zip(values, *reach.T, strict=True), strict=True))
    residual = seconds - columns @ values
    spread = float(((seconds - seconds.mean()) ** 2).sum())
    explained = 1 - float((residual**2).sum()) / spread if spread else 0.0
    unknown, notes = _judge(found, columns.mean(axis=0) / seconds.mean(), mixed if condition > COLLINEAR else ())
    return Fit(of, found, condition, explained, float(np.median(np.abs(residual) / seconds)), unknown, notes)


def _solve(columns: Floats, seconds: Floats) -> tuple[Floats, Floats]:
    """Return the non-negative coefficients, shape (terms,), and their intervals, shape (terms, 2)."""
    try:
        from scipy.optimize import nnls
        from scipy.special import stdtrit
    except ImportError:
        raise InvalidInstance("calibration needs scipy, which is not installed; pip install 'routepack[calibration]'.") from None
    values: Floats = nnls(columns, seconds)[0]
    free = values > 0
    bounds = np.zeros((len(values), 2))
    for chosen, kept in ((np.ones_like(free), ~free), (free, free)):  # what is 0 reaches as far as a fit of all terms says
        if not kept.any():
            continue
        inverse = np.linalg.pinv(columns[:, chosen])  # (term, microbatch)
        best = inverse @ seconds
        slack = 1 - np.einsum("mt,tm->m", columns[:, chosen], inverse)
        alone = slack < 1e-9  # a microbatch that fixes a coefficient by itself says nothing of its error
        left = (seconds - columns[:, chosen] @ best) / np.where(alone, 1.0, slack)
        width = np.sqrt((inverse**2) @ left**2) * stdtrit(len(seconds) - int(chosen.sum()), (1 + CONFIDENCE) / 2)
        width[(np.abs(inverse[:, alone]) > 1e-9).any(axis=1)] = np.inf
        both = np.maximum(np.stack([best - width, best + width], axis=1), 0.0)
        bounds[kept] = both[kept[chosen]]
    return values, bounds


def _judge(found: Sequence[Coefficient], shares: Floats, mixed: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """
    Say which coefficients are not known, and what is only suspected.

    Parameters
    ----------
    found
        The coefficients.
    shares
        Part of a mean microbatch's time that one unit of each coefficient makes, shape (terms,).
    mixed
        Terms whose columns nearly depend on one another.
    """
    faults, notes = [], []
    for c, share in zip(found, shares.tolist(), strict=True):
        reach = share * max(c.high - c.value, c.value - c.low)
        others = [name for name in mixed if name != c.name]
        why = f"it is mixed up with {' and '.join(others)}" if c.name in mixed and others else "the times are too noisy or too few"
        if reach > WIDEST:
            far = f"reaches over {100 * reach:.0f} % of a microbatch's time" if np.isfinite(reach) else "is unbounded"
            faults.append(f"{c.name} is unknown, its interval {far}: {why}; time more microbatches, of other shapes.")
        elif c.name == "expert_cost" and c.low <= 0:
            faults.append(f"expert_cost is unknown, its interval covers 0: {why}; time more microbatches, of other shapes.")
        elif c.low <= 0:
            notes.append(f"{c.name} cannot be told from 0")
    if mixed:
        notes.append(f"{' and '.join(mixed)} nearly depend on one another")
    return tuple(faults), tuple(notes)
