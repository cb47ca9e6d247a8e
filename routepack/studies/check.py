"""Nothing got worse: what heuristics and bounds give today against proven optima and what was recorded."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from routepack.errors import RoutePackError
from routepack.studies.best_known import Recorded, improved, read, window_of, write
from routepack.studies.measured import CONSTRUCTIVE, Outcome

SLACK, BOUND_SLACK = 1e-3, 2e-4  # of a mean gap: any change sends some searches another way, and machines round differently


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, and whether an update may take it over because nothing is worse than before."""

    text: str
    acceptable: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    A method or a bound on a suite.

    Parameters
    ----------
    suite, name
        As in `Outcome`.
    windows
        How many.
    gap, recorded_gap
        Mean relative distance from the best value known, today and when it was recorded; ``None`` where nothing is known.
    faults
        Why the check fails.
    """

    suite: str
    name: str
    windows: int
    gap: float | None
    recorded_gap: float | None
    faults: tuple[Fault, ...]


def judge(outcomes: Sequence[Outcome], recorded: Recorded) -> list[Verdict]:
    """Compare outcomes with what was recorded for the same windows, one verdict a suite and name."""
    groups: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.suite, outcome.name].append(outcome)
    return [_verdict(group, recorded) for group in groups.values()]


def _verdict(group: list[Outcome], recorded: Recorded) -> Verdict:
    faults = [Fault(f"{o.window}: {o.fault}") for o in group if o.fault]
    missing = [o.window for o in group if recorded.value(o) is None]
    if missing:
        what = f"{missing[0]} and {len(missing) - 1} more windows have" if len(missing) > 1 else f"{missing[0]} has"
        faults.append(Fault(f"{what} no recorded value; run routepack check --update", acceptable=True))
    faults += [fault for o in group if o.name in CONSTRUCTIVE and (fault := _other_plan(o, recorded)) is not None]
    pairs = [(o, known[0]) for o in group if (known := recorded.value(o)) is not None]
    gap = _mean_gap([(o, o.value) for o, _ in pairs], recorded)
    before = _mean_gap(pairs, recorded)
    if gap is not None and before is not None and gap > before + (BOUND_SLACK if group[0].is_bound else SLACK):
        faults.append(Fault(f"mean gap {100 * gap:.3f} % is above the recorded {100 * before:.3f} %"))
    return Verdict(group[0].suite, group[0].name, len(group), gap, before, tuple(faults))


def _other_plan(outcome: Outcome, recorded: Recorded) -> Fault | None:
    """Where a plan follows from rules, it must be the recorded one, with the recorded score."""
    known = recorded.value(outcome)
    if known is None or known == (outcome.value, outcome.digest) or outcome.fault:
        return None
    value, digest = known
    what = "the recorded plan" if digest == outcome.digest else "another plan than recorded (a rule for ties changed?)"
    return Fault(
        f"{outcome.window}: {what} scores {list(outcome.value)}, recorded {list(value)}", acceptable=bool(value) and outcome.value <= value
    )


def _mean_gap(pairs: Iterable[tuple[Outcome, tuple[int, ...]]], recorded: Recorded) -> float | None:
    gaps = []
    for outcome, value in pairs:
        best = recorded.best.get(window_of(outcome), {}).get("value")
        if best and best[0] and value:
            ratio = value[0] / best[0] - 1
            gaps.append(-ratio if outcome.is_bound else ratio)
    return math.fsum(gaps) / len(gaps) if gaps else None


def update(outcomes: Sequence[Outcome], path: Path) -> list[Verdict]:
    """
    Record outcomes, all of them verified, unless something is worse than recorded.

    Raises
    ------
    RoutePackError
        An outcome is wrong or worse; the first is named and nothing is written.
    """
    recorded = read(path)
    verdicts = judge(outcomes, recorded)
    for verdict in verdicts:
        for fault in verdict.faults:
            if not fault.acceptable:
                raise RoutePackError(
                    f"update refused: {verdict.suite} {verdict.name}: {fault.text}; mend it, or take its values out of {path} by hand."
                )
    keep = {
        (v.suite, v.name)
        for v in verdicts
        if v.gap is not None and v.recorded_gap is not None and v.gap > v.recorded_gap and v.name not in CONSTRUCTIVE
    }
    renewed = improved(recorded, outcomes, keep)
    write(path, renewed)
    return judge(outcomes, renewed)
