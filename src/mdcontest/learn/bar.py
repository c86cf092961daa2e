"""Progress bars of training runs: steps a second, return, margin against the first policy, time left."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from mdcontest.learn.logs import Progress


def summary(report: Progress) -> str:
    """The numbers a person wants to see while waiting: steps a second, return, margin against the first policy."""
    reward = "–" if report.episode_return is None else f"{report.episode_return:.4g}"
    return f"{report.steps_per_second:,.0f}/s  return {reward}  margin {report.margin_vs_first:+.3f}"


@contextlib.contextmanager
def training_bars(labels: dict[str, str], show: bool) -> Iterator[Callable[[str, Progress], None]]:
    """One bar a run, labelled by its key; gives a function of a key and progress. Silent without a terminal."""
    if not (show and sys.stderr.isatty()):
        yield lambda key, progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars
    from rich.table import Column

    columns = (  # 80 characters wide; a long name gives way first
        TextColumn("{task.description}", table_column=Column(max_width=25, no_wrap=True)),
        BarColumn(bar_width=8),
        TaskProgressColumn(),
        TextColumn("{task.fields[summary]}", table_column=Column(min_width=32, no_wrap=True)),
        TimeRemainingColumn(compact=True),
    )
    with Bars(*columns, console=Console(stderr=True)) as bars:
        entries = {key: bars.add_task(label, total=None, summary="starting …") for key, label in labels.items()}
        yield lambda key, progress: bars.update(
            entries[key], completed=progress.steps, total=progress.target, summary=summary(progress)
        )
