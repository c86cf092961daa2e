"""A run's folder: its description, logs, stored iterates and checkpoints. Only one process trains in it at a time.

RUN/run.json       task, algorithm, seed, settings, versions, status
RUN/progress.csv, RUN/episodes.csv, RUN/tensorboard/   see logs.py
RUN/iterates.f32, RUN/cloning.f32                      see rows.py
RUN/checkpoints/…                                      see checkpoint.py
"""

from __future__ import annotations

import contextlib
import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from mdcontest.errors import FileFormatError, InputError, RunError
from mdcontest.files import read_record, write_record
from mdcontest.learn import cloning, iterates
from mdcontest.learn.checkpoint import list_checkpoints, read_checkpoint, write_checkpoint
from mdcontest.learn.logs import Logs, Progress
from mdcontest.learn.persist import learner_record
from mdcontest.learn.rollout import Episode

if TYPE_CHECKING:
    from mdcontest.learn.agent import Agent

FORMAT = "mdcontest/run"
DESCRIPTION = "run.json"
MAX_BYTES = 1 << 24
RUNNING, FINISHED, FAILED = "running", "finished", "failed"


class RunFolder:
    """The folder an agent trains in."""

    def __init__(self, path: Path, description: dict[str, Any], log_lengths: dict[str, int] | None) -> None:
        self.path, self.description, self._log_lengths = path, description, log_lengths
        self.checkpoint_every: int = description.get("checkpoint_every", 10)
        self.logs: Logs | None = None
        self._lock: IO[bytes] | None = None

    @classmethod
    def open(cls, path: Path, agent: Agent, before: RunFolder | None, tensorboard: bool, every: int) -> RunFolder:
        """Start a run in a new folder, or go on in the one the agent comes from."""
        if before is None and (path / DESCRIPTION).exists():
            raise InputError(
                f"{path} already holds a run; finish it with load_agent({str(path)!r}).resume(), or "
                f"mdcontest train --resume {path}, or name another folder"
            )
        folder = cls(path, describe(agent, every), before.log_lengths if before else None)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder {path}: {error.strerror}") from None
        folder._lock = _lock(path)
        folder._describe(RUNNING)
        folder.logs = Logs(path, folder._log_lengths, tensorboard)
        return folder

    @property
    def log_lengths(self) -> dict[str, int] | None:
        return self.logs.record() if self.logs is not None else self._log_lengths

    def log(self, report: Progress, episodes: list[Episode]) -> None:
        if self.logs is not None:
            self.logs.write(report, episodes)

    def checkpoint_if_due(self, agent: Agent) -> None:
        """Every so many iterations, and when the call is done."""
        done, wanted = agent.call
        if done == wanted or done % self.checkpoint_every == 0:
            self.checkpoint(agent)

    def checkpoint(self, agent: Agent) -> None:
        """Everything that the rest of the run depends on, at the end of an iteration."""
        agent.learner.iterates.rows.sync()
        if agent.learner.cloning_buffer is not None:
            agent.learner.cloning_buffer.sync()
        write_checkpoint(self.path, agent.learner.iteration, agent_record(agent) | {"logs": self.log_lengths})

    def failed(self, error: BaseException) -> None:
        """Note what stopped the run, and let go of the folder."""
        with contextlib.suppress(Exception):  # the disk may be what failed; the error itself goes on its way
            stopped = "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
            self._describe(FAILED, error=stopped)
        self._close()

    def finished(self, agent: Agent) -> None:
        self._describe(FINISHED, steps=agent.num_timesteps)
        self._close()

    def _describe(self, status: str, **more: Any) -> None:
        write_record(self.path / DESCRIPTION, FORMAT, self.description | {"status": status} | more)

    def _close(self) -> None:
        if self.logs is not None:
            self._log_lengths = self.logs.record()
            self.logs.close()
        self.logs = None
        if self._lock is not None:
            self._lock.close()
        self._lock = None


def save_copy(agent: Agent, path: Path) -> None:
    """Everything about an agent in a folder of its own; the agent goes on where it was."""
    ours = describe(agent, 10)
    if (path / DESCRIPTION).exists():
        theirs = read_description(path)
        if any(theirs.get(key) != ours[key] for key in ("task", "algorithm", "seed", "settings")):
            raise InputError(f"{path} already holds another run; name another folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {path}: {error.strerror}") from None
    lock = _lock(path)
    try:
        agent.learner.iterates.rows.copy_to(path / iterates.FILE)
        if agent.learner.cloning_buffer is not None:
            agent.learner.cloning_buffer.copy_to(path / cloning.FILE)
        status = FINISHED if agent.call[0] == agent.call[1] else RUNNING
        lengths = agent.log_lengths(path)
        write_checkpoint(path, agent.learner.iteration, agent_record(agent) | {"logs": lengths})
        write_record(path / DESCRIPTION, FORMAT, ours | {"status": status, "steps": agent.num_timesteps})
    finally:
        if lock is not None:
            lock.close()


def agent_record(agent: Agent) -> dict[str, Any]:
    """What a checkpoint holds of an agent."""
    return {
        "learner": learner_record(agent.learner),
        "call": list(agent.call),
        "recent": [list(entry) for entry in agent.recent],
    }


def describe(agent: Agent, checkpoint_every: int) -> dict[str, Any]:
    """What run.json says: enough to run it again."""
    task = agent.task
    env = task.env if isinstance(task.env, str) else getattr(task.env, "__qualname__", type(task.env).__name__)
    return {
        "task": {
            "name": task.name,
            "registered": task.settings is not None,
            "settings": plain(task.settings),
            "env": env,
        },
        "algorithm": agent.algorithm.name,
        "seed": agent.seed,
        "settings": agent.settings.record(),
        "steps_asked": agent.call[1] * agent.settings.batch_size,
        "checkpoint_every": checkpoint_every,
        "versions": versions(),
    }


def plain(settings: Any) -> Any:
    """Settings of a task as JSON knows them."""
    return None if settings is None else json.loads(json.dumps(dict(settings), default=str))


def versions() -> dict[str, str]:
    """What the run ran on."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in ("mdcontest", "numpy", "jax", "optax", "gymnasium", "mujoco"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def read_description(path: Path) -> dict[str, Any]:
    """run.json, or an error that says what is not there."""
    if not (path / DESCRIPTION).is_file():
        raise FileFormatError(f"{path} holds no run: there is no {DESCRIPTION} in it")
    return read_record(path / DESCRIPTION, FORMAT, max_bytes=MAX_BYTES)


def newest_checkpoint(path: Path) -> dict[str, Any]:
    """The record of the newest checkpoint."""
    found = list_checkpoints(path)
    if not found:
        raise FileFormatError(f"{path} holds no checkpoint")
    return read_checkpoint(found[-1])


def _lock(path: Path) -> IO[bytes] | None:
    """Held while a process trains in the folder; the system lets go of it when the process ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # no such locks here
        return None
    try:
        file = open(path / ".lock", "wb")  # noqa: SIM115
    except OSError as error:
        raise InputError(f"cannot write to the folder {path}: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise RunError(f"another process is training in {path}") from None
    return file
