"""Jobs as actors of a Ray cluster. Each starts the same worker process that a local sweep does.

The folder of runs must be one that every node sees. A node or worker that dies is an ending like any other: the job
goes back into the queue, and its next worker goes on from the run's checkpoint.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
from typing import Any

from mdcontest.errors import InputError, RunError
from mdcontest.experiments.jobs import Ending, Job
from mdcontest.experiments.processes import Process

NO_CLUSTER = (
    "no Ray cluster at {!r}: {}; ray start --head starts one, --ray auto finds one of this machine, --ray HOST:PORT "
    "names another"
)
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""How one greets a server such as Ray's: a fixed text and an empty frame of settings, with which it answers."""
HEARING = 5.0
"""Seconds a node has to take note of an interrupt."""


class _Worker:
    """An actor on a node: one worker process, followed to its end, which can be interrupted meanwhile."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._interrupted = False

    def run(self, job: str) -> str:
        if self._interrupted:
            return Ending("interrupted", interrupted=True).text()
        self._process = Process(job)
        return self._process.follow().text()

    def interrupt(self) -> None:
        self._interrupted = True
        if self._process is not None:
            self._process.interrupt()


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
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(HTTP2)
            answer = connection.recv(9) if os.environ.get("RAY_USE_TLS", "0") == "0" else HTTP2[-9:]
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(NO_CLUSTER.format(address, reason)) from None
    if answer[3:4] != HTTP2[-6:-5]:
        raise InputError(NO_CLUSTER.format(address, "what listens there is something else"))


class RayCluster:
    """One actor a job on a running cluster, as many at a time as it has CPUs."""

    def __init__(self, address: str, jobs: int | None = None) -> None:
        self._ray = import_ray()
        _require_listening(address)
        terminate = signal.getsignal(signal.SIGTERM)
        try:
            self._ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0].split(". ")[0] if str(error).strip() else type(error).__name__
            raise InputError(NO_CLUSTER.format(address, reason)) from None
        finally:
            signal.signal(signal.SIGTERM, terminate)  # Ray's own handler would end the sweep at once
        self._worker = self._ray.remote(num_cpus=1, max_restarts=0, max_concurrency=2)(_Worker)
        self._jobs = jobs
        self._running: dict[Any, tuple[Job, Any]] = {}

    @property
    def slots(self) -> int:
        """Its CPUs now: nodes come and go."""
        try:
            cpus = int(self._ray.cluster_resources().get("CPU", 0))
        except Exception as error:
            raise RunError(f"the Ray cluster is gone: {error}") from None
        return max(1, cpus if self._jobs is None else min(cpus, self._jobs))

    def start(self, job: Job) -> None:
        actor = self._worker.remote()
        self._running[actor.run.remote(job.absolute().text())] = job, actor

    def ended(self, timeout: float) -> list[tuple[Job, Ending]]:
        if not self._running:
            return []
        try:
            ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=timeout)
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise RunError(f"the Ray cluster is gone: {error}") from None
        found = []
        for reference in ready:
            job, actor = self._running.pop(reference)
            found.append((job, self._ending(reference)))
            self._ray.kill(actor)
        return found

    def _ending(self, reference: Any) -> Ending:
        errors = self._ray.exceptions
        try:
            return Ending.of_text(self._ray.get(reference))
        except errors.RayTaskError as error:
            return Ending(f"its task failed: {str(error).strip().splitlines()[-1]}")
        except errors.RayError as error:  # the worker, the node or the object store is gone
            last = str(error).strip().splitlines()[-1]
            if "creation task" in str(error):
                return Ending(f"its node cannot start a worker: {last}")
            return Ending(f"its node or worker died: {type(error).__name__}", died=True)

    def interrupt(self) -> None:
        """Those that do not hear it have no node to run on, or have lost it."""
        asked = {actor.interrupt.remote(): actor for _, actor in self._running.values()}
        if asked:
            _, deaf = self._ray.wait(list(asked), num_returns=len(asked), timeout=HEARING)
            for reference in deaf:
                self._ray.kill(asked[reference])

    def close(self) -> None:
        with contextlib.suppress(Exception):  # of a cluster that is gone; its workers end with it
            for _, actor in self._running.values():
                self._ray.kill(actor)
            self._ray.shutdown()
