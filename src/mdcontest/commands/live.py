"""Progress of several runs at once: a bar each in a terminal, nothing elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mdcontest.learn.spec import RunSpec


@contextlib.contextmanager
def live_table(specs: list[RunSpec], show: bool) -> Iterator[Callable[[Any, Any], None]]:
    """A function to call with a run and its progress."""
    if not (show and sys.stderr.isatty()):
        yield lambda spec, progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from mdcontest.learn.bar import summary

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TextColumn("{task.fields[summary]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        entries = {
            spec.folder: bars.add_task(f"{spec.task} {spec.algorithm} seed {spec.seed}", total=None, summary="waiting")
            for spec in specs
        }

        def report(spec: RunSpec, progress: Any) -> None:
            bars.update(
                entries[spec.folder], completed=progress.steps, total=progress.target, summary=summary(progress)
            )

        yield report
