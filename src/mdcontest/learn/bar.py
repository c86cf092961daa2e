"""The progress bar of a training run: steps a second, return, margin against the first policy, time left."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from mdcontest.learn.logs import Progress


def summary(report: Progress) -> str:
    """The numbers a person wants to see while waiting."""
    reward = "   –" if report.episode_return is None else f"{report.episode_return:.4g}"
    return f"{report.steps_per_second:,.0f} steps/s  return {reward}  margin vs first {report.margin_vs_first:+.3g}"


@contextlib.contextmanager
def training_bar(task: str, algorithm: str, seed: int, show: bool) -> Iterator[Callable[[Progress], None]]:
    """A function to call after each iteration; silent where nobody is watching."""
    if not (show and sys.stderr.isatty()):
        yield lambda report: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn(f"{task} {algorithm} seed {seed}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TextColumn("{task.fields[summary]}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        entry = bar.add_task("", total=None, summary="compiling …")
        yield lambda report: bar.update(entry, completed=report.steps, total=report.target, summary=summary(report))
