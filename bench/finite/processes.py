"""A measurement as seen from outside: a worker process that is followed, and killed once its time is up."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

import cases
from cases import Case

from mdcontest.threads import one_thread

BUILD_LIMIT = 300.0
"""Seconds to build a contest and to compile."""


def run(case: Case, name: str, threads: int, limit: float) -> dict[str, Any]:
    """One measurement in a process of its own."""
    task = {"model": case.series.model, "margin": case.series.margin, "pairs": case.pairs, "contender": name}
    task |= {"threads": threads, "limit": limit}
    count = str(threads)
    fixed = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), count)
    command = [sys.executable, str(Path(__file__).with_name("worker.py")), json.dumps(task)]
    environment = one_thread(dict(os.environ) | fixed)
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, env=environment)
        try:
            return follow(process, limit, cases.is_peer(name)) | last_line(process, complaints)
        finally:
            process.kill()
            process.communicate()


def last_line(process: subprocess.Popen[bytes], complaints: IO[bytes]) -> dict[str, Any]:
    """Why a process failed, if it did."""
    if not process.poll():
        return {}
    complaints.seek(0)
    lines = complaints.read().decode(errors="replace").strip().splitlines()
    return {"why": lines[-1] if lines else f"exit code {process.returncode}"}


def follow(process: subprocess.Popen[bytes], limit: float, peer: bool) -> dict[str, Any]:
    """What the worker says, stage by stage, each within its time.

    Ours stop themselves at the limit and certify what they have, so that they may take a little longer to answer.
    """
    found: dict[str, Any] = {}
    lines = Lines(process)
    patience = {"ready": BUILD_LIMIT, "solved": limit if peer else 1.5 * limit, "certified": limit, "lu": limit}
    for stage, seconds in patience.items():
        line = lines.next(seconds)
        if line is not None:
            found |= {key: value for key, value in json.loads(line).items() if key != "stage"}
        elif lines.ended:
            process.wait()
            break
        else:
            return found | {"outcome": "over the limit" if stage == "solved" else outcome(found, limit)}
    return found | {"outcome": outcome(found, limit)}


def outcome(found: dict[str, Any], limit: float) -> str:
    """How a measurement ended, from what the worker said."""
    if "seconds" not in found:
        return "failed"
    if found["seconds"] > limit or found.get("status") == "time_limit":
        return "over the limit"
    return "certified" if "gap" in found else "uncertified"


class Lines:
    """Lines of JSON from a process that may never say anything again."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.text, self.ended = process, b"", False

    def next(self, seconds: float) -> bytes | None:
        """The next line that begins with a brace, or None after that many seconds or at the end."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + seconds
        while True:
            while b"\n" in self.text:
                line, self.text = self.text.split(b"\n", 1)
                if line.startswith(b"{"):
                    return line
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            if not more:
                self.ended = True
                return None
            self.text += more
