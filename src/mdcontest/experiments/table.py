"""What a person sees while a sweep runs: a table that lives, or lines where nobody watches."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mdcontest.experiments.engine import DONE, FAILED, RUNNING, WAITING, Entry, Watch
from mdcontest.experiments.jobs import TRAIN
from mdcontest.learn.logs import Logs, Progress

SHOWN = 16
"""Running jobs in the table; more are counted."""
TAIL = 4096
"""Bytes of a log that hold its last row."""


def last_progress(folder: str | Path) -> Progress | None:
    """The newest row of a run's progress.csv; None where there is none yet."""
    try:
        with open(Path(folder) / Logs.PROGRESS, "rb") as file:
            names = file.readline().decode().strip().split(",")
            start, size = file.tell(), file.seek(0, 2)
            file.seek(max(start, size - TAIL))
            rows = file.read().decode().rsplit("\n", 2)
        values = [float(text) if text else None for text in rows[-2].split(",")]
        row: dict[str, Any] = dict(zip(names, values, strict=True))
        whole = {name: int(row[name]) for name in ("iteration", "steps", "target")}
        return Progress(**(row | whole))
    except (OSError, ValueError, IndexError, KeyError, TypeError):  # not there yet, or just being written
        return None


@contextlib.contextmanager
def sweep_table(show: bool) -> Iterator[Watch]:
    """A function that is shown the jobs now and then. On a terminal a live table, elsewhere a line a finished job."""
    if not show:
        yield lambda entries, changed: None
        return
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.live import Live

    began = time.monotonic()
    with Live(console=Console(stderr=True), refresh_per_second=2, transient=True) as live:
        yield lambda entries, changed: live.update(draw(entries, began))


class _Lines:
    """One line a job that is done or has failed."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def __call__(self, entries: list[Entry], changed: bool) -> None:
        if not changed:
            return
        for entry in entries:
            if entry.state in (DONE, FAILED) and entry.began and entry.job.key not in self._told:
                self._told.add(entry.job.key)
                done = sum(one.state == DONE for one in entries)
                words = entry.state if entry.error is None else f"{entry.state}: {entry.error}"
                print(f"[{done}/{len(entries)}] {entry.job.label}: {words}", file=sys.stderr, flush=True)


def draw(entries: list[Entry], began: float) -> Any:
    """The table: counts, the running jobs with speed and time left, and what has failed last."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    states = [entry.state for entry in entries]
    running = [entry for entry in entries if entry.state == RUNNING]
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("running", "done", "steps/s", "left", "return"):
        table.add_column(name, justify="left" if name == "running" else "right", no_wrap=name != "running")
    for entry in running[:SHOWN]:
        table.add_row(*_row(entry))
    if len(running) > SHOWN:
        table.add_row(f"… and {len(running) - SHOWN} more")
    left = seconds_left(entries)
    counts = (
        f"{states.count(DONE)} done, {len(running)} running, {states.count(WAITING)} waiting, "
        f"{states.count(FAILED)} failed; {clock(time.monotonic() - began)} so far"
        + (f", training takes about {clock(left)} more" if left is not None else "")
    )
    failed = [entry for entry in entries if entry.state == FAILED][-3:]
    troubles = [Text(f"failed: {entry.job.label}: {entry.error}", style="red") for entry in failed]
    return Group(Text(counts), table, *troubles)


def _row(entry: Entry) -> list[str]:
    seen = last_progress(entry.job.folder) if entry.job.kind == TRAIN else None
    if seen is None:
        return [entry.job.label, "–", "–", f"since {clock(time.monotonic() - entry.began)}", "–"]
    left = clock(seen.seconds_left) if seen.steps_per_second else "–"
    reward = "–" if seen.episode_return is None else f"{seen.episode_return:.4g}"
    return [entry.job.label, f"{seen.steps / seen.target:.0%}", f"{seen.steps_per_second:,.0f}", left, reward]


def seconds_left(entries: list[Entry]) -> float | None:
    """Steps that are left over the speed at which they go now; None before anything goes."""
    steps, speed = 0.0, 0.0
    for entry in entries:
        if entry.job.kind == TRAIN and entry.state in (RUNNING, WAITING):
            seen = last_progress(entry.job.folder)
            steps += entry.job.content["steps"] if seen is None else max(0, seen.target - seen.steps)
            speed += seen.steps_per_second if seen is not None and entry.state == RUNNING else 0.0
    return steps / speed if speed else None


def clock(seconds: float) -> str:
    """1:02:03, or 2:03."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
