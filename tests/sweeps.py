"""What the tests of sweeps share: the command as a process, its workers, and what a sweep leaves on disk."""

import contextlib
import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np

from mdcontest.learn import load_agent

FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
TINY = ["--num-steps", 64, "--minibatches", 2, "--epochs", 1, "--hidden", 8]
"""Settings with which an iteration takes milliseconds."""
SHORT = ["--tasks", "RPSCorridor", "--num-steps", 256, "--minibatches", 4, "--epochs", 2, "--steps", 30_000]
"""Runs of some seconds."""
QUICK = ["sweep", "--tasks", "RPSCorridor", *TINY, "--steps", 640, "--checkpoint-every", 2]
"""A sweep of one run with those settings; --algos and --seeds make more."""
RPS = ["train", "RPSContinuous", *TINY]
"""One such run without a sweep."""
OUT = Path("runs")
"""Where runs would be, while only their names are looked at."""
WHOLE = """
tasks = ["RPSCorridor", "Reacher-NT"]
algorithms = ["HPI-Clip", "sppo"]
seeds = "0-1"
steps = 20_000
out = "study"
preset = "paper"
checkpoint_every = 5
trace_every = 10_000
[settings]
num_steps = 1024
[grid]
comparison_horizon = [1, 16]
[task_settings.Reacher-NT]
theta = 1.5
[gap]
every = 10_000
returned = ["last", "mixture"]
steps = 1000
seed = 3
"""
"""A sweep as a file says it."""


def command(*arguments):
    return [sys.executable, "-m", "mdcontest.cli", *map(str, arguments)]


def start(*arguments, output, keep_stdout=False, **options):
    """The command as a process in a session of its own; what it says on standard error, or at all, goes to a file."""
    with open(output, "ab") as file:
        return subprocess.Popen(
            command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=file if keep_stdout else subprocess.DEVNULL,
            stderr=file,
            start_new_session=True,
            **options,
        )


def run(*arguments, timeout=300, **options):
    """The command to its end: exit code, standard output, standard error."""
    done = subprocess.run(
        command(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, **options
    )
    return done.returncode, done.stdout, done.stderr


def one_clear_line(err):
    return err.startswith("mdcontest: error: ") and len(err.splitlines()) == 1


# --- processes --------------------------------------------------------------------------------------------


def pause(seconds):
    threading.Event().wait(seconds)


def wait_until(holds, seconds=180.0, step=0.02):
    """Whether it came to hold in time."""
    for _ in range(int(seconds / step)):
        if holds():
            return True
        pause(step)
    return holds()


def _stat(pid):
    """State, parent, group and moment of birth of a process; None where there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[1]), int(fields[2]), fields[19]


def processes():
    """pid → state, parent, group, birth, of everything that runs."""
    found = {int(entry): _stat(entry) for entry in os.listdir("/proc") if entry.isdigit()}
    return {pid: seen for pid, seen in found.items() if seen is not None and seen[0] not in "ZX"}


def children(pid):
    """Living processes that a process has started, each with its birth, for a pid may be used again."""
    return sorted((child, seen[3]) for child, seen in processes().items() if seen[1] == pid)


def workers(pid):
    """Those children that are workers; libraries start short-lived ones of their own when they are imported."""
    found = []
    for child, birth in children(pid):
        with contextlib.suppress(OSError):
            if b"mdcontest.experiments.worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append((child, birth))
    return found


def alive(people):
    now = processes()
    return [pid for pid, birth in people if pid in now and now[pid][3] == birth]


def kill_group(process):
    """End a process started here and all of its session, whatever happened before."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def ended_afterwards(process):
    """A process that does not outlive the test."""
    try:
        yield process
    finally:
        kill_group(process)


def read_terminal(handle, process, seconds):
    """Everything a process writes to a terminal until it ends."""
    said = b""
    while seconds > 0:
        ready, _, _ = select.select([handle], [], [], 0.1)
        seconds -= 0.1
        if ready:
            try:
                said += os.read(handle, 1 << 16)
            except OSError:  # the other side is closed
                break
        elif process.poll() is not None:
            break
    return said.decode(errors="replace")


# --- folders ----------------------------------------------------------------------------------------------


def run_folders(out):
    return sorted(path for path in Path(out).iterdir() if path.is_dir())


def rows_in(path):
    try:
        return path.read_bytes().count(b"\n")
    except OSError:
        return 0


def finished(out):
    """How many runs say that they are."""
    files = Path(out).glob("*/run.json") if Path(out).is_dir() else []
    return sum(b'"status": "finished"' in path.read_bytes() for path in files)


def results(out):
    """Name → what came of the run: parameters, episodes and iterates, to the last bit."""
    found = {}
    for folder in run_folders(out):
        agent = load_agent(folder)
        try:
            leaves = [np.asarray(v).tobytes() for part in agent.learner.params.values() for v in part.values()]
        finally:
            agent.close()
        files = [(folder / name).read_bytes() for name in ("episodes.csv", "episodes.parquet", "iterates.f32")]
        found[folder.name] = hashlib.sha256(b"".join([*leaves, *files])).hexdigest()
    return found


def snapshot(folder):
    """Every file with its content."""
    return {path: path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def change(folder, **changes):
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | changes))


def cut(path):
    path.write_bytes(path.read_bytes()[:-30])


def leftovers(out):
    """Files that were being written when somebody was killed."""
    return [str(path) for path in Path(out).rglob("*") if path.name.endswith(".tmp")]
