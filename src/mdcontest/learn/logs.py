"""What a run writes down as it goes: one row an iteration, one row an episode, and TensorBoard where asked for.

    RUN/progress.csv   iteration, steps, returns, margin against the first policy, losses, speed
    RUN/episodes.csv   step at which an episode ended, its return, its length

A checkpoint records how long both were; a resumed run cuts them there and goes on, so no step appears twice.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdcontest.errors import FileFormatError, InputError, RunError
from mdcontest.learn.rollout import Episode


@dataclass(frozen=True)
class Progress:
    """Where a run stands after an iteration; what a callback gets."""

    iteration: int
    steps: int
    """Steps of all environments since the agent was made."""
    target: int
    """Steps at which this call of learn ends."""
    seconds: float
    """Since this call of learn began, or was resumed."""
    steps_per_second: float
    episode_return: float | None
    """Mean over the last 100 finished episodes; None before the first."""
    episode_length: float | None
    margin_vs_first: float
    """Mean margin of this iteration's outcomes against samples of the first policy."""
    mean_cumulant: float
    """Before scaling."""
    learning_rate: float
    policy_loss: float
    value_loss: float
    entropy: float
    approx_kl: float
    clip_fraction: float
    explained_variance: float

    @property
    def seconds_left(self) -> float:
        return (self.target - self.steps) / self.steps_per_second if self.steps_per_second else float("inf")


class CsvFile:
    """A CSV file that can be cut back to what a checkpoint knows of."""

    def __init__(self, path: Path, columns: list[str], keep: int | None = None) -> None:
        self.path = path
        try:
            kept = _read_head(path, keep) if keep and path.exists() else b""
            whole = kept.rfind(b"\n") + 1  # a file that was cut short ends in half a row
            self._file = open(path, "r+b" if whole else "w+b")  # noqa: SIM115
            self._file.truncate(whole)
            self._file.seek(0, os.SEEK_END)
        except OSError as error:
            raise RunError(f"cannot write {path}: {error.strerror}") from None
        if not whole:
            self.write([columns])

    def write(self, rows: list[list[Any]]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([["" if v is None else v for v in row] for row in rows])
        try:
            self._file.write(text.getvalue().encode())
            self._file.flush()
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {error.strerror}") from None

    def sync(self) -> None:
        """Every row written is on disk when this returns."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {error.strerror}") from None

    @property
    def length(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # every row was flushed when it was written
            self._file.close()


def _read_head(path: Path, size: int) -> bytes:
    """So many bytes; of a log that is shorter, rows would be missing without a word."""
    content = path.read_bytes()
    if len(content) < size:
        raise FileFormatError(
            f"{path} is damaged: it has {len(content)} bytes, and had {size} at the checkpoint; put the whole "
            "file back, or remove it to go on without the rows so far"
        )
    return content[:size]


class Logs:
    """All logs of a run."""

    PROGRESS, EPISODES = "progress.csv", "episodes.csv"

    def __init__(
        self, folder: Path, lengths: dict[str, int] | None = None, tensorboard: bool = False, steps: int = 0
    ) -> None:
        lengths = lengths or {}
        columns = [item.name for item in dataclasses.fields(Progress)]
        with contextlib.ExitStack() as opened:
            self.progress = CsvFile(folder / self.PROGRESS, columns, lengths.get(self.PROGRESS))
            opened.callback(self.progress.close)
            self.episodes = CsvFile(folder / self.EPISODES, ["step", "return", "length"], lengths.get(self.EPISODES))
            opened.callback(self.episodes.close)
            self._writer = _tensorboard(folder / "tensorboard", steps) if tensorboard else None
            opened.pop_all()  # none was refused, so they stay open

    def write(self, progress: Progress, episodes: list[Episode]) -> None:
        values = dataclasses.asdict(progress)
        self.progress.write([list(values.values())])
        self.episodes.write([[episode.step, episode.total_reward, episode.length] for episode in episodes])
        if self._writer is not None:
            for name, value in values.items():
                if value is not None and name not in ("iteration", "steps", "target"):
                    self._writer.add_scalar(f"train/{name}", value, progress.steps)

    @classmethod
    def lengths_in(cls, folder: Path) -> dict[str, int] | None:
        """How long the logs that are there are; None where there are none."""
        found = {name: folder / name for name in (cls.PROGRESS, cls.EPISODES)}
        return {name: path.stat().st_size for name, path in found.items() if path.exists()} or None

    def sync(self) -> None:
        """Before a checkpoint that counts on the rows so far: a power cut must not take them from under it."""
        self.progress.sync()
        self.episodes.sync()

    def record(self) -> dict[str, int]:
        """What a checkpoint holds."""
        return {self.PROGRESS: self.progress.length, self.EPISODES: self.episodes.length}

    def close(self) -> None:
        self.progress.close()
        self.episodes.close()
        if self._writer is not None:
            self._writer.close()


def _tensorboard(folder: Path, steps: int) -> Any:
    """Events from that step on; later ones of a run that was killed are not shown."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise InputError("TensorBoard logs need tensorboardX: pip install 'mdcontest[learn]'") from None
    return SummaryWriter(str(folder), purge_step=steps + 1, filename_suffix=f".{os.getpid()}.{time.time_ns()}")
