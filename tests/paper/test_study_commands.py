"""What the commands in paper/ accept, where they write, and what a dry run says it would take."""

import argparse
import contextlib
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import comparison_horizon
import eta_search
import finite
import independent
import lemmas
import mujoco_nt
import mujoco_suite
import pytest
import recorded
import state_counts
import study
from dry_runs import hours_of, rows_of

from mdcontest.errors import InputError
from mdcontest.experiments import cost
from mdcontest.experiments.sweep import Sweep
from mdcontest.tables import read_table

TINY = {"num_steps": 256, "minibatches": 2, "epochs": 1, "hidden": [8]}


def options(*arguments):
    parser = argparse.ArgumentParser()
    study.add_options(parser)
    return parser.parse_args(arguments)


@pytest.fixture
def run_study(monkeypatch, capsys, tmp_path):
    """A study's command in this process, where every task takes a millisecond a step."""
    monkeypatch.setattr(cost, "measure_speed", lambda spec: 1e-3)

    def run(one, *arguments):
        monkeypatch.setattr(sys, "argv", ["study.py", "--out", str(tmp_path / "out"), *map(str, arguments)])
        return study.main(one), *capsys.readouterr()

    return run


# --- tasks and algorithms ---------------------------------------------------------------------------------

WRONG = [
    (
        eta_search,
        ["--tasks", "Ant-v5,Reacher-v5"],
        "--tasks has 'Reacher-v5': only HalfCheetah-v5, InvertedDoublePendulum-v5, Ant-v5 are part of this study",
    ),
    (eta_search, ["--quick", "--tasks", "Reacher-v5"], "--tasks has 'Reacher-v5': only HalfCheetah-v5, Inverted"),
    (mujoco_nt, ["--tasks", "Ant-v5,,Hopper-v5"], "--tasks has 'Ant-v5', '', 'Hopper-v5': only Reacher-NT, Walker2d"),
    (mujoco_nt, ["--tasks", ""], "--tasks has ''"),
    (eta_search, ["--algos", "hpi,ppo,foo"], "--algos has 'ppo', 'foo': only hpi is part of this study"),
    (
        mujoco_suite,
        ["--own", "--algos", "sppo"],
        "--algos has 'sppo': in our own settings only hpi-clip, hpi are part of this study",
    ),
]


@pytest.mark.parametrize(("module", "arguments", "expected"), WRONG)
def test_what_a_study_does_not_have_is_one_line(run_study, tmp_path, module, arguments, expected):
    code, said, error = run_study(module.STUDY, "--dry-run", *arguments)
    assert (code, said, error.count("\n")) == (2, "", 1)
    assert error.startswith(f"error: {expected}")
    assert not (tmp_path / "out").exists()


def test_names_may_have_blanks_around_them_and_come_twice():
    (sweep,) = study.change_sweeps(
        comparison_horizon.STUDY.full, options("--tasks", " Swimmer-v5 , Ant-v5,Swimmer-v5", "--algos", " HPI_Clip ")
    )
    assert (sweep.tasks, sweep.algorithms) == (["Swimmer-v5", "Ant-v5"], ["hpi-clip"])


def test_a_quick_version_may_be_told_any_task_of_the_study():
    one = comparison_horizon.STUDY
    assert "Ant-v5" not in one.quick[0].tasks
    (sweep,) = study.change_sweeps(one.quick, options("--quick", "--tasks", "Ant-v5"), one.full)
    assert (sweep.tasks, sweep.steps) == (["Ant-v5"], one.quick[0].steps)
    suite = mujoco_suite.STUDY
    (sweep,) = study.change_sweeps(suite.quick, options("--quick", "--own"), suite.full)
    assert (sweep.preset, sweep.algorithms) == (None, ["hpi-clip", "hpi"])


def test_each_part_of_a_study_keeps_to_its_own_tasks():
    """Of two sweeps on different tasks, only what the study has of each."""
    first = Sweep(("Hopper-v5",), ("sppo",), settings={"across_episodes": True})
    second = Sweep(("Pusher-v5", "Hopper-v5"), ("hpi-clip", "sppo"))
    quick = [first, replace(second, tasks=("Hopper-v5",))]
    both = study.change_sweeps([first, second], options("--tasks", "Hopper-v5"))
    assert [(sweep.tasks, sweep.algorithms) for sweep in both] == [
        (["Hopper-v5"], ["sppo"]),
        (["Hopper-v5"], ["hpi-clip", "sppo"]),
    ]
    (one,) = study.change_sweeps(quick, options("--tasks", "Pusher-v5"), [first, second])
    assert (one.tasks, one.settings) == (["Pusher-v5"], {})
    with pytest.raises(InputError, match="does not have sppo on Ant-v5"):
        study.change_sweeps(
            [first, replace(second, tasks=("Ant-v5",), algorithms=("hpi",))],
            options("--tasks", "Ant-v5", "--algos", "sppo"),
        )


def test_settings_of_tasks_that_are_left_stay():
    own = {"Reacher-NT": {"theta": 1.5}, "Walker2d-NT": {}}
    sweep = Sweep(("Reacher-NT", "Walker2d-NT"), task_settings=own)
    (left,) = study.change_sweeps([sweep], options("--tasks", "Reacher-NT"))
    assert left.task_settings == {"Reacher-NT": {"theta": 1.5}}


# --- dry runs ---------------------------------------------------------------------------------------------


def test_a_dry_run_counts_each_training_once(run_study, tmp_path):
    """Three sweeps of the same runs: 5 seeds a line, with the brackets of all three in its hours."""
    code, said, _ = run_study(mujoco_nt.STUDY, "--dry-run", "--tasks", "Reacher-NT", "--jobs", 2)
    assert code == 0
    assert rows_of(said) == {("Reacher-NT", name): [5, 0, 5_000_000] for name in ("hpi-clip", "hpi", "sppo")}
    assert said.count("task  ") == 1
    assert said.splitlines()[-1].startswith("15 runs into ")
    assert not (tmp_path / "out").exists()
    # 5 of the mixture each, at the end two more for HPI and HPI-Clip, one for SPPO: 2 restarts of 300 000 steps,
    # and five samples of the larger of 50 000 steps and 50 episodes of half 1000; starts take 3 s.
    brackets = 5 * (7 + 7 + 6)
    how = study.wanted(mujoco_nt.STUDY.full[0].jobs(tmp_path), False)[0].then[0].content["how"]
    sampled = 5 * max(how["evaluation_steps"], how["trajectories"] * 2048 // 2)
    wanted = (15_000_000 + brackets * (600_000 + sampled)) * 1e-3 + 15 * 3.0
    assert hours_of(said) == pytest.approx(wanted / 3600, abs=0.006)


SMALL = Sweep(("RPSCorridor",), ("hpi", "sppo"), (0, 1), 51_200, settings=TINY)
SMALL_STUDY = study.Study("name", "title", "figure", (SMALL,), (SMALL,))


def test_a_dry_run_of_what_is_missing_is_about_that_alone(run_study, tmp_path, monkeypatch):
    names = [Path(job.folder).name for job in SMALL.jobs(tmp_path)]
    whole = run_study(SMALL_STUDY, "--dry-run", "--missing")[1]
    for kept in (3, 4):
        tables = {"runs": [{"run": name} for name in names[:kept]], "gaps": []}
        monkeypatch.setattr(recorded, "read_tables", lambda tables=tables: tables)
        code, said, _ = run_study(SMALL_STUDY, "--dry-run", "--missing")
        assert code == 0
        if kept == 3:
            assert rows_of(said) == {("RPSCorridor", "sppo"): [1, 0, 51_200]}
            assert said.splitlines()[-1] == "runs that are recorded are left out"
            assert 0 < hours_of(said) < hours_of(whole)
    assert said == "0 runs would be made: all of these runs are recorded\n"


def test_a_dry_run_needs_a_process(run_study):
    code, said, error = run_study(SMALL_STUDY, "--dry-run", "--jobs", 0)
    assert (code, said, error) == (2, "", "error: --jobs must be at least 1, got 0\n")


# --- where measurements go --------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [finite, lemmas, state_counts])
def test_a_quick_measurement_leaves_the_committed_one_alone(module, monkeypatch, tmp_path, capsys):
    """Nothing is measured here: it is only asked where to."""
    monkeypatch.chdir(tmp_path)
    asked = []
    monkeypatch.setattr(module, "_run", lambda quick, folder: asked.append((quick, folder)))
    monkeypatch.setattr(study, "make_folder", lambda folder: None)
    for arguments in (["--quick"], [], ["--quick", "--out", "here"]):
        assert module.main(arguments) == 0
    (_, quick), (_, full), (_, named) = asked
    assert [one for one, _ in asked] == [True, False, True]
    assert [str(quick), str(named)] == ["build/paper/finite-quick", "here"]
    assert full == recorded.FOLDER
    assert full.is_absolute()


# --- the second look --------------------------------------------------------------------------------------


@pytest.fixture
def run_independent(monkeypatch, capsys):
    """paper/independent.py in this process, without the other code base: trained is what it began with."""
    trained = []

    class Pool:
        def __init__(self, workers):
            trained.append(workers)
            raise InputError("began to train")

    monkeypatch.setattr(independent, "ProcessPoolExecutor", Pool)
    monkeypatch.setitem(sys.modules, "stable_baselines3", argparse)

    def run(*arguments):
        trained.clear()
        monkeypatch.setattr(sys, "argv", ["independent.py", *map(str, arguments)])
        return independent.main(), capsys.readouterr().err, trained

    return run


def test_the_second_look_finds_its_folder_before_it_trains(run_independent, tmp_path):
    assert run_independent("--out", tmp_path / "a" / "b") == (2, "error: began to train\n", [2])
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    for arguments, expected in (
        (["--out", tmp_path / "file"], f"error: cannot make the folder {tmp_path / 'file'}"),
        (["--out", tmp_path, "--jobs", 0], "error: --jobs must be at least 1, got 0"),
        (
            ["--out", tmp_path, "--tasks", "Pusher-v5"],
            "error: there is no second look at Pusher-v5; there is one at Hopper",
        ),
    ):
        code, error, trained = run_independent(*arguments)
        assert (code, error.count("\n"), trained) == (2, 1, [])
        assert error.startswith(expected)


@pytest.fixture
def second_look(tmp_path, monkeypatch):
    """Runs the command, and says which jobs it ran; numbers are made up: each job's curve is its seed."""
    ran = []

    def made_up(job):
        ran.append(job)
        head = dict(zip(("task", "algorithm", "seed"), job, strict=True))
        return [head | {"step": step, "return": float(job[2] + 100 * times[0])} for step in (1, 2)]

    def look(*options):
        ran.clear()
        monkeypatch.setattr(sys, "argv", ["independent.py", "--out", str(tmp_path), *options])
        assert independent.main() == 0
        times[0] += 1
        return ran

    times, pool = [0], contextlib.nullcontext(SimpleNamespace(map=lambda function, jobs: map(made_up, jobs)))
    monkeypatch.setattr(independent, "ProcessPoolExecutor", lambda workers: pool)
    monkeypatch.setitem(sys.modules, "stable_baselines3", argparse)
    monkeypatch.setattr(independent, "POINTS", 2)
    return look


def test_a_second_look_at_one_task_leaves_the_others(tmp_path, second_look):
    every = [(task, arm, s) for task, arms in independent.CASES.items() for s in range(3) for arm in arms]
    assert second_look() == every
    again = second_look("--tasks", "Hopper-v5")
    assert again == [job for job in every if job[0] == "Hopper-v5"]
    table = read_table(tmp_path / "independent.parquet", independent.FORMAT, independent.SCHEMA)
    columns = (table[name] for name in ("task", "algorithm", "seed", "return"))
    found = {tuple(job): value for *job, value in zip(*columns, strict=True)}
    assert found == {job: job[2] + 100.0 * (job in again) for job in every}
    assert len(table["seed"]) == 2 * len(every)


def test_a_second_look_at_what_is_missing(tmp_path, second_look, monkeypatch):
    """Arms that were added later, and no others."""
    cases = independent.CASES
    monkeypatch.setattr(independent, "CASES", {"Hopper-v5": cases["Hopper-v5"][:1]})
    first = list(second_look())
    monkeypatch.setattr(independent, "CASES", {"Hopper-v5": cases["Hopper-v5"]})
    later = second_look("--missing")
    assert later == [("Hopper-v5", arm, s) for s in range(3) for arm in cases["Hopper-v5"][1:]]
    assert second_look("--missing") == []
    table = read_table(tmp_path / "independent.parquet", independent.FORMAT, independent.SCHEMA)
    assert len(table["seed"]) == 2 * 3 * len(cases["Hopper-v5"])
    assert first
