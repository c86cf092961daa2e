"""Jobs as processes of this machine, one thread each."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from typing import Any

from mdcontest.experiments.jobs import Ending, Job
from mdcontest.threads import one_thread

GRACE = 30.0
"""Seconds a worker has to write a checkpoint after an interrupt."""


class Process:
    """A worker and the job it does."""

    def __init__(self, job: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mdcontest.experiments.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",  # whatever a library prints
            env=one_thread(dict(os.environ)),
            close_fds=False,  # lets Python spawn without forking, which a process that has loaded JAX should not do
        )
        self._job = job

    def follow(self) -> Ending:
        """Hand it the job and wait for its end."""
        process, complaints = self._process, list[str]()
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise AssertionError("the worker was started with pipes")
        errors, output, lines = process.stderr, process.stdout, list[str]()
        drains = [
            threading.Thread(target=lambda: complaints.extend(errors), daemon=True),
            threading.Thread(target=lambda: lines.extend(output), daemon=True),
        ]
        for drain in drains:
            drain.start()
        with contextlib.suppress(OSError):  # it may have died already
            process.stdin.write(self._job + "\n")
            process.stdin.flush()  # and stays open: its end tells the worker that nobody waits any more
        code = process.wait()
        for drain in drains:  # a child of an environment may hold the pipes open for longer than the worker lives
            drain.join(timeout=5)
        said = [message for line in lines if (message := _message(line))]
        with contextlib.suppress(OSError):  # of a job that never went through
            process.stdin.close()
        if not any(drain.is_alive() for drain in drains):
            output.close()
            errors.close()
        if said:
            return Ending(said[-1]["error"], False, said[-1]["interrupted"], tuple(said[-1]["notes"]))
        ending = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        last = f": {complaints[-1].strip()}" if complaints and code > 0 else ""
        return Ending(f"its process {ending}{last}", died=code < 0)

    def interrupt(self) -> None:
        """Ask it to stop, and kill it if it does not within a while."""
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGINT)
        timer = threading.Timer(GRACE, self.kill)
        timer.daemon = True
        timer.start()

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self._process.kill()


def _message(line: str) -> dict[str, Any] | None:
    """A worker's line; anything else a library printed is not ours."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and set(message) == {"error", "interrupted", "notes"} else None


class LocalProcesses:
    """At most `jobs` worker processes at a time."""

    def __init__(self, jobs: int) -> None:
        self.slots = jobs
        self._running: dict[str, Process] = {}
        self._ended: queue.Queue[tuple[Job, Ending]] = queue.Queue()

    def start(self, job: Job) -> None:
        process = self._running[job.key] = Process(job.text())
        threading.Thread(target=lambda: self._ended.put((job, process.follow())), daemon=True).start()

    def ended(self, timeout: float) -> list[tuple[Job, Ending]]:
        """Jobs that have ended since the last call; waits at most so long for one."""
        found: list[tuple[Job, Ending]] = []
        with contextlib.suppress(queue.Empty):
            found.append(self._ended.get(timeout=timeout))
            while True:
                found.append(self._ended.get_nowait())
        for job, _ in found:
            self._running.pop(job.key, None)
        return found

    def interrupt(self) -> None:
        for process in list(self._running.values()):
            process.interrupt()

    def close(self) -> None:
        for process in list(self._running.values()):
            process.kill()
