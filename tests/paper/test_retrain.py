"""paper/retrain.py repeats recorded runs to the last bit, and says when it does not."""

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import margin_fits
import numpy as np
import pytest
import recorded
import retrain
from learned_margins import Ablation, jobs_on, sources_of
from recorded_results import paper_settings
from selections import ENDED, STEPS

from mdcontest.errors import RunError
from mdcontest.experiments.store import Store
from mdcontest.experiments.stored import Run
from mdcontest.experiments.sweep import Sweep
from mdcontest.learn.export import EPISODES, EPISODES_FILE, EPISODES_FORMAT
from mdcontest.learn.runs import DESCRIPTION
from mdcontest.learn.spec import RunSpec, train
from mdcontest.tables import read_table, write_table
from report.stores import write_run

FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
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


# --- on learned margins -----------------------------------------------------------------------------------

PLAN = Ablation(Sweep(("RPSCorridor",), ("hpi",), (3,), 600, settings=TINY), trajectories=20, pairs=200, teacher="sign")


@pytest.mark.skipif(not FULL, reason="learns two margins")
def test_runs_on_learned_margins_are_repeated_from_the_beginning(run_retrain, tmp_path, monkeypatch):
    """Together with the run that the margin was learned from, which is trained once; another margin is said."""
    runs, results, again = (tmp_path / name for name in ("runs", "results", "again"))
    (source,) = sources_of(PLAN, runs, missing=False)
    fit = PLAN.fit(source, runs)
    train(source).close()
    fit.learn(keep_data=False)
    (job,) = jobs_on(PLAN, fit, runs)
    train(RunSpec(**job.content)).close()
    for folder in (source.folder, job.folder):
        record_run(Path(folder), results)
    monkeypatch.setattr(retrain, "plan_of", lambda run: PLAN)
    names = [Path(folder).name for folder in (source.folder, job.folder)]
    code, said, _ = run_retrain(*names, "--results", results, "--out", again)
    assert (code, said.splitlines()[-1]) == (0, "2 of 2 are the same, bit for bit")
    assert {Path(run.folder).name for run in Store(again).runs} == set(names)

    monkeypatch.setattr(retrain, "plan_of", lambda run: replace(PLAN, pairs=150))
    code, said, _ = run_retrain(names[1], "--results", results, "--out", again)
    assert code == 1
    assert said.startswith(f"{names[1]}: DIFFERENT, its margin is ")


def test_a_margin_that_cannot_be_learned(run_retrain, tmp_path, monkeypatch):
    folder = write_run(tmp_path / "runs", "RPSCorridor", "hpi", 3, name="learned", target=512, learned="abc")
    record_run(folder, tmp_path / "results")

    def fail(*_):
        raise RunError("the disk is full")

    monkeypatch.setattr(margin_fits, "run_command", fail)
    monkeypatch.setattr(retrain, "plan_of", lambda run: PLAN)
    code, said, error = run_retrain("learned", "--results", tmp_path / "results")
    assert (code, error.count("the disk is full")) == (1, 1)
    assert said.splitlines()[0] == "learned: NOT COMPARED, its training failed or was stopped before the end"


def test_which_part_of_the_ablation_a_run_is(tmp_path):
    """Its task, algorithm and seed, and whether ends counted, without brackets."""
    for seed, changed in enumerate(({}, ENDED)):
        settings = paper_settings("Reacher-NT", "hpi") | changed
        folder = write_run(tmp_path, "Reacher-NT", "hpi", seed, name=str(seed), target=STEPS, learned="abc", **settings)
        plan = retrain.plan_of(Run(folder))
        assert plan.ends == bool(changed)
        (source,) = sources_of(plan, tmp_path, missing=False)
        assert (source.task, source.algorithm, source.seed) == ("Reacher-NT", "hpi", seed)
        assert plan.sweep.after(source) == ()


# --- what cannot be repeated ------------------------------------------------------------------------------


def test_bad_input_is_one_line(trained, run_retrain, tmp_path):
    folder, _ = trained
    learned = write_run(tmp_path / "runs", "RPSCorridor", "hpi", 0, name="learned", target=512, learned="abc")
    change_description(learned, versions=Run(folder).versions)
    elsewhere = write_run(tmp_path / "runs", "RPSCorridor", "hpi", 1, name="elsewhere", target=512)
    results = tmp_path / "results"
    for one in (folder, learned, elsewhere):
        record_run(one, results)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "runs.parquet").write_bytes(b"PAR1")
    cases = {
        ("--runs", "3"): "3 runs were asked for, and 2 of 3 were made on a machine like this one: machine ",
        ("--runs", "0"): "0 runs were asked for",
        ("--runs", "1", "--seed", "-1"): "--seed is -1",
        ("nobody",): "there is no run 'nobody' in the results",
        ("learned",): "learned was trained on a margin that paper/learned_margins.py did not learn",
        (folder.name, "--jobs", "0"): "--jobs must be at least 1",
        ("--results", tmp_path / "none"): f"there are no recorded runs in {tmp_path / 'none'}: it has no runs.parquet",
        ("--results", tmp_path / "damaged"): f"{tmp_path / 'damaged' / 'runs.parquet'} is truncated",
    }
    for arguments, expected in cases.items():
        code, said, error = run_retrain("--results", results, *arguments)
        assert (code, said, error.count("\n")) == (2, "", 1), arguments
        assert error.startswith(f"error: {expected}")
