"""Folders that somebody, or some accident, has made up: a sentence, never a traceback, and nothing is removed."""

import json
import os

import pytest

import mdcontest as mdc
from mdcontest.cli import main
from mdcontest.experiments.store import Store
from mdcontest.experiments.sweep import read_sweep
from report.stores import write_run

TASK = "Hopper-v5"


def changed(run, **entries):
    """run.json with other entries, as text that JSON's writer would refuse too."""
    record = json.loads((run / "run.json").read_text()) | entries
    (run / "run.json").write_text(json.dumps(record).replace('"1e400"', "1e400"))


HOSTILE = {
    "a seed beyond all numbers": {"seed": "1e400"},
    "steps beyond all numbers": {"steps": "1e400"},
    "steps asked beyond all numbers": {"steps_asked": "1e400"},
    "versions that are lists": {"versions": {"mdcontest": ["a"]}},
    "versions that are a list": {"versions": ["a"]},
    "no task": {"task": None},
    "a task without a name": {"task": {}},
    "settings of no kind": {"settings": 3},
    "texts for numbers": {"settings": {"num_steps": "many", "num_envs": 1, "returned": "last"}},
    "iterations of no step": {"settings": {"num_steps": 0, "num_envs": 1, "returned": "last"}},
    "a status of no kind": {"status": {"a": 1}},
}


@pytest.mark.filterwarnings("ignore")  # the command line shows them as notes
@pytest.mark.parametrize("entries", HOSTILE.values(), ids=HOSTILE)
def test_run_json_that_nobody_wrote(tmp_path, capsys, entries):
    check("report", entries, tmp_path, capsys)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["steps beyond all numbers", "texts for numbers", "iterations of no step", "no task"])
@pytest.mark.parametrize("command", ["gap", "trace", "train --resume"])
def test_run_json_that_nobody_wrote_and_other_commands(tmp_path, capsys, command, name):
    check(command, HOSTILE[name], tmp_path, capsys)


def check(command, entries, tmp_path, capsys):
    runs = tmp_path / "runs"
    good = write_run(runs, TASK, "ppo", 0, episodes=([100, 200], [1.0, 2.0]))
    bad = write_run(runs, TASK, "ppo", 1, episodes=([100, 200], [1.0, 2.0]))
    changed(bad, **entries)
    before = (bad / "run.json").read_bytes()
    words = {
        "report": [str(runs), "--out", str(tmp_path / "page.html")],
        "gap": [str(bad), "--retries", "0"],
        "trace": [str(bad), "--retries", "0"],
    }
    code = main([*command.split(), *words.get(command, [str(bad)])])
    err = capsys.readouterr().err
    assert "Traceback" not in err
    if command == "report":
        assert code == 0  # the other run is there
    elif command == "gap":  # elsewhere the damaged part may not matter: a finished run has nothing to resume
        assert code in (1, 2)
        assert "mdcontest: error: " in err
    assert (bad / "run.json").read_bytes() == before
    assert good.is_dir()


def test_failures_of_no_kind(tmp_path):
    write_run(tmp_path, TASK, "ppo", 0)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "failures.json").write_text(
        '{"format": "mdcontest/failures", "version": 1, "failures": ["x"]}'
    )
    store = Store(tmp_path)
    assert len(store.runs) == 1
    assert len(store.problems) == 1


def test_settings_that_differ_in_the_last_digit_are_not_one_variant(tmp_path):
    for gamma in (0.9999999, 1.0):
        write_run(tmp_path, TASK, "ppo", 0, name=f"run{gamma}", gamma=gamma)
    assert {run.variant for run in Store(tmp_path).runs} == {"ppo gamma=0.9999999", "ppo gamma=1"}


def test_a_run_that_a_callback_ended_is_as_long_as_it_is(tmp_path):
    run = write_run(tmp_path, TASK, "ppo", 0, target=1000)
    changed(run, steps=400)
    assert Store(tmp_path).runs[0].target == 400


def test_other_peoples_files_stay(tmp_path, capsys):
    """The folder around a run is not ours."""
    mdc.HPI(mdc.tasks.make("RPSCorridor"), num_steps=64, minibatches=2, hidden=(8,)).learn(
        128, progress=False, folder=tmp_path / "run"
    )
    (tmp_path / ".precious.tmp").touch()
    (tmp_path / ".folder.tmp").mkdir()
    assert main(["trace", str(tmp_path / "run"), "--quiet", "--jobs", "1"]) == 0
    assert (tmp_path / ".precious.tmp").exists()
    assert (tmp_path / ".folder.tmp").is_dir()


def test_flags_go_into_the_tables_of_a_file(tmp_path):
    file = tmp_path / "sweep.toml"
    file.write_text(
        'tasks = ["RPSCorridor", "Reacher-NT"]\n[settings]\nhorizon = 77\ngamma = 0.9\n'
        "[gap]\nevery = 5000\nrestarts = 3\n[task_settings.Reacher-NT]\ntheta = 1.5\n"
    )
    sweep, _ = read_sweep(file, settings={"eta": 1.0}, gap={"every": 9000}, tasks="RPSCorridor")
    assert sweep.settings == {"horizon": 77, "gamma": 0.9, "eta": 1.0}
    assert (sweep.gap.every, sweep.gap.how) == (9000, {"restarts": 3})
    assert sweep.task_settings == {}
    both, _ = read_sweep(file, task_settings={"Reacher-NT": {"direction": "clockwise"}})
    assert both.task_settings == {"Reacher-NT": {"theta": 1.5, "direction": "clockwise"}}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["train", "Reacher-NT", "--task-setting", "name=x"], "does not take these settings"),
        (["train", "RPSCorridor", "--seeds", str(2**63)], "are no seeds"),
        (["sweep", "--tasks", "RPSCorridor", "--seeds", str(2**70)], "are no seeds"),
    ],
)
def test_words_that_mean_something_else(capsys, words, text):
    try:
        code = main(words)
    except SystemExit as stopped:  # the parser's own
        code = stopped.code
    assert code == 2
    assert text in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into every folder")
def test_a_folder_that_may_not_be_looked_into(tmp_path):
    write_run(tmp_path, TASK, "ppo", 0)
    (tmp_path / "closed").mkdir(mode=0)
    assert len(Store(tmp_path).runs) == 1


def test_best_responses_keep_their_own_settings():
    task = mdc.tasks.make("RPSCorridor")
    agent = mdc.HPI(task, num_steps=64, minibatches=2)
    with pytest.raises(mdc.InputError, match="setting opponents of a best response is 'batch' and cannot be changed"):
        mdc.estimate_gap(task, agent, settings={"opponents": "queue"})
