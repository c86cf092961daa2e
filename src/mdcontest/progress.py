"""A progress bar on standard error for solves that take longer than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mdcontest.solvers.base import Progress, Report, silent

PATIENCE = 1.0
"""Seconds before a bar appears: quick solves stay silent."""


@contextmanager
def progress_bar(show: bool = True) -> Iterator[Report]:
    """A `progress` argument for `solve`: iterations, certified gap, time left. Silent where nobody is watching."""
    if not (show and sys.stderr.isatty()):
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=Console(stderr=True),
        transient=True,
    )
    task, began = bar.add_task("solving", total=None, left=""), time.monotonic()

    def report(progress: Progress) -> None:
        if not bar.live.is_started:
            if time.monotonic() - began < PATIENCE:
                return
            bar.start()
        words = "solving" if progress.gap is None else f"solving, gap {progress.gap:.2e}"
        left = "" if progress.left is None else f"about {in_words(progress.left)} left"
        bar.update(task, completed=progress.iteration, total=progress.of, description=words, left=left)

    try:
        yield report
    finally:
        if bar.live.is_started:
            bar.stop()


def in_words(seconds: float) -> str:
    """A length of time in its largest unit: 40 s, 3 min, 2 h."""
    for unit, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 1.5 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


@contextmanager
def counting_bar(label: str, total: int, show: bool = True) -> Iterator[Callable[[int], None]]:
    """A function that says how many more of `total` are done; a bar for whoever watches standard error."""
    if not (show and sys.stderr.isatty()):
        yield lambda more: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda more: bar.advance(task, more)
