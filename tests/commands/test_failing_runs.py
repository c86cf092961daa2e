"""Runs that are damaged or fail, on the command line: one clear line, and the others are finished."""

import json
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import mdcontest as mdc
from failing import FAILING
from sweeps import FULL, RPS, TINY, one_clear_line


@pytest.mark.parametrize("name", ["run.json", "iterates.f32", "arrays.safetensors", "state.json", "SHA256SUMS"])
@pytest.mark.parametrize("what", ["evaluate", "play", "resume"])
def test_a_damaged_run_is_one_clear_line(name, what, run, trained, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "run")
    path = max(folder.rglob(name))
    path.write_bytes(path.read_bytes()[:-30])
    record = json.loads((trained / "run.json").read_text()) | {"status": "running"}
    if name != "run.json":
        (folder / "run.json").write_text(json.dumps(record))
    arguments = {"evaluate": ["evaluate", folder], "play": ["play", folder, "--video", tmp_path / "v.mp4"]}
    code, _, err = run(*arguments.get(what, ["train", "--resume", folder]))
    assert code == 2 if what != "resume" else code in (1, 2)
    assert one_clear_line(err), err
    assert name in err or str(path.parent) in err


def test_damage_in_one_run_does_not_stop_the_others(run, trained, tmp_path):
    """`--resume` of a folder of runs finishes those that it can."""
    for number in range(2):
        folder = shutil.copytree(trained, tmp_path / f"run{number}")
        record = json.loads((trained / "run.json").read_text()) | {"status": "running"}
        (folder / "run.json").write_text(json.dumps(record) if number else "damage")
    code, out, err = run("train", "--resume", tmp_path)
    assert code in (1, 2)
    assert "run0" in err
    assert json.loads((tmp_path / "run1" / "run.json").read_text())["status"] == "finished", out


def test_a_run_that_is_done_but_does_not_say_so_is_put_right(run, trained, tmp_path):
    """Killed between its last checkpoint and the note that it is finished."""
    folder = shutil.copytree(trained, tmp_path / trained.name)
    record = json.loads((trained / "run.json").read_text()) | {"status": "running"}
    (folder / "run.json").write_text(json.dumps(record))
    assert run("train", "--resume", folder)[0] == 0
    code, out, _ = run(*RPS, "--steps", 256, "--out", tmp_path)
    assert (code, out) == (0, f"already finished: {folder}\n")


# --- runs that fail ---------------------------------------------------------------------------------------

OTHERS = """

class Dying(Failing):
    def fail(self):
        os._exit(7)

def broken():
    raise RuntimeError("no robot here")

def make(env):
    return lambda: mdc.Task(env, lambda z, w: z.obs[:, 0] - w.obs[:, 0], name="Failing")

failing, once, dying, unmade = make(Failing), make(Once), make(Dying), make(broken)
not_a_task = dict
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A package with tasks, installed as pip would: where this and other processes find it."""
    folder = tmp_path / "plugin"
    (folder / "failing-1.0.dist-info").mkdir(parents=True)
    (folder / "failing_tasks.py").write_text(FAILING + OTHERS)
    (folder / "failing-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: failing\nVersion: 1.0\n")
    points = {"Failing": "failing", "Once": "once", "Dying": "dying", "Unmade": "unmade", "NoTask": "not_a_task"}
    lines = [f"{name} = failing_tasks:{target}" for name, target in points.items()]
    lines += ["Missing = failing_tasks:nothing", "Absent = no_such_module:task"]
    (folder / "failing-1.0.dist-info" / "entry_points.txt").write_text("\n".join(["[mdcontest.tasks]", *lines]))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    yield tmp_path / "runs"
    sys.modules.pop("failing_tasks", None)


def test_a_task_of_another_package_is_listed(run, plugin):
    code, out, _ = run("tasks")
    assert code == 0
    assert len(out.splitlines()) == 15 + 7
    assert "Failing" in out.split()


def test_a_run_that_fails_is_one(run, plugin):
    code, out, err = run("train", "Failing", *TINY, "--steps", 640, "--out", plugin)
    assert code == 1
    assert one_clear_line(err)
    assert "seed 0: Failing: the environment raised OSError: the robot fell over at step 100" in err
    assert out.startswith("seed ")
    (folder,) = plugin.iterdir()
    record = json.loads((folder / "run.json").read_text())
    assert record["status"] == "failed"
    assert "step 100" in record["error"]
    code, _, err = run("train", "--resume", folder)
    assert code == 1
    assert one_clear_line(err)


def test_a_run_that_fails_through_a_monkeypatched_entry_point(run, tmp_path, monkeypatch):
    def margin(z, w):
        return np.full(len(z), np.nan)

    point = SimpleNamespace(name="Bad-Margin", load=lambda: lambda: mdc.Task("CartPole-v1", margin))
    monkeypatch.setattr("mdcontest.tasks.registry.entry_points", lambda group: [point])
    code, _, err = run("train", "Bad-Margin", *TINY, "--steps", 640, "--out", tmp_path)
    assert code == 1
    assert one_clear_line(err)
    assert "Bad-Margin: at step 1" in err


@pytest.mark.parametrize("task", ["Unmade", "NoTask", "Missing", "Absent"])
def test_a_task_that_cannot_be_made_is_one_clear_line(task, run, plugin):
    code, _, err = run("train", task, *TINY, "--out", plugin)
    assert code == 2
    assert one_clear_line(err)
    assert task in err


@pytest.mark.parametrize("task", ["Once", "Dying"] if FULL else ["Once"])
def test_one_that_fails_does_not_stop_the_others(task, run, plugin, tmp_path, monkeypatch):
    monkeypatch.setenv("FAIL_ONCE", str(tmp_path / "once"))
    (tmp_path / "once").touch()
    code, out, err = run("train", task, *TINY, "--steps", 256, "--seeds", "0-1", "--jobs", 2, "--out", plugin)
    assert code == 1
    assert "Traceback" not in err
    statuses = sorted(json.loads(path.read_text())["status"] for path in plugin.glob("*/run.json"))
    if task == "Dying":
        assert err.count("its process ended with exit code 7") == 2
    else:
        assert one_clear_line(err)
        assert "the robot fell over at step 100" in err
        assert statuses == ["failed", "finished"]
        code, out, err = run("train", "--resume", plugin)
        assert (code, err) == (0, "")
        assert out.count("already finished") == 1
