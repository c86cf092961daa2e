"""paper/retrain.py repeats recorded runs to the last bit, and says when it does not; and which runs a study makes."""

import argparse
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import mujoco_nt
import mujoco_suite
import numpy as np
import pytest
import recorded
import retrain
import study

from mdcontest.errors import InputError
from mdcontest.experiments.store import Run, Store
from mdcontest.experiments.sweep import GapPlan, Sweep
from mdcontest.learn.export import EPISODES, EPISODES_FILE, EPISODES_FORMAT
from mdcontest.learn.runs import DESCRIPTION
from mdcontest.learn.spec import RunSpec, train
from mdcontest.tables import read_table, write_table
from report.stores import write_run

TINY = {"num_steps": 256, "minibatches": 2, "epochs": 1, "hidden": [8]}


def record_run(folder, results):
    tables = recorded.read_tables(results)
    recorded.merge(tables, Run(folder))
    recorded.write_tables(tables, results)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of two iterations, and the results with nothing else in them."""
    out = tmp_path_factory.mktemp("retrain")
    spec = RunSpec("RPSCorridor", "hpi-clip", 3, 512, "", None, TINY).in_folder(out / "runs")
    train(spec).close()
    record_run(Path(spec.folder), out / "results")
    return Path(spec.folder), out


@pytest.fixture
def run_retrain(monkeypatch, capsys):
    """paper/retrain.py in this process: exit code, standard output, standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["retrain.py", "--quiet", "--jobs", "1", *map(str, arguments)])
        return retrain.main(), *capsys.readouterr()

    return run


# --- once more --------------------------------------------------------------------------------------------


def test_runs_are_repeated_to_the_last_bit(trained, run_retrain, tmp_path):
    """One that was drawn is the same; recorded with one return changed in its last bit, it is another."""
    folder, out = trained
    code, said, _ = run_retrain("--runs", 1, "--results", out / "results", "--out", tmp_path / "again")
    assert code == 0, said
    assert said.splitlines()[0].startswith(f"{folder.name}: the same, fingerprint ")
    assert said.splitlines()[-1] == "1 of 1 are the same, bit for bit"
    (again,) = Store(tmp_path / "again").runs
    assert recorded.fingerprint(again.episodes) == recorded.fingerprint(Run(folder).episodes)

    changed = tmp_path / folder.name
    shutil.copytree(folder, changed)
    change_last_bit(changed / EPISODES_FILE)
    record_run(changed, tmp_path / "results")
    # The run trained above is still there, so it is only compared.
    code, said, _ = run_retrain(folder.name, "--results", tmp_path / "results", "--out", tmp_path / "again")
    assert code == 1
    assert said.startswith(f"{folder.name}: DIFFERENT, fingerprint ")
    assert said.splitlines()[-1] == "0 of 1 are the same, bit for bit"


def change_last_bit(path):
    table = read_table(path, EPISODES_FORMAT, EPISODES)
    returns = np.array(table["return"])
    returns[-1] = np.nextafter(returns[-1], np.inf)
    write_table(path, EPISODES_FORMAT, EPISODES, table | {"return": returns})


def test_every_setting_is_repeated(trained):
    """The recorded settings make the same run, so they give its name, but for the number of steps asked for."""
    folder, out = trained
    (run,) = recorded.read_runs(out / "results")
    assert Path(retrain.spec_of(run).in_folder(out).folder).name == folder.name


def test_a_run_without_episodes_can_be_the_same(tmp_path):
    folder = write_run(tmp_path / "runs", "RPSCorridor", "hpi", 0, target=512)
    record_run(folder, tmp_path / "results")
    (run,) = recorded.read_runs(tmp_path / "results")
    assert retrain.compare(run, folder)


def test_a_run_that_did_not_get_to_its_end_is_not_called_different(trained, run_retrain, tmp_path, monkeypatch):
    """One that failed halfway, and one that never began; what the others came to does not matter for the exit code."""
    folder, out = trained

    def half(jobs, *_, **__):
        for job in jobs:
            if left:
                shutil.copytree(folder, job.folder)
                change_description(Path(job.folder), status="running")
        return 1

    monkeypatch.setattr(retrain, "work", half)
    for left in (True, False):
        code, said, _ = run_retrain(folder.name, "--results", out / "results", "--out", tmp_path / str(left))
        assert code == 1
        assert said.splitlines() == [
            f"{folder.name}: NOT COMPARED, its training failed or was stopped before the end",
            "0 of 1 are the same, bit for bit",
        ]


def test_a_sweep_that_failed_is_the_exit_code(trained, run_retrain, tmp_path, monkeypatch):
    folder, out = trained

    def fail(jobs, *_, **__):
        shutil.copytree(folder, jobs[0].folder)
        return 1

    monkeypatch.setattr(retrain, "work", fail)
    code, said, _ = run_retrain(folder.name, "--results", out / "results", "--out", tmp_path / "again")
    assert (code, said.splitlines()[-1]) == (1, "1 of 1 are the same, bit for bit")


def test_other_episodes_of_another_machine_are_no_surprise(tmp_path, capsys):
    for name, value in (("here", 1.0), ("there", 2.0)):
        write_run(tmp_path / name, "RPSCorridor", "hpi", 0, name="run", target=512, episodes=([512], [value]))
    change_description(tmp_path / "there" / "run", versions={"processor": "Abacus", "jax": "0.1"})
    record_run(tmp_path / "there" / "run", tmp_path / "results")
    (run,) = recorded.read_runs(tmp_path / "results")
    assert not retrain.compare(run, tmp_path / "here" / "run")
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("run: DIFFERENT, fingerprint ")
    assert second.startswith("  it was made elsewhere, so equality to the bit is not expected: machine unknown (here ")
    assert "processor Abacus (here " in second
    assert retrain.compare(run, tmp_path / "there" / "run")
    assert capsys.readouterr().out.count("\n") == 1


def change_description(folder, **changes):
    content = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    (folder / DESCRIPTION).write_text(json.dumps(content | changes), encoding="utf-8")


# --- what cannot be repeated ------------------------------------------------------------------------------


def test_bad_input_is_one_line(trained, run_retrain, tmp_path):
    folder, _ = trained
    learned = write_run(tmp_path / "runs", "RPSCorridor", "hpi", 0, name="learned", target=512)
    description = json.loads((learned / DESCRIPTION).read_text(encoding="utf-8"))
    description["task"]["margin"], description["versions"] = "abc", Run(folder).versions
    (learned / DESCRIPTION).write_text(json.dumps(description), encoding="utf-8")
    elsewhere = write_run(tmp_path / "runs", "RPSCorridor", "hpi", 1, name="elsewhere", target=512)
    results = tmp_path / "results"
    for one in (folder, learned, elsewhere):
        record_run(one, results)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "runs.parquet").write_bytes(b"PAR1")
    cases = {
        ("--runs", "2"): "2 runs were asked for, and 1 of 3 were made on a machine like this one: machine ",
        ("--runs", "0"): "0 runs were asked for",
        ("--runs", "1", "--seed", "-1"): "--seed is -1",
        ("nobody",): "there is no run 'nobody' in the results",
        ("learned",): "learned was trained on a learned margin",
        (folder.name, "--jobs", "0"): "--jobs must be at least 1",
        ("--results", tmp_path / "none"): f"there are no recorded runs in {tmp_path / 'none'}: it has no runs.parquet",
        ("--results", tmp_path / "damaged"): f"{tmp_path / 'damaged' / 'runs.parquet'} is truncated",
    }
    for arguments, expected in cases.items():
        code, said, error = run_retrain("--results", results, *arguments)
        assert (code, said, error.count("\n")) == (2, "", 1), arguments
        assert error.startswith(f"error: {expected}")


# --- which runs a study makes -----------------------------------------------------------------------------

SWEEP = Sweep(("RPSCorridor",), ("hpi", "sppo"), (0, 1), 512, settings=TINY)


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
    found = study.change_sweeps(nontransitive, options("--own"))
    assert [sweep.preset for sweep in found] == [None] * len(nontransitive)
    found = study.change_sweeps(nontransitive, options("--algos", "SPPO"))
    assert [sweep.algorithms for sweep in found] == [["sppo"], ["sppo"]]
    assert {sweep.preset for sweep in found} == {"paper"}
    with pytest.raises(InputError, match="in our own settings only hpi-clip, hpi are part of this study"):
        study.change_sweeps(suite, options("--own", "--algos", "sppo"))
