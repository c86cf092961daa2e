"""A run's folder: its description, logs, stored iterates and checkpoints. Only one process trains in it at a time.

RUN/run.json       task, algorithm, seed, settings, versions, status
RUN/progress.csv, RUN/episodes.csv, RUN/tensorboard/   see logs.py
RUN/progress.parquet, RUN/episodes.parquet             the same once it is finished, see export.py
RUN/iterates.f32, RUN/cloning.f32                      see rows.py
RUN/checkpoints/…                                      see checkpoint.py
"""

from __future__ import annotations

import contextlib
import functools
import platform
import shutil
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from mdcontest.errors import BusyError, FileFormatError, InputError
from mdcontest.files import read_record, write_record
from mdcontest.folders import LOCK, lock_folder, make_folder
from mdcontest.learn import cloning, iterates
from mdcontest.learn.checkpoint import CHECKPOINTS, identity, list_checkpoints, newest_identity, order, write_checkpoint
from mdcontest.learn.export import export_logs
from mdcontest.learn.logs import Logs, Progress
from mdcontest.learn.margins import keep_margin, run_task_record
from mdcontest.learn.persist import learner_record
from mdcontest.learn.rollout import Episode

if TYPE_CHECKING:
    from mdcontest.learn.agent import Agent

FORMAT = "mdcontest/run"
DESCRIPTION = "run.json"
MAX_BYTES = 1 << 24
JUDGED_BY_RETURN = "judged_by_return"
"""The entry of run.json that says whether returns say how good the run's policies are; older runs have none."""
RUNNING, FINISHED, FAILED = "running", "finished", "failed"
WRITTEN = (Logs.PROGRESS, Logs.EPISODES, iterates.FILE, cloning.FILE, CHECKPOINTS)
"""What a run begins anew in its folder, whatever is there under these names."""


@dataclass(frozen=True)
class KnownCheckpoint:
    """Which checkpoint it is, and when it was made: at what iteration, and of what call of learn."""

    identity: str
    iteration: int
    call: tuple[int, int]


class RunFolder:
    """The folder an agent trains in; `goes_on`: it has trained there until now."""

    def __init__(
        self, path: Path, description: dict[str, Any], log_lengths: dict[str, int] | None, goes_on: bool = False
    ) -> None:
        self.path, self.description, self._log_lengths, self._goes_on = path, description, log_lengths, goes_on
        self.logs: Logs | None = None
        self._lock: IO[bytes] | None = None

    @property
    def checkpoint_every(self) -> int:
        return self.description["checkpoint_every"]

    @property
    def tensorboard(self) -> bool:
        return self.description["tensorboard"]

    def open(self, agent: Agent) -> None:
        """Take the folder for this process, or say who has it or why it is not this agent's."""
        if self.path not in agent.known_checkpoints:
            require_own(agent, self.path)  # somebody else's, whether it is being trained or not
        is_ours = require_free(agent, self.path)
        self._lock = lock_folder(self.path)
        try:
            require_own(agent, self.path)  # with the folder locked: another process may just have finished
            if is_ours:
                remove_leftovers(self.path)
                remove_leftovers(self.path / CHECKPOINTS)
            self.logs = Logs(self.path, self._log_lengths, self.tensorboard, agent.num_timesteps)
        except BaseException:
            self.close()
            raise

    @property
    def log_lengths(self) -> dict[str, int] | None:
        return self.logs.record() if self.logs is not None else self._log_lengths

    def begin(self, agent: Agent) -> None:
        """The first checkpoint of a call comes before run.json: a run that is there can be gone on with.

        So does one of a run whose task was passed again and is described in other words now: the two must agree.
        """
        self.description = describe(agent, self.checkpoint_every, self.tensorboard)
        if agent.call[0] == 0 or read_description(self.path).get("task") != self.description["task"]:
            keep_margin(agent.task, self.path, own=self._goes_on)
            self.checkpoint(agent)
        self.write(RUNNING)

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
        if self.logs is not None:
            self.logs.sync()
        write_agent(agent, self.path, self.log_lengths)

    def failed(self, error: BaseException) -> None:
        """Note what stopped the run, and let go of the folder."""
        with contextlib.suppress(Exception):  # the disk may be what failed; the error itself goes on its way
            stopped = "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
            if (self.path / DESCRIPTION).exists():
                self.write(FAILED, error=stopped)
        self.close()

    def finished(self, agent: Agent) -> None:
        """Nothing is left to do; what the agent has become is on disk, also where the last checkpoint had failed."""
        newest = agent.known_checkpoints.get(self.path)
        if newest is None or (newest.iteration, newest.call) != (agent.learner.iteration, agent.call):
            self.checkpoint(agent)
        export_logs(self.path, self.description)
        self.write(FINISHED, steps=agent.num_timesteps)
        self.close()

    def write(self, status: str, **more: Any) -> None:
        self.description = {k: v for k, v in self.description.items() if k != "error"} | {"status": status} | more
        write_record(self.path / DESCRIPTION, FORMAT, self.description)

    def close(self) -> None:
        if self.logs is not None:
            self._log_lengths = self.logs.record()
            self.logs.close()
        self.logs = None
        if self._lock is not None:
            self._lock.close()
        self._lock = None


def remove_leftovers(folder: Path, of: str = "") -> None:
    """Half-written files of a process that was killed, of all files or of one; for whoever holds the folder's lock."""
    for path in folder.glob(f".{of}.*.tmp" if of else ".*.tmp"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()


def require_own(agent: Agent, path: Path) -> None:
    """A folder that holds a run may only be written by the agent that wrote or read its newest checkpoint."""
    if not (path / DESCRIPTION).exists():
        return
    known = agent.known_checkpoints.get(path)
    if known is None:
        raise InputError(
            f"{path} already holds a run; finish it with load_agent({str(path)!r}).resume(), or "
            f"mdcontest train --resume {path}, or name another folder"
        )
    if known.identity != newest_identity(path):
        raise BusyError(f"the run in {path} has gone on since this agent was loaded; load it again")


def require_free(agent: Agent, path: Path) -> bool:
    """Whether the folder is one of runs; an error if it is none, but has in it what a run would write over.

    A process that was killed before it could write run.json leaves a lock, logs and at most its first checkpoint.
    """
    if (path / DESCRIPTION).exists():
        return True
    if later := [entry for entry in list_checkpoints(path) if order(entry)[0] > agent.learner.iteration]:
        raise InputError(
            f"{path} has no {DESCRIPTION}, but the checkpoint {later[-1].name} of a run that had one: put it back, or "
            f"remove the folder {CHECKPOINTS} there, or name another folder"
        )
    if (path / LOCK).exists():
        return True
    if taken := [name for name in WRITTEN if (path / name).exists()]:
        raise InputError(f"{path} holds no run, but has {taken[0]}, which one would write over; name another folder")
    return False


def write_agent(agent: Agent, path: Path, log_lengths: dict[str, int] | None) -> None:
    """A checkpoint of the agent, remembered as the newest it knows of in that folder."""
    record = agent_record(agent) | {"logs": log_lengths}
    written = write_checkpoint(path, agent.learner.iteration, record)
    agent.known_checkpoints[path] = KnownCheckpoint(identity(written), agent.learner.iteration, agent.call)


def save_copy(agent: Agent, path: Path) -> None:
    """Everything about an agent in a folder of its own; the agent goes on where it was."""
    make_folder(path)
    own = agent._folder if agent.is_run_of(path) else None
    require_free(agent, path)
    lock = None if own and agent.is_learning else lock_folder(path)  # in a callback the folder is this agent's already
    try:
        require_own(agent, path)
        keep_margin(agent.task, path, own=own is not None)
        agent.learner.iterates.rows.copy_to(path / iterates.FILE)
        if agent.learner.cloning_buffer is not None:
            agent.learner.cloning_buffer.copy_to(path / cloning.FILE)
        if own is not None and own.logs is not None:
            own.logs.sync()
        write_agent(agent, path, agent.log_lengths(path))
        status = FINISHED if agent.call[0] == agent.call[1] else RUNNING
        description = describe(agent, own.checkpoint_every, own.tensorboard) if own else describe(agent, 10, False)
        more = {"status": status, "steps": agent.num_timesteps}
        write_record(path / DESCRIPTION, FORMAT, description | more)
    finally:
        if lock is not None:
            lock.close()


def agent_record(agent: Agent) -> dict[str, Any]:
    """What a checkpoint holds of an agent."""
    return {
        "run": identity_record(agent),
        "learner": learner_record(agent.learner),
        "call": list(agent.call),
        "recent": [list(entry) for entry in agent.recent],
    }


def identity_record(agent: Agent) -> dict[str, Any]:
    """What a run is; kept in run.json for people and in every checkpoint, under its checksum, for the machine."""
    return {
        "task": run_task_record(agent.task),
        "algorithm": agent.algorithm.name,
        "seed": agent.seed,
        "settings": agent.settings.record(),
    }


def describe(agent: Agent, checkpoint_every: int, tensorboard: bool) -> dict[str, Any]:
    """What run.json says: enough to run it again."""
    done, wanted = agent.call
    return identity_record(agent) | {
        JUDGED_BY_RETURN: agent.task.is_judged_by_return,
        "steps_asked": agent.num_timesteps + (wanted - done) * agent.settings.batch_size,
        "checkpoint_every": checkpoint_every,
        "tensorboard": tensorboard,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """What the run ran on."""
    found = {"python": platform.python_version(), "machine": platform.machine(), "processor": processor()}
    for name in ("mdcontest", "numpy", "jax", "optax", "gymnasium", "mujoco"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


@functools.cache
def processor() -> str:
    """Its name, family and model: runs are the same to the last bit only between processors of one kind."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    except OSError:
        return platform.processor() or "unknown"
    said = {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in text.splitlines())}
    parts = [said.get("model name"), *(f"{name} {said[name]}" for name in ("cpu family", "model") if name in said)]
    return " ".join(part for part in parts if part) or platform.processor() or "unknown"


def read_description(path: Path) -> dict[str, Any]:
    """run.json, or an error that says what is not there."""
    try:
        is_there = (path / DESCRIPTION).is_file()
    except OSError as error:  # a name that is too long, or a folder that may not be looked into
        raise FileFormatError(f"cannot read {path}: {error.strerror}") from None
    if not is_there:
        raise FileFormatError(f"{path} holds no run: there is no {DESCRIPTION} in it")
    return read_record(path / DESCRIPTION, FORMAT, max_bytes=MAX_BYTES)
