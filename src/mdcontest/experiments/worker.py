"""A worker process: reads one job from standard input, does it, and says how it went on standard output.

It lives no longer than whoever started it: when its standard input closes, its parent is gone, and it stops at once;
what it had written is whole, and the run's next worker goes on from its last checkpoint. An interrupt lets the
iteration end and writes a checkpoint first.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import warnings
from typing import Any

from mdcontest.errors import BusyError, InputError, too_little_memory

PATIENCE = 60.0
"""Seconds to wait for a folder that a dying worker still holds."""
STOPPED = 130


def main() -> int:
    """The job of the first line of standard input."""
    interrupted = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    signal.signal(signal.SIGTERM, lambda *_: interrupted.set())
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})  # threads of Ray block them
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    notes: list[str] = []
    warnings.showwarning = lambda message, *rest: notes.append(str(message))
    error: str | None = None
    try:
        _do(job, interrupted)
    except InputError as problem:
        error = str(problem)
    except KeyboardInterrupt:
        interrupted.set()
        error = "interrupted"
    except MemoryError as problem:
        error = too_little_memory(problem)
    message = json.dumps({"error": error, "interrupted": error == "interrupted", "notes": notes})
    print(f"\n{message}", flush=True)  # on a line of its own, whatever an environment has printed
    return 0 if error is None else STOPPED if error == "interrupted" else 2


def _do(job: dict[str, Any], interrupted: threading.Event) -> None:
    from mdcontest.experiments.jobs import TRAIN, do_other  # imports JAX: seconds in which an interrupt is only noted

    if interrupted.is_set():
        raise KeyboardInterrupt
    if job["kind"] == TRAIN:
        return _train(job, interrupted)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # other jobs are short, and begin anew
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return do_other(job["kind"], job["folder"], job["content"])


def _train(job: dict[str, Any], interrupted: threading.Event) -> None:
    from mdcontest.learn.spec import RunSpec, train

    def stop_if_asked(agent: Any, progress: Any) -> None:
        if interrupted.is_set() and agent.call[0] < agent.call[1]:
            agent.checkpoint()
            raise KeyboardInterrupt

    spec = RunSpec(**(job["content"] | {"folder": job["folder"]}))
    waited = 0.0
    while True:
        try:
            train(spec, callback=stop_if_asked)
            return
        except BusyError:
            if waited >= PATIENCE:
                raise
            waited += 0.5
            if interrupted.wait(0.5):
                raise KeyboardInterrupt from None


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(STOPPED)


if __name__ == "__main__":
    sys.exit(main())
