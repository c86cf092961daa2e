"""`mdcontest play` and `evaluate` as a person uses them: videos, numbers, and a run that stays as it was."""

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

from sweeps import TINY, command, one_clear_line


def start(*arguments, env=None):
    return subprocess.run(command(*arguments), capture_output=True, text=True, env=os.environ | (env or {}))


def frames_of(path):
    import imageio.v2 as imageio

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
        with imageio.get_reader(path) as reader:
            return [np.asarray(frame) for frame in reader]


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # of imageio's reader
def test_a_video_of_the_corridor_can_be_played(run, trained, tmp_path):
    code, out, err = run("play", trained, "--video", tmp_path / "v.mp4", "--episodes", 3, "--seed", 4)
    assert (code, err) == (0, "")
    frames = frames_of(tmp_path / "v.mp4")
    assert out == f"{len(frames)} frames written to {tmp_path / 'v.mp4'}\n"
    assert len(frames) > 3
    assert frames[0].shape == (60, 420, 3)
    assert any((frame != frames[0]).any() for frame in frames)
    assert [path.name for path in tmp_path.iterdir()] == ["v.mp4"]


RENDERING = "import gymnasium; e = gymnasium.make('Reacher-v5', render_mode='rgb_array'); e.reset(); e.render()"


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # of imageio's reader
def test_a_video_of_a_mujoco_task(run, tmp_path):
    env = {"MUJOCO_GL": "egl"}
    assert run("train", "Reacher-NT", *TINY, "--steps", 64, "--out", tmp_path / "runs")[0] == 0
    (folder,) = (tmp_path / "runs").iterdir()
    done = start("play", folder, "--video", tmp_path / "v.mp4", env=env)
    if done.returncode != 0:
        probe = subprocess.run([sys.executable, "-c", RENDERING], capture_output=True, env=os.environ | env)
        assert "Traceback" not in done.stderr
        if probe.returncode != 0:
            pytest.skip("MuJoCo cannot render with EGL on this machine")
    assert done.returncode == 0, done.stderr
    frames = frames_of(tmp_path / "v.mp4")
    assert done.stdout.startswith(f"{len(frames)} frames")
    assert len(frames) >= 10
    assert frames[0].std() > 5, "there is something to see"


def test_a_machine_that_cannot_render_is_one_clear_line(run, tmp_path):
    assert run("train", "Reacher-NT", *TINY, "--steps", 64, "--out", tmp_path / "runs")[0] == 0
    (folder,) = (tmp_path / "runs").iterdir()
    done = start("play", folder, "--video", tmp_path / "v.mp4", env={"MUJOCO_GL": "crayon"})
    assert done.returncode == 2
    assert one_clear_line(done.stderr), done.stderr
    assert "MUJOCO_GL is 'crayon': unset it, or set it to 'disable'" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_evaluate_as_json(run, trained):
    code, out, err = run("evaluate", trained, "--json", "--episodes", 4)
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert set(record) == {
        "episodes", "return_mean", "return_std", "length_mean", "margin_vs_first", "returns", "lengths",
    }  # fmt: skip
    assert record["episodes"] == len(record["returns"]) == len(record["lengths"]) == 4
    assert record["return_mean"] == np.mean(record["returns"])
    assert record["return_std"] == np.std(record["returns"])
    assert record["length_mean"] == np.mean(record["lengths"])
    assert -1 <= record["margin_vs_first"] <= 1
    assert json.loads(run("evaluate", trained, "--json", "--episodes", 4)[1]) == record, "the same seed, the same games"
    assert json.loads(run("evaluate", trained, "--json", "--episodes", 4, "--seed", 9)[1]) != record
    later = json.loads(run("evaluate", trained, "--json", "--episodes", 2, "--deterministic")[1])
    assert later["episodes"] == 2


def test_evaluate_for_people(run, trained):
    code, out, err = run("evaluate", trained, "--episodes", 2)
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["return", "length", "margin"]
    assert "HPIClip(RPSContinuous, seed=0, 256 steps), returned policy: mixture" in out


def test_evaluate_several_runs(run, trained):
    """As a pattern of the shell names them."""
    code, out, err = run("evaluate", trained, trained, "--episodes", 2)
    assert (code, err) == (0, "")
    assert out.count("return ") == out.count("HPIClip(") == 2
    one, other = (json.loads(line) for line in run("evaluate", trained, trained, "--json")[1].splitlines())
    assert one == other
    assert one["run"] == str(trained)
    code, _, err = run("play", trained, trained, "--video", "v.mp4")
    assert code == 2
    assert "play shows one run, got 2" in err


def test_evaluating_changes_nothing(run, trained):
    before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    run("evaluate", trained, "--episodes", 1)
    assert {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()} == before
