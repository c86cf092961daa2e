"""Which runs a study makes: each once, those that are not recorded, and those that the command line asks for."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import mujoco_nt
import mujoco_suite
import pytest
import recorded
import study

from mdcontest.errors import InputError
from mdcontest.experiments.sweep import GapPlan, Sweep

SWEEP = Sweep(("RPSCorridor",), ("hpi", "sppo"), (0, 1), 512, settings={"num_steps": 256, "returned": "cloned"})


def jobs_of(*kinds):
    sweeps = [replace(SWEEP, gap=GapPlan(returned=returned) if returned else None) for returned in kinds]
    return [job for sweep in sweeps for job in sweep.jobs(Path("runs"))]


def test_a_run_of_two_sweeps_is_one_job_with_what_follows_in_both():
    found = study.wanted(jobs_of(("mixture", "last"), ("last", "cloned"), ()), missing=False)
    assert [job.folder for job in found] == [job.folder for job in jobs_of(())]
    for job in found:
        assert [one.content["returned"] for one in job.then] == ["mixture", "last", "cloned"]


def test_recorded_runs_are_not_missing(monkeypatch):
    """A recorded run is left out with all that would follow it; one whose gaps were not all recorded is not."""
    jobs = jobs_of(("mixture", "last"))
    whole, half = (Path(job.folder).name for job in jobs[1:3])
    gaps = [
        {"run": whole, "returned": "mixture"},
        {"run": whole, "returned": "last"},
        {"run": half, "returned": "last"},
    ]
    tables = {name: [] for name in recorded.SCHEMAS} | {
        "runs": [{"run": whole}, {"run": half}],
        "gaps": [gap | {"step": 512} for gap in gaps],
    }
    monkeypatch.setattr(recorded, "read_tables", lambda: tables)
    assert len(study.wanted(jobs, missing=False)) == len(jobs) == 4
    left = study.wanted(jobs, missing=True)
    assert [job.folder for job in left] == [job.folder for job in jobs if Path(job.folder).name != whole]
    assert all(job.then for job in left)


def test_where_nothing_is_missing_nothing_is_run(monkeypatch, capsys, tmp_path):
    names = [{"run": Path(job.folder).name} for job in jobs_of(())]
    monkeypatch.setattr(recorded, "read_tables", lambda: {"runs": names, "gaps": []})
    monkeypatch.setattr(sys, "argv", ["study.py", "--missing", "--out", str(tmp_path / "out")])
    assert study.main(study.Study("name", "title", "figure", (SWEEP,), (SWEEP,))) == 0
    assert capsys.readouterr().out.startswith("nothing is missing")
    assert not (tmp_path / "out").exists()


def options(*arguments):
    parser = argparse.ArgumentParser()
    study.add_options(parser)
    return parser.parse_args(arguments)


def test_sweeps_with_what_the_command_line_says():
    """--own keeps the sweeps that are in our settings, and where there is none changes all of them."""
    suite, nontransitive = mujoco_suite.STUDY.full, mujoco_nt.STUDY.full
    assert study.change_sweeps(suite, options()) == [replace(one, algorithms=[*one.algorithms]) for one in suite]
    (own,) = study.change_sweeps(suite, options("--own", "--seeds", "0-1", "--tasks", "Ant-v5"))
    assert (own.preset, own.tasks, own.seeds, own.algorithms) == (None, ["Ant-v5"], [0, 1], ["hpi-clip", "hpi"])
    (paper,) = study.change_sweeps(suite, options("--paper"))
    assert (paper.preset, paper.algorithms) == ("paper", ["hpi-clip", "hpi", "sppo", "ppo"])
    found = study.change_sweeps(nontransitive, options("--own"))
    assert [sweep.preset for sweep in found] == [None] * len(nontransitive)
    found = study.change_sweeps(nontransitive, options("--algos", "SPPO"))
    assert [sweep.algorithms for sweep in found] == [["sppo"], ["sppo"]]
    assert {sweep.preset for sweep in found} == {"paper"}
    with pytest.raises(InputError, match="in our own settings only hpi-clip, hpi are part of this study"):
        study.change_sweeps(suite, options("--own", "--algos", "sppo"))
