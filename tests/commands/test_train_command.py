"""`mdcontest train` as a person uses it: seeds side by side, the same again, interrupts, and going on."""

import json
import os
import select
import shutil
import signal
import subprocess

import pytest

import mdcontest as mdc
from mdcontest.folders import lock_folder
from sweeps import FULL, RPS, change, command, one_clear_line


def test_two_seeds_side_by_side(run, tmp_path):
    seeds = [*RPS, "--steps", 256, "--seeds", "0-1", "--jobs", 2, "--out", tmp_path]
    code, out, err = run(*seeds)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 3
    assert out.split()[:3] == ["seed", "steps", "return"]
    folders = sorted(tmp_path.iterdir())
    assert [folder.name.split("_")[:3] for folder in folders] == [
        ["RPSContinuous", "hpi-clip", f"seed{seed}"] for seed in (0, 1)
    ]
    for seed, folder in enumerate(folders):
        record = json.loads((folder / "run.json").read_text())
        assert (record["status"], record["seed"], record["steps"]) == ("finished", seed, 256)
        assert record["settings"]["num_steps"] == 64
        assert str(folder) in out
    code, out, err = run(*seeds)
    assert (code, err) == (0, "")
    assert out.splitlines() == [f"already finished: {folder}" for folder in folders]
    code, out, _ = run("train", "--resume", tmp_path)
    assert code == 0
    assert out.splitlines() == [f"already finished: {folder}" for folder in folders]
    from mdcontest.learn import HPIClip, load_agent
    from mdcontest.learn.loading import same_parameters

    settings = {"num_steps": 64, "minibatches": 2, "epochs": 1, "hidden": (8,)}
    for seed, folder in enumerate(folders):  # a worker's run is the run of the library in this process
        agent = HPIClip(mdc.tasks.make("RPSContinuous"), seed, **settings).learn(256, progress=False)
        assert same_parameters(agent, load_agent(folder))


def test_one_run_and_the_same_again(run, trained):
    code, out, err = run(*RPS, "--steps", 256, "--out", trained.parent)
    assert (code, err) == (0, "")
    assert out == f"already finished: {trained}\n"
    record = json.loads((trained / "run.json").read_text())
    assert record["status"] == "finished"
    assert len((trained / "progress.csv").read_text().splitlines()) == 5


def test_other_settings_are_another_run(run, trained, tmp_path):
    shutil.copytree(trained, tmp_path / trained.name)
    code, _, _ = run(*RPS, "--steps", 256, "--out", tmp_path, "--gamma", 0.9)
    assert code == 0
    code, _, _ = run(*RPS, "--steps", 128, "--out", tmp_path, "--algo", "PPO", "--task-setting", "end=0.2")
    assert code == 0
    assert len(list(tmp_path.iterdir())) == 3


def test_an_interrupted_run_is_not_begun_again_but_resumed(run, tmp_path, monkeypatch, trained):
    """Ctrl-C: 130, how to go on, and going on ends with the same policy."""
    from mdcontest.learn.agent import Agent

    original = Agent._report

    def interrupted(self, *args):
        if self.call[0] == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, *args)

    arguments = [*RPS, "--steps", 256, "--checkpoint-every", 2, "--out", tmp_path]
    with monkeypatch.context() as patch:
        patch.setattr(Agent, "_report", interrupted)
        code, _, err = run(*arguments)
    (folder,) = tmp_path.iterdir()
    assert code == 130
    assert f"mdcontest train --resume {folder}" in err
    assert "Traceback" not in err
    assert json.loads((folder / "run.json").read_text())["error"] == "interrupted"
    code, _, err = run(*arguments)
    assert code == 2
    assert one_clear_line(err)
    assert f"mdcontest train --resume {folder}" in err
    code, out, err = run("train", "--resume", tmp_path)
    assert (code, err) == (0, "")
    assert str(folder) in out
    assert (folder / "iterates.f32").read_bytes() == (trained / "iterates.f32").read_bytes()


def test_a_run_that_is_being_trained_is_not_called_interrupted(run, trained, tmp_path):
    folder = shutil.copytree(trained, tmp_path / trained.name)
    change(folder, status="running")
    arguments = [*RPS, "--steps", 256, "--out", tmp_path]
    with lock_folder(folder):
        code, _, err = run(*arguments)
    assert (code, err) == (2, f"mdcontest: error: another process is training in {folder}\n")
    assert f"{folder} was interrupted; finish it with" in run(*arguments)[2]


def wait_for_rows(process, out, rows, runs=1):
    """Until that many runs have logged that many iterations."""
    while process.poll() is None:
        found = [path.read_bytes().count(b"\n") for path in out.glob("*/progress.csv")]
        if sum(number > rows for number in found) >= runs:
            return
        select.select([process.stdout], [], [], 0.002)
    pytest.fail(f"the process ended by itself: {process.communicate()}")


@pytest.mark.parametrize("seeds", ["0", "0-1"] if FULL else ["0-1"])
def test_ctrl_c_of_a_real_process(seeds, tmp_path):
    """A terminal sends it to every process of the group; each run can be resumed."""
    # Long enough that the signal comes before the end, on any machine; it is not waited for.
    arguments = command(*RPS, "--steps", 10**9, "--seeds", seeds, "--jobs", 2, "--out", tmp_path, "--anneal", "false")
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    wait_for_rows(process, tmp_path, 12, runs=2 if seeds == "0-1" else 1)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "mdcontest train --resume" in err
    from mdcontest.learn import load_agent

    for folder in tmp_path.iterdir():
        assert json.loads((folder / "run.json").read_text())["status"] == "failed"
        agent = load_agent(folder)
        assert agent.learner.iteration >= 10
        before = agent.learner.iteration
        agent.resume(progress=False, callback=lambda agent, progress: False)
        assert agent.learner.iteration == before + 1


def test_tensorboard_writes_an_event_file(run, tmp_path):
    code, _, err = run(*RPS, "--steps", 128, "--out", tmp_path, "--tensorboard")
    assert (code, err) == (0, "")
    (events,) = tmp_path.glob("*/tensorboard/events.out.tfevents.*")
    assert b"train/margin_vs_first" in events.read_bytes()


def test_the_folder_of_a_run_can_be_resumed_too(run, trained):
    assert run("train", "--resume", trained)[1] == f"already finished: {trained}\n"
