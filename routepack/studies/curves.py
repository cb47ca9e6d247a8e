"""Curves over one axis, with a legend whose entries switch them off and on."""

import math
from collections.abc import Sequence

from routepack.studies.charts import CURVES, LEFT, LINE, RIGHT, WIDTH, short, svg, text, ticks
from routepack.studies.page import Markup, tag

LONGEST_NAME = 48

Points = Sequence[tuple[float, float]]


def curves(
    series: Sequence[tuple[str, Points]], *, label: str, axes: tuple[str, str], log_x: bool = False, top: float = 100.0, floor: float = 0.0
) -> Markup:
    """
    Draw step curves: a value holds until the next point.

    Parameters
    ----------
    series
        Name and points of each curve, by rising x; with ``log_x`` above 0.
    label
        What the chart shows.
    axes
        What x and y are.
    log_x
        Draw x by its logarithm.
    top, floor
        Highest and lowest y; with a floor above 0, y is drawn by its logarithm and what is lower lies on the floor.
    """
    height, head = 230.0, 1.4 * LINE
    xs = [x for _, points in series for x, _ in points]
    low, high = (min(xs), max(xs)) if xs else (0.0, 1.0)
    if low == high:
        low, high = (low / 2, high * 2) if log_x else (low - 0.5, high + 0.5)
    high *= 1.1 if log_x else 1.0  # room for a curve that begins at the last moment

    def at_x(x: float) -> float:
        share = math.log(x / low) / math.log(high / low) if log_x else (x - low) / (high - low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def at_y(y: float) -> float:
        y = min(max(y, floor), top)
        return head + height * (1 - (math.log(y / floor) / math.log(top / floor) if floor else y / top))

    parts: list[Markup] = [text(LEFT, 12, axes[1], class_="soft")]
    for value in _powers(floor, top) if floor else ticks(0, top):
        rule = f"M{LEFT:g} {at_y(value):.5g}H{WIDTH - RIGHT:g}"
        parts += [tag("path", d=rule, class_="grid"), text(LEFT - 6, at_y(value) + 4.5, short(value), "end", "soft")]
    for value in _powers(low, high) if log_x else ticks(low, high):
        parts.append(text(at_x(value), head + height + LINE, short(value), "middle", "soft"))
    parts.append(text(WIDTH - RIGHT, head + height + 2 * LINE, axes[0], "end", "soft"))
    for n, (name, points) in enumerate(series):
        if points:
            steps = "".join(f"H{at_x(x):.5g}V{at_y(y):.5g}" for x, y in points[1:])
            path = f"M{at_x(points[0][0]):.5g} {at_y(points[0][1]):.5g}{steps}H{WIDTH - RIGHT:g}"
            title = tag("title", f"{name}: {points[0][1]:.4g} at first, {points[-1][1]:.4g} at last")
            colour, dash = _look(n)
            parts.append(tag("path", title, d=path, class_="curve", stroke=colour, stroke_dasharray=dash or None, data_of=str(n)))
    bottom = head + height + 2.6 * LINE
    return svg(bottom + len(series) * LINE + 4, label, *parts, *_legend([name for name, _ in series], bottom))


def _look(n: int) -> tuple[str, str]:
    """Colour and dash of a curve; when the colours come round again, the dashes have moved on."""
    return CURVES[n % len(CURVES)][0], CURVES[(n + n // len(CURVES)) % len(CURVES)][1]


def _powers(low: float, high: float) -> list[float]:
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1,) if len(exponents) > 4 else (1, 3) if len(exponents) > 3 else (1, 2, 5)
    return [f * 10.0**e for e in exponents for f in factors if low <= f * 10.0**e <= high]


def _legend(names: Sequence[str], y: float) -> list[Markup]:
    entries = []
    for n, name in enumerate(names):
        colour, dash = _look(n)
        at = y + n * LINE
        line = tag("path", d=f"M{LEFT:g} {at + 8:g}h28", stroke=colour, stroke_width=2.5, stroke_dasharray=dash or None)
        entries.append(
            tag(
                "g",
                line,
                text(LEFT + 36, at + 13, name),
                data_curve=str(n),
                role="button",
                tabindex="0",
                aria_pressed="true",
                cursor="pointer",
            )
        )
    return entries
