"""One self-contained HTML page of sections: inline figures, tables that sort, files to keep; nothing from outside."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from os import PathLike

import jinja2

import mdcontest
from mdcontest.files import atomic_write

MISSING = "—"
"""A cell without a value; sorted to the end."""
NUMBER = re.compile(r"[+−-]?(\d[\d,]*\.?\d*(e[+−-]?\d+)?|∞)($|[\s%\[])", re.ASCII)
"""What a cell of a column of numbers begins with; units and intervals may follow."""
FEW_WARNINGS = 6
"""More are folded away."""


@dataclass(frozen=True)
class InlineFigure:
    """An <svg> element and what it shows, for readers that cannot see it."""

    label: str
    svg: str


@dataclass(frozen=True)
class Table:
    """Rows of text; a column of numbers is set to the right, and sorted by them."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    sortable: bool = False
    prose: bool = False
    """Whether its cells are sentences, broken where the page is narrow."""

    @property
    def numeric(self) -> list[bool]:
        """Whether every cell of a column is a number, or missing."""
        return [all(_is_number(row[i]) for row in self.rows) for i in range(len(self.columns))]


@dataclass(frozen=True)
class Download:
    """A file inside the page."""

    name: str
    content: str
    about: str = ""

    @property
    def address(self) -> str:
        """The whole file as an address."""
        return "data:text/csv;charset=utf-8;base64," + base64.b64encode(self.content.encode(errors="replace")).decode()


@dataclass(frozen=True)
class Details:
    """Tables that are folded away until somebody asks for them."""

    title: str
    tables: Sequence[Table]


@dataclass(frozen=True)
class Section:
    """A part of the page: a contest, or one view on a study."""

    title: str
    about: str = ""
    small_print: str = ""
    """Numbers and how they came about."""
    figures: Sequence[Sequence[InlineFigure]] = ()
    """Columns of figures, side by side where the page is wide enough."""
    tables: Sequence[Table] = ()
    downloads: Sequence[Download] = ()
    details: Sequence[Details] = ()
    even: bool = False
    """Whether figures share the width evenly, rather than keeping the sizes they were drawn in."""


def write_page(
    path: str | PathLike[str],
    title: str,
    sections: Sequence[Section],
    lead: str = "",
    warnings: Sequence[str] = (),
) -> None:
    """Write the page; what was there before is replaced only once the new one is complete."""
    template = resources.files("mdcontest.report").joinpath("page.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    page = environment.from_string(template).render(
        title=title,
        version=mdcontest.__version__,
        lead=lead,
        warnings=list(warnings),
        few=FEW_WARNINGS,
        sections=[(f"part-{i}", section, _inline(section, i)) for i, section in enumerate(sections, 1)],
    )
    with atomic_write(path) as file:
        file.write(page.encode(errors="replace"))


def _inline(section: Section, number: int) -> list[list[str]]:
    """The figures of a section, ready for the page."""
    return [
        [_element(figure, f"f{number}-{i}-{j}-") for j, figure in enumerate(column)]
        for i, column in enumerate(section.figures)
    ]


def _element(figure: InlineFigure, prefix: str) -> str:
    """An <svg> with a label, whose names no other figure of the page has."""
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}", figure.svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(figure.label)}" ', 1)


def _is_number(cell: str) -> bool:
    return cell in ("", MISSING) or NUMBER.match(cell) is not None
