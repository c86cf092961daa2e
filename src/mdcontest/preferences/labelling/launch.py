"""The labelling server as a child of another process, such as a training run."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from mdcontest.errors import RunError
from mdcontest.preferences.labelling.server import TOKEN, require_label_packages

STARTING, STOPPING = 60.0, 20.0
"""Seconds until the link must be there, and for an end in good order."""


class LabellingServer:
    """A running server; it ends with `stop`, and with the process that started it."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self._process = process
        self.url = url
        """The link that people open."""
        self.token = parse_qs(urlsplit(url).query)["token"][0]
        self.port = int(urlsplit(url).port or 80)

    @property
    def alive(self) -> bool:
        """Whether it still serves."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End it; every answer is in the dataset afterwards."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(STOPPING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._process.kill()
        self.stop()

    def __enter__(self) -> LabellingServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_labelling(
    dataset: str | Path,
    *,
    port: int = 0,
    host: str = "127.0.0.1",
    pairs: int | None = None,
    length: int = 50,
    repeat: float = 0.1,
    overlap: int = 1,
    instructions: str | Path | None = None,
    margin: str | Path | None = None,
    seed: int = 0,
    token: str | None = None,
) -> LabellingServer:
    """Start `mdcontest label DATASET` as a process of its own and wait for its link."""
    require_label_packages()
    options: dict[str, object] = {"host": host, "port": port, "length": length, "repeat": repeat, "overlap": overlap}
    options |= {"seed": seed, "pairs": pairs, "instructions": instructions, "margin": margin}
    flags = [part for name, value in options.items() if value is not None for part in (f"--{name}", str(value))]
    process = subprocess.Popen(
        [sys.executable, "-m", "mdcontest", "label", str(dataset), "--quiet", "--end-with-input", *flags],
        stdin=subprocess.PIPE,  # its end tells the server that nobody is there any more
        stdout=subprocess.PIPE,
        text=True,
        env=None if token is None else os.environ | {TOKEN: token},
        close_fds=False,  # lets Python spawn without forking, which a process that has loaded JAX should not do
        start_new_session=True,  # Ctrl-C is for the parent, which then stops this one
    )
    link = _first_line(process)
    if not link.startswith("http://"):
        process.kill()
        process.communicate()
        raise RunError(f"the labelling server of {dataset} did not start; standard error says why")
    return LabellingServer(process, link)


def _first_line(process: subprocess.Popen[str]) -> str:
    """The first line of what it prints; nothing where it ends or takes too long."""
    lines: queue.Queue[str] = queue.Queue()
    output = process.stdout
    if output is None:
        raise AssertionError("the server was started with pipes")
    threading.Thread(target=lambda: lines.put(output.readline()), daemon=True).start()
    try:
        return lines.get(timeout=STARTING).strip()
    except queue.Empty:
        return ""
