"""Runs that take a moment: stopped, finished, and compared with those that nobody stopped."""

import csv
import json
import os

import pytest

from mdcontest import tasks
from mdcontest.learn import HPIClip, load_agent
from mdcontest.learn.loading import same_parameters
from tiny_runs import stop_after

TINY = {"num_steps": 64, "minibatches": 2, "epochs": 1, "hidden": (8,)}
ITERATIONS = 6
FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
TIMING = {"seconds", "steps_per_second"}


class Stop(KeyboardInterrupt):
    """What Ctrl-C raises, and nobody else."""


def steps_of(agent, iterations=ITERATIONS):
    return iterations * agent.settings.batch_size


def learn(agent, folder, iterations=ITERATIONS, stop=None, **options):
    """Train in a folder, with a checkpoint every second iteration; interrupted in iteration `stop` if there is one."""
    options = {"folder": folder, "checkpoint_every": 2, "progress": False} | options
    if stop is None:
        return agent.learn(steps_of(agent, iterations), **options)
    with pytest.raises(Stop):
        agent.learn(steps_of(agent, iterations), callback=stop_after(stop, Stop), **options)
    return agent


def rows_of(path):
    """A log without the columns that depend on the clock."""
    with open(path, newline="") as file:
        return [{k: v for k, v in row.items() if k not in TIMING} for row in csv.DictReader(file)]


def files_of(folder):
    """What two equal runs have in common on disk."""
    found = {name: rows_of(folder / name) for name in ("progress.csv", "episodes.csv")}
    return found | {path.name: path.read_bytes() for path in folder.glob("*.f32")}


def require_same(folder, reference):
    one, other = load_agent(folder), load_agent(reference)
    assert same_parameters(one, other)
    assert one.call == other.call
    assert one.num_timesteps == other.num_timesteps
    assert files_of(folder) == files_of(reference)
    steps = [int(row["steps"]) for row in rows_of(folder / "progress.csv")]
    assert steps == sorted(set(steps))
    assert json.loads((folder / "run.json").read_text())["status"] == "finished"


def whole_run(iterations=10):
    return HPIClip(tasks.make("RPSContinuous"), **TINY).learn(iterations * 64, progress=False)


def finish(folder):
    return load_agent(folder).resume(progress=False)
