"""The schedule of a sweep: which jobs run, which are tried again, and what is written down about those that fail."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from mdcontest.errors import FileFormatError, InputError
from mdcontest.experiments.jobs import TRAIN, Ending, Job
from mdcontest.files import read_record, write_record
from mdcontest.folders import make_folder
from mdcontest.interrupts import stop_if_asked
from mdcontest.learn.checkpoint import list_checkpoints

FAILURES, FAILURES_FORMAT = "failures.json", "mdcontest/failures"
DEATHS = 50
"""How often in a row a worker may be killed without its run getting any further, before the run counts as failed."""
OTHER_DEATHS = 5
"""The same for a job that keeps nothing between two attempts."""
TICK = 0.5
"""Seconds between two looks at the jobs."""
PATIENCE = 40.0
"""Seconds to wait for workers that were asked to stop, and are killed if they do not."""
WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"


class Executor(Protocol):
    """Where jobs run."""

    @property
    def slots(self) -> int:
        """How many at a time."""

    def start(self, job: Job) -> None:
        """Begin a job."""

    def ended(self, timeout: float) -> list[tuple[Job, Ending]]:
        """Jobs that have ended; waits at most so long for one."""

    def interrupt(self) -> None:
        """Ask all running jobs to stop."""

    def close(self) -> None:
        """End whatever still runs."""


@dataclass
class Entry:
    """A job and how far it is."""

    job: Job
    state: str = WAITING
    errors: int = 0
    deaths: int = 0
    """In a row, without progress."""
    reached: str = ""
    """Its newest checkpoint when it was last started."""
    error: str | None = None
    began: float = 0.0
    notes: list[str] = field(default_factory=list)


Watch = Callable[[list[Entry], bool], None]
"""Is shown all entries now and then; True when something has changed."""


def run_jobs(jobs: Iterable[Job], executor: Executor, retries: int, watch: Watch) -> list[Entry]:
    """Do all jobs. One that reports an error is tried again `retries` times, one that is killed as long as it advances.

    An interrupt asks the running jobs to stop, waits for them, and is then raised.
    """
    if retries < 0:
        raise InputError(f"retries must not be negative, got {retries}")
    entries = [Entry(job) for job in jobs]
    waiting = deque(entries)
    running: dict[str, Entry] = {}
    try:
        while waiting or running:
            while waiting and len(running) < executor.slots:
                entry = waiting.popleft()
                if not _begin(entry, executor):
                    waiting.extend(_follow_ups(entry, entries))
                    continue
                running[entry.job.key] = entry
            changed = False
            for job, ending in executor.ended(TICK):
                changed = True
                entry = running.pop(job.key)
                if _settle(entry, ending, retries):
                    waiting.extend(_follow_ups(entry, entries))
                else:
                    waiting.append(entry)
            watch(entries, changed)
            stop_if_asked()
        watch(entries, True)
    except KeyboardInterrupt:
        _stop(executor, running)
        raise
    finally:
        executor.close()
    return entries


def _begin(entry: Entry, executor: Executor) -> bool:
    """Start it, unless it is done already."""
    try:
        if entry.job.is_done():  # a worker may die after its last word is written and before it is heard
            entry.state, entry.error = DONE, None
            return False
    except InputError as error:
        entry.state, entry.error = FAILED, str(error)
        return False
    entry.state, entry.began, entry.reached = RUNNING, time.monotonic(), _reached(entry.job)
    executor.start(entry.job)
    return True


def _follow_ups(entry: Entry, entries: list[Entry]) -> list[Entry]:
    """Jobs that can begin now."""
    found = [Entry(job) for job in entry.job.then] if entry.state == DONE else []
    entries.extend(found)
    return found


def _settle(entry: Entry, ending: Ending, retries: int) -> bool:
    """Take note of how a job ended; False if it is to be tried again."""
    entry.notes = list(dict.fromkeys([*entry.notes, *ending.notes]))
    if ending.error is None:
        entry.state, entry.error = DONE, None
        return True
    entry.error = ending.error
    if ending.interrupted:  # by somebody else than us: whoever did it wants it to stop
        entry.state = FAILED
        return True
    note_failure(entry.job, ending)
    if ending.died:
        entry.deaths = 1 if _reached(entry.job) != entry.reached else entry.deaths + 1
        again = entry.deaths < (DEATHS if entry.job.kind == TRAIN else OTHER_DEATHS)
    else:
        entry.errors += 1
        again = entry.errors <= retries
    entry.state = WAITING if again else FAILED
    return not again


def _stop(executor: Executor, running: dict[str, Entry]) -> None:
    """Ask all to stop and wait for them, but not for one that can neither stop nor be killed."""
    executor.interrupt()
    patience = time.monotonic() + PATIENCE
    while running and time.monotonic() < patience:
        for job, _ in executor.ended(TICK):
            running.pop(job.key, None)


def _reached(job: Job) -> str:
    with contextlib.suppress(InputError, OSError):
        found = list_checkpoints(Path(job.folder))
        return found[-1].name if found else ""
    return ""


def note_failure(job: Job, ending: Ending) -> None:
    """Add it to RUN/failures.json; a disk that takes nothing more must not end the sweep."""
    with contextlib.suppress(InputError):
        make_folder(Path(job.folder))
        known = read_failures(Path(job.folder))
        now = datetime.now(UTC).isoformat(timespec="seconds")
        known.append({"time": now, "job": job.label, "error": ending.error, "died": ending.died})
        write_record(Path(job.folder) / FAILURES, FAILURES_FORMAT, {"failures": known[-100:]})


def read_failures(folder: Path) -> list[dict[str, Any]]:
    """What went wrong in a run's folder so far, oldest first."""
    path = folder / FAILURES
    if not path.is_file():
        return []
    found = read_record(path, FAILURES_FORMAT, max_bytes=1 << 22).get("failures")
    if not isinstance(found, list):
        raise FileFormatError(f"{path} is damaged: it has no list of failures")
    return found
