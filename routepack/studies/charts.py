"""Charts as SVG: heat maps, bars, timelines and curves, with a title on every mark."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routepack.studies.page import Markup, escape, join, tag

WIDTH = 460.0
LEFT, RIGHT, LINE = 52.0, 12.0, 18.0
# cividis, from dark to light: ordered for every kind of colour vision, and in print
SHADES = ("#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838")
# Okabe and Ito's colours with a dash of their own each; black would vanish in the dark
CURVES = (
    ("#0072b2", ""),
    ("#d55e00", "7 3"),
    ("#009e73", "2 3"),
    ("#cc79a7", "9 3 2 3"),
    ("#e69f00", "5 5"),
    ("#56b4e9", "1 2"),
    ("#8a8678", "12 4"),
)


def short(value: float) -> str:
    """Write a number in few characters: 950, 1.5k, 12M."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def svg(height: float, label: str, *parts: str) -> Markup:
    """Frame a chart of the common width; the label says what it shows to those who do not see it."""
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{escape(label)}">'
    return Markup(f"{frame}{join(parts)}</svg>")


def text(x: float, y: float, content: str, anchor: str = "start", class_: str | None = None) -> Markup:
    """Write a text at a point."""
    return tag("text", content, x=x, y=y, text_anchor=anchor, class_=class_)


def box(x: float, y: float, width: float, height: float, tip: str, look: str) -> Markup:
    """Draw a rectangle with a title; ``look`` is an attribute that is written as it is."""
    return Markup(f'<rect x="{x:.5g}" y="{y:.5g}" width="{width:.5g}" height="{height:.5g}" {look}><title>{escape(tip)}</title></rect>')


def heat_map(
    values: NDArray[Any],
    tip: Callable[[int, int], str],
    *,
    label: str,
    axes: tuple[str, str],
    names: tuple[Sequence[str], Sequence[str]],
    domain: tuple[float, float],
    unit: str,
) -> Markup:
    """
    Draw a matrix as shaded cells with a legend.

    Parameters
    ----------
    values
        Shape (rows, columns).
    tip
        Title of the cell in a row and column.
    label, axes, names
        What the chart shows, what rows and columns are, and the name of each.
    domain
        Values of the darkest and the lightest shade, the same for charts that are compared.
    unit
        What the values are, for the legend.
    """
    rows, columns = values.shape
    width = min(56.0, (WIDTH - LEFT - RIGHT) / columns)
    height = max(3.0, min(24.0, 320.0 / rows))
    low, span = domain[0], max(domain[1] - domain[0], 1e-12)
    shade = np.clip((values - low) / span * len(SHADES), 0, len(SHADES) - 1).astype(int)
    gap = 0.6 if min(width, height) > 5 else 0.0
    top = 2 * LINE
    cells = [
        box(LEFT + j * width, top + i * height, width - gap, height - gap, tip(i, j), f'fill="{SHADES[shade[i, j]]}"')
        for i in range(rows)
        for j in range(columns)
    ]
    every_row, every_column = math.ceil(15 / height), math.ceil(9 * max(2, *map(len, names[1])) / width)
    marks = [text(LEFT - 6, top + (i + 0.5) * height + 4.5, names[0][i], "end", "soft") for i in range(0, rows, every_row)]
    marks += [text(LEFT + (j + 0.5) * width, top - 5, names[1][j], "middle", "soft") for j in range(0, columns, every_column)]
    titles = [text(LEFT, 13, f"{axes[1]} across, {axes[0]} down", class_="soft")]
    bottom = top + rows * height + 10
    return svg(bottom + 34, label, *titles, *marks, *cells, *_shades(bottom, domain, unit))


def _shades(y: float, domain: tuple[float, float], unit: str) -> list[Markup]:
    step = 12.0
    low, high = (f"{value:.2f}" if abs(value) < 100 else short(value) for value in domain)
    start = LEFT + 7.5 * len(low) + 8
    shades = [box(start + n * step, y + 4, step, 12, unit, f'fill="{shade}"') for n, shade in enumerate(SHADES)]
    end = start + len(SHADES) * step + 6
    return [text(LEFT, y + 15, low, class_="soft"), *shades, text(end, y + 15, f"{high}  {unit}", class_="soft")]


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers from low to high, about as many as asked."""
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-12) / count))
    step *= next((factor for factor in (1, 2, 5) if (high - low) / (step * factor) <= count), 10)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def histogram(edges: Sequence[float], counts: Sequence[int], *, label: str, unit: str) -> Markup:
    """Draw counts between edges as columns, each with its count in the title."""
    top, height = LINE, 170.0
    most = max(counts, default=0) or 1
    scale = (WIDTH - LEFT - RIGHT) / (edges[-1] - edges[0] or 1)
    parts: list[Markup] = []
    for value in ticks(0, most):
        y = top + height * (1 - value / most)
        parts += [_rule(LEFT, y, WIDTH - RIGHT, y), text(LEFT - 6, y + 4.5, short(value), "end", "soft")]
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        tall = height * count / most
        x, tip = LEFT + (low - edges[0]) * scale, f"{low:,.0f} to {high:,.0f} {unit}: {count:,}"
        parts.append(box(x, top + height - tall, max((high - low) * scale - 1, 0.5), tall, tip, 'class="blue"'))
    for value in ticks(edges[0], edges[-1]):
        parts.append(text(LEFT + (value - edges[0]) * scale, top + height + LINE, short(value), "middle", "soft"))
    return svg(top + height + 2.4 * LINE, label, *parts, text(WIDTH - RIGHT, top + height + 2 * LINE, unit, "end", "soft"))


def _rule(x1: float, y1: float, x2: float, y2: float, class_: str = "grid") -> Markup:
    return tag("path", d=f"M{x1:.5g} {y1:.5g}L{x2:.5g} {y2:.5g}", class_=class_)


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of a timeline: from, to, its look (``blue``, ``orange``, ``green`` or ``idle``) and its title."""

    start: float
    end: float
    look: str
    tip: str


def timeline(lanes: Sequence[tuple[str, Sequence[Block]]], *, end: float, label: str, legend: Sequence[tuple[str, str]]) -> Markup:
    """
    Draw lanes of blocks over one axis.

    Parameters
    ----------
    lanes
        Name and blocks of each lane.
    end
        Right end of the axis, the same for charts that are compared.
    label
        What the chart shows.
    legend
        Look and meaning of the blocks.
    """
    height = max(3.0, min(28.0, 360.0 / max(len(lanes), 1)))
    top = 1.6 * LINE
    scale = (WIDTH - LEFT - RIGHT) / (end or 1)
    bottom = top + len(lanes) * height
    parts: list[Markup] = []
    for value in ticks(0, end or 1):
        x = LEFT + value * scale
        parts += [_rule(x, top, x, bottom + 4), text(x, bottom + LINE, short(value), "middle", "soft")]
    gap = 0.5 if height > 6 else 0.0
    every = math.ceil(15 / height)
    for n, (name, blocks) in enumerate(lanes):
        y = top + n * height
        parts += [text(LEFT - 6, y + height / 2 + 4.5, name, "end", "soft")] if n % every == 0 else []
        for b in blocks:
            wide, look = (b.end - b.start) * scale, f'class="{b.look}"'
            width = max(wide - gap, min(wide, 0.4))
            parts.append(box(LEFT + b.start * scale, y + gap, width, height - 2 * gap, b.tip, look))
    return svg(bottom + 1.6 * LINE, label, *parts, *_keys(legend))


def _keys(legend: Sequence[tuple[str, str]]) -> list[Markup]:
    parts, x = [], LEFT
    for look, meaning in legend:
        parts += [tag("rect", x=x, y=3, width=12, height=12, class_=look), text(x + 17, 14, meaning)]
        x += 30 + 7.2 * len(meaning)
    return parts


def waterfall(start: tuple[str, int], steps: Sequence[tuple[str, int]], end: tuple[str, int], *, label: str) -> Markup:
    """Draw how steps lead from one number to another; the axis begins where the smallest number does, so that steps are seen."""
    levels = np.cumsum([start[1], *(size for _, size in steps)]).tolist()
    low, high = min(*levels, end[1]), max(*levels, end[1])
    span = (high - low) or 1
    left, wide, line = LEFT - 40, WIDTH - LEFT + 40 - RIGHT, 44.0
    origin, scale = left + 0.06 * wide, 0.94 * wide / span
    parts, at = [], start[1]
    for n, (name, size, total) in enumerate([(*start, True), *((*step, False) for step in steps), (*end, True)]):
        first, last = (low, size) if total else sorted((at, at + size))
        y = 6 + n * line
        x = left if total else origin + (first - low) * scale
        width = origin + (last - low) * scale - x
        look = "blue" if total else "orange" if size >= 0 else "green"
        number = f"{size:,}" if total else f"{size:+,}"
        parts += [text(left, y + 12, name), text(WIDTH - RIGHT, y + 12, number, "end")]
        parts.append(box(x, y + 17, max(width, 1.5), 14, f"{name}: {number} ticks", f'class="{look}"'))
        at += 0 if total else size
    return svg(len(steps) * line + 2 * line + 10, label, *parts)
