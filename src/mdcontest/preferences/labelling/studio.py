"""Clips on demand: asks the filming process, starts it again when it dies, and gives up on what kills it twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path

from mdcontest.errors import InputError
from mdcontest.preferences.labelling.clips import clip_name, clip_path
from mdcontest.preferences.references import Segment
from mdcontest.threads import one_thread

PATIENCE = 60.0
"""Seconds a clip may take."""
ATTEMPTS = 2
LONGEST_LINE = 1 << 20


class ClipError(InputError):
    """This clip cannot be made; the text says why."""


class Studio:
    """The clips of a dataset, one filmed at a time."""

    def __init__(self, dataset: Path, patience: float = PATIENCE) -> None:
        self._dataset, self._patience = dataset, patience
        self._process: asyncio.subprocess.Process | None = None
        self._one_at_a_time = asyncio.Lock()
        self._there: set[Segment] = set()
        self.started = 0
        """How often the process was started."""

    def path(self, name: str) -> Path:
        """Where the clip of this name is, or will be."""
        return clip_path(self._dataset, name)

    def has(self, segment: Segment) -> bool:
        """Whether the segment's clip is on disk, as far as is known: files are looked for once."""
        if segment not in self._there and self.path(clip_name(segment)).is_file():
            self._there.add(segment)
        return segment in self._there

    def look_again(self) -> None:
        """A clip was missed: forget which are there."""
        self._there.clear()

    async def film(self, segment: Segment) -> None:
        """Returns when the segment's clip is on disk; ClipError where it cannot be made."""
        async with self._one_at_a_time:
            for attempt in range(ATTEMPTS):
                reason = None if self.has(segment) else await self._ask(clip_name(segment), segment)
                if reason is None:
                    return
                if attempt == ATTEMPTS - 1:
                    raise ClipError(reason)

    async def _ask(self, name: str, segment: Segment) -> str | None:
        """Why the process ended over this clip; None where it is done. ClipError where the process says no."""
        process = await self._running()
        wanted = {"clip": name, "trajectory": segment.trajectory, "start": segment.start, "length": segment.length}
        try:
            if process.stdin is None or process.stdout is None:
                raise AssertionError("the process was started with pipes")
            process.stdin.write(json.dumps(wanted).encode() + b"\n")
            await process.stdin.drain()
            line = await asyncio.wait_for(process.stdout.readline(), self._patience)
        except TimeoutError:
            await self.stop()
            return f"filming took longer than {self._patience:g} s and was stopped"
        except (OSError, ValueError):
            line = b""
        if not line:
            code = await process.wait()
            self._process = None
            return f"the filming process ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"
        error = json.loads(line)["error"]
        if error is not None:
            raise ClipError(error)
        return None

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "mdcontest.preferences.labelling.film", str(self._dataset)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=LONGEST_LINE,
                env=_environment(),
                close_fds=False,  # lets Python spawn without forking, which a process that has loaded JAX should not do
                start_new_session=True,  # Ctrl-C is the server's; this one ends when its standard input does
            )
            self.started += 1
        return self._process

    async def stop(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _environment() -> dict[str, str]:
    """One thread, and pictures without a display: MuJoCo decides how it draws when it is first imported."""
    found = one_thread(dict(os.environ))
    if sys.platform == "linux" and not found.get("DISPLAY"):
        found.setdefault("MUJOCO_GL", "egl")
    return found
