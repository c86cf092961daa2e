"""`mdcontest demo`: solve the shipped contests, train on Reacher-NT, print tables, write a report."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table

from mdcontest import examples
from mdcontest.demo.contests import COLUMNS, draw, overview, solve_example, table_row
from mdcontest.errors import InputError
from mdcontest.report.page import write_page


def run_demo(folder: Path, iterations: int, steps: int = 0, jobs: int = 2) -> int:
    """Everything above; the exit code is 0 if each contest is solved and certified, and each run finished."""
    if iterations < 10:
        raise InputError(f"the demo needs at least 10 iterations of HPI, got {iterations}")
    try:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror}") from None
    console = Console()
    with Progress(SpinnerColumn(), TextColumn("{task.description}"), console=console, transient=True) as status:
        task = status.add_task("starting", total=None)
        solved = []
        for name in examples.EXAMPLES:
            status.update(task, description=f"solving {name}")
            solved.append(solve_example(name, iterations))
        status.update(task, description="drawing")
        sections = [draw(one, iterations, folder / "figures") for one in solved]
    rows = [table_row(one, iterations) for one in solved]
    title = f"Shipped contests: linear program, and HPI after {iterations} iterations"
    print_table(console, title, COLUMNS, rows)
    page, before = folder / "report.html", [overview(rows), *sections]
    if steps:
        from mdcontest.demo.learning import LEARNING_COLUMNS, learning_rows, study
        from mdcontest.report.study_page import write_report

        store = study(folder / "runs", steps, jobs)
        told = f"Reacher-NT after {steps} steps: where the finger is, and brackets of the gap"
        print_table(console, told, LEARNING_COLUMNS, learning_rows(store))
        write_report(store, page, title="Preferences learned and contests solved", after=before)
    else:
        write_page(page, f"Shipped contests, solved exactly and by {iterations} iterations of HPI", before)
    console.print(f"report: {page}", soft_wrap=True)
    return 0 if all(one.ok for one in solved) else 1


def print_table(console: Console, title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A table that fits 80 columns; names to the left, numbers to the right."""
    table = Table(title=title, box=box.SIMPLE, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)
