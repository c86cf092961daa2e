"""A progress bar on standard error for solves that take longer than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from mdcontest.solvers.base import Progress, Report, silent

PATIENCE = 1.0
"""Seconds before a bar appears: quick solves stay silent."""


@contextmanager
def progress_bar(show: bool = True) -> Iterator[Report]:
    """A `progress` argument for `solve`: iterations, newest gap, time left. Silent where nobody is watching."""
    if not (show and sys.stderr.isatty()):
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task, began = bar.add_task("solving", total=None), time.monotonic()

    def report(progress: Progress) -> None:
        if not bar.live.is_started:
            if time.monotonic() - began < PATIENCE:
                return
            bar.start()
        words = "solving" if progress.gap is None else f"solving, gap {progress.gap:.2e}"
        bar.update(task, completed=progress.iteration, total=progress.of, description=words)

    try:
        yield report
    finally:
        if bar.live.is_started:
            bar.stop()
