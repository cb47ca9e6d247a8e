"""A self-contained HTML page: nouns of a report and how they are written; everything that is not markup already is escaped."""

import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from routepack import __version__

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


SMALL_TABLE = 4  # columns that fit beside a figure
_UNWRITABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Markup(str):
    """Text that is HTML or SVG already."""

    __slots__ = ()


def escape(content: str) -> str:
    """Write text so that HTML and XML take it for nothing else; characters that they cannot hold are replaced."""
    return html.escape(_UNWRITABLE.sub("\ufffd", content))


def tag(name: str, *children: str, **attributes: str | float | None) -> Markup:
    """
    Write an element; children that are not `Markup` are escaped, and so are the values of attributes.

    Parameters
    ----------
    name
        Of the element.
    children
        Text and elements inside.
    attributes
        Underscores stand for hyphens, one at the end keeps a name clear of Python's; ``None`` leaves an attribute out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value if isinstance(value, str) else f"{value:g}")}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def join(children: Sequence[str]) -> Markup:
    """Put elements and texts one after another."""
    return Markup("".join(child if isinstance(child, Markup) else escape(child) for child in children))


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with what it shows in words; ``name`` is that of its file."""

    name: str
    caption: str
    svg: Markup


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers in words: a caption, columns, and rows whose first entry names them; ``folded`` tables open on demand."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, what is to be seen, and what shows it."""

    heading: str
    text: str
    contents: tuple[Figure | Table, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """
    What a page says.

    Parameters
    ----------
    title
        Of the window or the study.
    verdict
        The one line that is read first.
    cards
        Few numbers that matter, each with its name and a remark.
    sections
        The rest.
    facts
        The same numbers for programs; the page carries them as JSON.
    """

    title: str
    verdict: str
    cards: tuple[tuple[str, str, str], ...]
    sections: tuple[Section, ...]
    facts: dict[str, Any]

    @property
    def figures(self) -> list[Figure]:
        """All charts, in order."""
        return [part for section in self.sections for part in section.contents if isinstance(part, Figure)]


def render(report: Report) -> str:
    """Write a report as one HTML page that needs nothing from elsewhere."""
    head = join(
        [
            Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
            Markup('<meta name="color-scheme" content="light dark">'),
            tag("title", f"{report.title} - RoutePack"),
            tag("style", Markup(_asset("page.css") + _asset("charts.css"))),
        ]
    )
    cards = [
        tag("div", tag("dt", name), tag("dd", tag("strong", value), tag("small", remark)), class_="card")
        for name, value, remark in report.cards
    ]
    body = join(
        [
            tag("header", tag("h1", report.title), tag("p", report.verdict, class_="verdict"), tag("dl", *cards)),
            tag("main", *map(_section, report.sections)),
            tag("footer", f"RoutePack {__version__}. Everything here is recomputed from the data; nothing is loaded from a network."),
            Markup('<div id="tip" role="status" hidden></div>'),
            tag("script", Markup(json_text(report.facts)), type="application/json", id="facts"),
            tag("script", Markup(_asset("page.js"))),
        ]
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def standalone(figure: Figure) -> str:
    """Write a chart as an SVG file with its own style."""
    start = figure.svg.index(">") + 1
    return f"{figure.svg[:start]}<style>{_asset('charts.css')}</style>{figure.svg[start:]}\n"


def json_text(facts: dict[str, Any]) -> str:
    """Write JSON that no browser takes for the end of a script."""
    return json.dumps(facts, allow_nan=False).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _section(section: Section) -> Markup:
    parts = [_figure(part) if isinstance(part, Figure) else _table(part) for part in section.contents]
    return tag("section", tag("h2", section.heading), tag("p", section.text), tag("div", *parts, class_="parts"))


def _figure(figure: Figure) -> Markup:
    return tag("figure", figure.svg, tag("figcaption", figure.caption), id=figure.name)


def _table(table: Table) -> Markup:
    head = tag("tr", *(tag("th", column, scope="col") for column in table.columns))
    rows = [tag("tr", tag("th", row[0], scope="row"), *(tag("td", entry) for entry in row[1:])) for row in table.rows]
    body = tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="scroll", tabindex="0")
    if table.folded:
        return tag("details", tag("summary", table.caption), body, class_="wide")
    wide = "wide" if len(table.columns) > SMALL_TABLE else "table"
    return tag("div", tag("p", table.caption, class_="caption"), body, class_=wide)


def _asset(name: str) -> str:
    return (files("routepack.studies") / name).read_text(encoding="utf-8")
