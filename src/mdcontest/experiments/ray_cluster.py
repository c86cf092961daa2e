"""Jobs as tasks of a Ray cluster. Each task starts the same worker process that a local sweep does.

The folder of runs must be one that every node sees. A node or worker that dies is an ending like any other: the job
goes back into the queue, and its next worker goes on from the run's checkpoint.
"""

from __future__ import annotations

import logging
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from mdcontest.errors import InputError, RunError
from mdcontest.experiments.jobs import Ending, Job
from mdcontest.experiments.processes import GRACE, Process

NO_CLUSTER = (
    "no Ray cluster at {!r}: {}; ray start --head starts one, --ray auto finds one of this machine, --ray HOST:PORT "
    "names another"
)


def _run(job: str) -> str:
    """On a node: a worker process, followed to its end; a cancelled task interrupts it."""
    process, endings = Process(job), list[Ending]()
    follower = threading.Thread(target=lambda: endings.append(process.follow()), daemon=True)
    follower.start()
    try:
        follower.join()
    except KeyboardInterrupt:
        process.interrupt()
        follower.join()
    return endings[0].text()


def import_ray() -> Any:
    """The package, or an error that says how to get it."""
    try:
        import ray
    except ImportError:
        raise InputError("--ray needs Ray, not installed here: pip install 'mdcontest[ray]'") from None
    return ray


def _require_listening(address: str) -> None:
    """Ray itself tries for many minutes to reach a head node that is not there."""
    if address in ("auto", "local"):
        if address == "local":
            raise InputError("--ray local would start a cluster for this sweep alone; --jobs N does that without Ray")
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(NO_CLUSTER.format(address, reason)) from None


class RayCluster:
    """One task a job on a running cluster, as many at a time as it has CPUs."""

    def __init__(self, address: str, jobs: int | None = None) -> None:
        self._ray = import_ray()
        _require_listening(address)
        try:
            self._ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise InputError(NO_CLUSTER.format(address, reason)) from None
        self._task = self._ray.remote(num_cpus=1, max_retries=0)(_run)
        self._jobs = jobs
        self._running: dict[Any, Job] = {}

    @property
    def slots(self) -> int:
        """Its CPUs now: nodes come and go."""
        try:
            cpus = int(self._ray.cluster_resources().get("CPU", 0))
        except Exception as error:
            raise RunError(f"the Ray cluster is gone: {error}") from None
        return max(1, cpus if self._jobs is None else min(cpus, self._jobs))

    def start(self, job: Job) -> None:
        absolute = replace(job, folder=str(Path(job.folder).resolve()))
        self._running[self._task.remote(absolute.text())] = job

    def ended(self, timeout: float) -> list[tuple[Job, Ending]]:
        if not self._running:
            return []
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=timeout)
        return [(self._running.pop(reference), self._ending(reference)) for reference in ready]

    def _ending(self, reference: Any) -> Ending:
        errors = self._ray.exceptions
        try:
            return Ending.of_text(self._ray.get(reference))
        except errors.TaskCancelledError:
            return Ending("interrupted", interrupted=True)
        except errors.RayTaskError as error:
            return Ending(f"its task failed: {str(error).strip().splitlines()[-1]}")
        except errors.RayError as error:  # the worker, the node or the object store is gone
            return Ending(f"its node or worker died: {type(error).__name__}", died=True)

    def interrupt(self) -> None:
        for reference in self._running:
            self._ray.cancel(reference, force=False)

    def close(self) -> None:
        if self._running:
            self._ray.wait(list(self._running), num_returns=len(self._running), timeout=GRACE)
        self._ray.shutdown()
