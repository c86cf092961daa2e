"""A run that is killed, at whatever moment, is resumed and ends as if nothing had happened."""

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys

import pytest

from mdcontest import tasks
from mdcontest.errors import InputError
from mdcontest.learn import HPIClip, load_agent
from mdcontest.learn.loading import same_parameters
from mdcontest.learn.runs import RunFolder

TINY = {"num_steps": 64, "minibatches": 2, "epochs": 1, "hidden": (8,)}
FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
FLAGS = ["--num-steps", "64", "--minibatches", "2", "--epochs", "1", "--hidden", "8", "--checkpoint-every", "3"]
ITERATIONS = 240


def mdcontest(*arguments):
    command = [sys.executable, "-m", "mdcontest.cli", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def rows_in(path):
    try:
        return path.read_bytes().count(b"\n")
    except OSError:
        return 0


def status_of(folder):
    return json.loads((folder / "run.json").read_text())["status"]


def kill_when(process, moment):
    """SIGKILL as soon as `moment()` holds; False if the process ended before that."""
    while process.poll() is None:
        if moment():
            process.kill()
            process.communicate()
            return process.returncode == -signal.SIGKILL
        select.select([process.stdout], [], [], 0.001)
    process.communicate()
    return False


def after_rows(runs, row, more_polls):
    """Holds once some run has logged that many iterations, and it was asked that many more times."""
    left = iter(range(more_polls))

    def moment():
        return any(rows_in(path) > row + 1 for path in runs.glob("*/progress.csv")) and next(left, None) is None

    return moment


@pytest.mark.parametrize("seed", [0, 1, 2, 3] if FULL else [0])
def test_killed_again_and_again(seed, tmp_path, count):
    """SIGKILL at seeded numbers of rows and polls, `train --resume` each time, until the run is finished."""
    whole = HPIClip(tasks.make("RPSContinuous"), seed, **TINY)
    whole.learn(ITERATIONS * 64, progress=False, folder=tmp_path / "whole", checkpoint_every=50)
    start = ["train", "RPSContinuous", *FLAGS, "--steps", ITERATIONS * 64, "--seeds", seed, "--out", tmp_path / "runs"]
    rng, kills, folder = random.Random(seed), 0, None
    wanted = count(3, 5)
    while kills < wanted:
        process = mdcontest(*(start if folder is None else ["train", "--resume", folder]))
        row = rng.randrange(kills * ITERATIONS // wanted, (kills + 1) * ITERATIONS // wanted)
        done = kill_when(process, after_rows(tmp_path / "runs", row, more_polls=rng.randrange(5)))
        (folder,) = (tmp_path / "runs").iterdir()
        if not done:
            assert status_of(folder) == "finished", "it ended by itself before the moment came"
            break
        kills += 1
        agent = load_agent(folder)
        assert agent.learner.iteration % 3 == 0 or agent.learner.iteration == ITERATIONS
    assert kills, "not a single moment was reached"
    process = mdcontest("train", "--resume", folder)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert status_of(folder) == "finished"
    assert same_parameters(load_agent(folder), whole)
    assert (folder / "iterates.f32").read_bytes() == (tmp_path / "whole" / "iterates.f32").read_bytes()
    assert rows_in(folder / "progress.csv") == ITERATIONS + 1
    assert (folder / "episodes.csv").read_bytes() == (tmp_path / "whole" / "episodes.csv").read_bytes()


MOMENTS = {
    "when run.json appears": lambda folder: (folder / "run.json").exists(),
    "when the first checkpoint is being written": lambda folder: any(folder.glob("checkpoints/.*.tmp")),
    "when the first checkpoint is there": lambda folder: any(folder.glob("checkpoints/0*")),
}


@pytest.mark.parametrize("moment", list(MOMENTS) if FULL else list(MOMENTS)[:1])
def test_killed_at_the_very_start(moment, tmp_path):
    """The command says what to do next, and doing it gives the run."""
    steps = 6 * 64
    start = ["train", "RPSContinuous", *FLAGS, "--steps", steps, "--out", tmp_path / "runs"]

    def reached():
        return any(MOMENTS[moment](folder) for folder in (tmp_path / "runs").glob("*"))

    kill_when(mdcontest(*start), reached)
    (folder,) = (tmp_path / "runs").iterdir()
    again = mdcontest(*(["train", "--resume", folder] if (folder / "run.json").exists() else start))
    output, _ = again.communicate()
    assert again.returncode == 0, output
    whole = HPIClip(tasks.make("RPSContinuous"), **TINY).learn(steps, progress=False)
    assert same_parameters(load_agent(folder), whole)
    assert status_of(folder) == "finished"


# --- every file operation, in this process ----------------------------------------------------------------


class Killed(BaseException):
    """What stands for SIGKILL: nothing of the program runs after it."""


@contextlib.contextmanager
def dying_at(operation, monkeypatch, before):
    """The process 'dies' before or after its file operation number `operation`; nothing is tidied up."""
    calls = []

    def dying(name):
        original = getattr(os, name)

        def call(*args, **options):
            calls.append(name)
            if before and len(calls) == operation:
                raise Killed
            found = original(*args, **options)
            if not before and len(calls) == operation:
                raise Killed
            return found

        return call

    def die(self, error):
        if self.logs is not None:
            self.logs.close()
        self._lock.close()  # the system does that for a process that is gone

    with monkeypatch.context() as patch:
        for name in ("fsync", "rename", "replace", "mkdir", "unlink"):
            patch.setattr(os, name, dying(name))
        patch.setattr(RunFolder, "failed", die)
        yield calls


def start_or_resume(folder):
    """What `mdcontest train` and its advice come to."""
    if (folder / "run.json").exists():
        return load_agent(folder).resume(progress=False)
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY)
    return agent.learn(4 * 64, progress=False, folder=folder, checkpoint_every=2)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # the dead close nothing
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_killed_at_every_file_operation(before, tmp_path, monkeypatch):
    whole = start_or_resume(tmp_path / "whole")
    with dying_at(None, monkeypatch, before) as calls:
        start_or_resume(tmp_path / "counted")
    assert len(calls) > 25
    lost = {}
    for operation in range(1, len(calls) + 1):
        folder = tmp_path / f"run{operation}"
        with dying_at(operation, monkeypatch, before), contextlib.suppress(Killed):
            start_or_resume(folder)
        try:
            agent = start_or_resume(folder)
        except InputError as error:
            lost[operation] = str(error)
            continue
        assert same_parameters(agent, whole), operation
        if status_of(folder) != "finished":
            lost[operation] = f"run.json still says {status_of(folder)!r} though nothing is left to do"
        assert (folder / "iterates.f32").read_bytes() == (tmp_path / "whole" / "iterates.f32").read_bytes()
        assert rows_in(folder / "progress.csv") == 5
    assert not lost
