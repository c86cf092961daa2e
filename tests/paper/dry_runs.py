"""What the tests of dry runs read off their tables."""

from __future__ import annotations

import re


def rows_of(said):
    """(task, algorithm) → runs, done, steps left, of the table; its last line tells the totals."""
    lines = [line.split() for line in said.splitlines()]
    found = [line for line in lines if len(line) == 7 and line[2].isdigit()]
    return {(line[0], line[1]): [int(cell.replace(",", "")) for cell in line[2:5]] for line in found}


def hours_of(said):
    return float(re.search(r"about ([\d.]+) core hours", said)[1])
