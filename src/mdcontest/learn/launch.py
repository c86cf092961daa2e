"""Several runs side by side, one process each, and one thread a process.

A worker reads its run from standard input and writes one JSON line an iteration, so nothing but numbers and texts
crosses between processes, and a worker that dies takes no other with it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mdcontest.errors import InputError
from mdcontest.learn.bar import training_bars
from mdcontest.learn.logs import Progress
from mdcontest.learn.spec import RunSpec, train
from mdcontest.threads import one_thread

Report = Callable[[str, Progress], None]


@dataclasses.dataclass(frozen=True)
class Result:
    """How a run ended."""

    spec: RunSpec
    progress: Progress | None
    """After its last iteration; None where it never got that far or was done already."""
    error: str | None = None
    notes: tuple[str, ...] = ()
    """Warnings its process gave."""


def run_all(specs: list[RunSpec], jobs: int, show: bool = True) -> list[Result]:
    """Train all of them, at most `jobs` at a time, with a bar each; one that fails does not stop the others."""
    if jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {jobs}")
    labels = {spec.folder: f"{spec.task} {spec.algorithm} {spec.seed}" for spec in specs}
    with training_bars(labels, show) as report:
        return _run_all(specs, jobs, report)


def _run_all(specs: list[RunSpec], jobs: int, report: Report) -> list[Result]:
    running: set[subprocess.Popen[str]] = set()
    lock = threading.Lock()
    stopped = threading.Event()

    def run(spec: RunSpec) -> Result:
        with lock:
            if stopped.is_set():
                return Result(spec, None, "not started: interrupted")
            process = _start()
            running.add(process)
        try:
            with process:  # closes the pipes
                return _follow(process, spec, report)
        finally:
            with lock:
                running.discard(process)

    with ThreadPoolExecutor(jobs) as pool:
        try:
            return list(pool.map(run, specs))
        except KeyboardInterrupt:
            stopped.set()
            with lock:
                for process in running:
                    process.send_signal(signal.SIGINT)
            raise


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "mdcontest.learn.launch"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=one_thread(dict(os.environ)),
        close_fds=False,  # lets Python spawn without forking, which a process that has loaded JAX should not do
    )


def _follow(process: subprocess.Popen[str], spec: RunSpec, report: Report) -> Result:
    """Hand the worker its run and pass on what it says until it ends."""
    complaints: list[str] = []
    drain = threading.Thread(target=lambda: complaints.extend(process.stderr or []), daemon=True)
    drain.start()
    last: Progress | None = None
    error: str | None = None
    notes: list[str] = []
    if process.stdin is None or process.stdout is None:
        raise AssertionError("the worker was started with pipes")
    process.stdin.write(json.dumps(spec.record()))
    process.stdin.close()
    for line in process.stdout:
        message = _message(line)
        if "progress" in message:
            last = Progress(**message["progress"])
            report(spec.folder, last)
        error = message.get("error", error)
        notes += [message["note"]] if "note" in message else []
    code = process.wait()
    drain.join(timeout=5)
    if code != 0 and error is None:
        ending = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        error = f"its process {ending}" + (f": {complaints[-1].strip()}" if complaints else "")
    return Result(spec, last, error, tuple(notes))


def _message(line: str) -> dict[str, Any]:
    """A worker's line; anything else a library printed is not ours."""
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def worker() -> int:
    """The other end: train what standard input says."""
    signal.signal(signal.SIGINT, _interrupt_once)
    spec = RunSpec(**json.load(sys.stdin))

    def tell(message: dict[str, Any]) -> None:
        print(json.dumps(message), flush=True)

    warnings.showwarning = lambda message, *rest: tell({"note": str(message)})
    try:
        train(spec, callback=lambda agent, progress: tell({"progress": dataclasses.asdict(progress)}))
    except InputError as error:
        tell({"error": str(error)})
        return 2
    except KeyboardInterrupt:
        tell({"error": "interrupted"})
        return 130
    return 0


def _interrupt_once(*_: Any) -> None:
    """A terminal's Ctrl-C comes from the terminal and from the parent; the second must not cut the ending short."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(worker())
