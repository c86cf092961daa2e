"""One self-contained HTML page: no script, no asset from outside, figures inline."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from os import PathLike

import jinja2

import mdcontest
from mdcontest.files import atomic_write


@dataclass(frozen=True)
class InlineFigure:
    """An <svg> element and what it shows, for readers that cannot see it."""

    label: str
    svg: str


@dataclass(frozen=True)
class Section:
    """A contest or a study on the page."""

    title: str
    about: str
    conditions: str
    """Small print: numbers and how they came about."""
    figures: list[list[InlineFigure]]
    """Columns of figures, side by side where the page is wide enough."""


def write_page(
    path: str | PathLike[str], title: str, columns: list[str], rows: list[list[str]], sections: list[Section]
) -> None:
    """Write the page; what was there before is replaced only once the new one is complete."""
    template = resources.files("mdcontest.report").joinpath("page.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    page = environment.from_string(template).render(
        title=title, version=mdcontest.__version__, columns=columns, rows=rows, sections=sections
    )
    with atomic_write(path) as file:
        file.write(page.encode())
