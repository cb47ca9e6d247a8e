"""Capacity-coupled bound: rows are few and full, so the shard of the longest sample cannot be emptied elsewhere."""

from typing import NamedTuple

import numpy as np

from routepack.bounds.linear_program import FloatArray, LinearProgram
from routepack.score_certificate import SCALE, LevelCertificate, ScoreData, level_floors
from routepack.window import IntArray

NUM_LEVELS = 24
NUM_SINGLES = 48
NUM_GROUPS = 96
LP_SECONDS = 10.0
INT64_MAX = (1 << 63) - 1  # files hold no larger multipliers; smaller ones are as valid


def capacity_bound(data: ScoreData) -> LevelCertificate | None:
    """
    Find multipliers for `LevelCertificate` by a linear program over groups of similar units.

    Units are sorted by attention; the foremost stand alone, the others are summed in groups of neighbours. The multipliers are valid for
    the ungrouped units whatever the program says.

    Parameters
    ----------
    data
        Window, rows and placement, as sums.

    Returns
    -------
    LevelCertificate | None
        ``None`` where all attention is zero or the program was not solved.
    """
    if not int(data.attention.max()):
        return None
    levels = _levels(data)
    floors = level_floors(data.attention, levels)
    program, rows = _program(data, _groups(data), levels, floors)
    solved = program.duals(LP_SECONDS)
    return None if solved is None else _certificate(data, levels, rows, solved[1] * program_unit(data))


def program_unit(data: ScoreData) -> float:
    """Ticks to which the program is scaled: the attention of the foremost unit."""
    return float(data.attention.max())


def _levels(data: ScoreData) -> tuple[int, ...]:
    """Attention at which another row-shard must open, thinned to a few, and quantiles below."""
    ticks = -np.sort(-data.attention)
    tokens = np.cumsum(data.lengths[np.argsort(-data.attention, kind="stable")])
    opens = np.flatnonzero(np.diff(-(-tokens // (data.slots * data.token_cap)), prepend=0))
    exclusive = np.flatnonzero(2 * data.lengths[np.argsort(-data.attention, kind="stable")] > data.token_cap)[:: data.slots]
    marks = np.unique(np.concatenate([[0], opens, exclusive]))
    if len(marks) > NUM_LEVELS:
        marks = marks[np.unique(np.geomspace(1, len(marks), NUM_LEVELS).astype(int) - 1)]
    levels = set(ticks[marks].tolist())
    below = ticks[np.minimum(marks + 1, len(ticks) - 1)]  # the level that excludes the marked unit
    return tuple(sorted(levels | set(below.tolist())))


def _groups(data: ScoreData) -> list[IntArray]:
    order = np.argsort(-data.attention, kind="stable")
    singles, rest = order[:NUM_SINGLES], order[NUM_SINGLES:]
    groups = [singles[k : k + 1] for k in range(len(singles))]
    if len(rest):
        groups += list(np.array_split(rest, min(NUM_GROUPS, len(rest))))
    return groups


class _Rows(NamedTuple):
    """Row numbers whose duals are the multipliers."""

    shard: list[int]
    expert: int
    mean: list[list[int]]
    tokens: list[list[int]]
    cover: list[int]
    home: int


def _program(data: ScoreData, groups: list[IntArray], levels: tuple[int, ...], floors: list[int]) -> tuple[LinearProgram, _Rows]:
    program = LinearProgram()
    unit = program_unit(data)
    kinds = range(1 if data.shards == 1 else 2)
    makespan = program.column(1.0)
    count = [[program.column() for _ in levels] for _ in kinds]
    cost = [[program.column() for _ in levels] for _ in kinds]
    expert = [program.column() for _ in kinds]
    room = float(data.slots * data.token_cap)
    divisor = float(data.weight_scale * data.parts)
    share = [[(c, -1.0) for c in cost[kind]] + [(expert[kind], -1.0)] for kind in kinds]
    shard = [program.row([(makespan, 1.0 if kind == 0 else data.shards - 1.0), *share[kind]], 0.0) for kind in kinds]
    total = program.row([(x, 1.0) for x in expert], data.expert_total / data.parts / unit)
    mean_terms: list[list[list[tuple[int, float]]]] = [[[(c, 1.0)] for c in cost[kind]] for kind in kinds]
    token_terms: list[list[list[tuple[int, float]]]] = [[[(n, 1.0)] for n in count[kind]] for kind in kinds]
    expert_terms: list[list[tuple[int, float]]] = [[(x, 1.0)] for x in expert]
    for group in groups:
        ticks, tokens = float(data.attention[group].sum()) / data.slots / unit, float(data.lengths[group].sum()) / room
        weight = float(data.weights[group].sum()) / divisor / unit
        first = int(np.searchsorted(np.array(levels), int(data.attention[group].max())))
        placed = []
        for kind in kinds:
            for k in range(first, len(levels)):
                y = program.column()
                placed.append((y, 1.0))
                mean_terms[kind][k].append((y, -ticks))
                token_terms[kind][k].append((y, -tokens))
                expert_terms[kind].append((y, -weight))
        program.row(placed, 1.0, equal=True)
    for kind in kinds:
        for k, floor in enumerate(floors):
            program.row([(cost[kind][k], 1.0), (count[kind][k], -floor / unit)], 0.0)
        program.row([(n, 1.0) for n in count[kind]], data.rows * (1.0 if kind == 0 else data.shards - 1.0), equal=True)
        program.row(expert_terms[kind], 0.0)
    mean = [[program.row(terms, 0.0) for terms in mean_terms[kind]] for kind in kinds]
    token = [[program.row(terms, 0.0) for terms in token_terms[kind]] for kind in kinds]
    cover = []
    for k, floor in enumerate(floors):
        least = float(data.row_shards_over(floor))
        cover.append(program.row([(n, 1.0) for kind in kinds for n in count[kind][k:]], least))
    home = program.row([(count[0][-1], 1.0)], 1.0)
    return program, _Rows(shard, total, mean, token, cover, home)


def _certificate(data: ScoreData, levels: tuple[int, ...], rows: _Rows, dual: FloatArray) -> LevelCertificate:
    """Round the duals into the ranges that the certificate asks for; prices are per token and in ticks, weights have no unit."""
    unit, room = program_unit(data), data.slots * data.token_cap

    def scaled(values: list[int], divisor: float) -> tuple[int, ...]:
        return tuple(min(INT64_MAX, max(0, round(float(dual[row]) / divisor * SCALE))) for row in values)

    weights = scaled(rows.shard, unit)
    home = min(weights[0], SCALE)
    other = 0 if data.shards == 1 else (SCALE - home) // (data.shards - 1)
    kinds = (home,) if data.shards == 1 else (home, other)
    none = tuple(0 for _ in levels)
    mean = [tuple(min(w, kinds[kind]) for w in scaled(rows.mean[kind], unit)) for kind in range(len(kinds))]
    token = [scaled(rows.tokens[kind], room) for kind in range(len(kinds))]
    return LevelCertificate(
        levels=levels,
        kind_weight=(home, other),
        expert_weight=min(scaled([rows.expert], unit)[0], *kinds, SCALE),
        mean_weight=(mean[0], mean[1] if len(mean) > 1 else none),
        token_price=(token[0], token[1] if len(token) > 1 else none),
        cover_price=scaled(rows.cover, 1.0),
        home_price=scaled([rows.home], 1.0)[0],
    )
