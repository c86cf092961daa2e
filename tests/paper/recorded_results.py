"""What the tests of paper/ share: runs as the paper sets them, recorded, and rows of the page about them."""

from __future__ import annotations

import re

import recorded

from mdcontest import tasks
from mdcontest.experiments.store import Store
from mdcontest.learn.algorithms import ALGORITHMS


def rows_with(page, cells):
    """Rows of the tables with so many columns; a bar within a cell is written with a backslash."""
    split = [re.split(r"(?<!\\)\|", line)[1:-1] for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in split if len(row) == cells]


def paper_settings(task, algorithm):
    return ALGORITHMS[algorithm].choose_settings(tasks.make(task), "paper", {}).record()


def record_runs(folder, results):
    tables = {name: [] for name in recorded.SCHEMAS}
    for run in Store(folder).runs:
        recorded.merge(tables, run)
    recorded.write_tables(tables, results)
