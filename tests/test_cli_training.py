"""`mdcontest train`, `play` and `evaluate` as a person uses them: output, files, exit codes, and no traceback."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import textwrap
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import mdcontest as mdc
from failing import FAILING
from mdcontest.cli import main

FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
TINY = ["--num-steps", 64, "--minibatches", 2, "--epochs", 1, "--hidden", 8]
RPS = ["train", "RPSContinuous", *TINY]


def command(*arguments):
    return [sys.executable, "-m", "mdcontest.cli", *map(str, arguments)]


def start(*arguments, env=None):
    return subprocess.run(command(*arguments), capture_output=True, text=True, env=os.environ | (env or {}))


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The folder of a finished run."""
    out = tmp_path_factory.mktemp("trained")
    assert main([str(argument) for argument in (*RPS, "--steps", 256, "--out", out, "--quiet")]) == 0
    (folder,) = out.iterdir()
    return folder


def one_clear_line(err):
    return err.startswith("mdcontest: error: ") and len(err.splitlines()) == 1


# --- train ------------------------------------------------------------------------------------------------


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


# --- bad input --------------------------------------------------------------------------------------------

BAD = {
    "no task": (["train"], "which task?"),
    "unknown task": (["train", "Chess"], "there is no task 'Chess'; the tasks are Ant-v5"),
    "empty task": (["train", ""], "there is no task ''"),
    "zero jobs": ([*RPS, "--steps", 64, "--jobs", 0], "--jobs must be at least 1"),
    "negative jobs": ([*RPS, "--steps", 64, "--jobs", -2, "--seeds", "0-1"], "--jobs must be at least 1"),
    "no checkpoints": ([*RPS, "--checkpoint-every", 0], "--checkpoint-every must be at least 1"),
    "minibatches": (["train", "RPSContinuous", "--minibatches", 3], "minibatches = 3 must divide the batch of 2048"),
    "one outcome each": (["train", "RPSContinuous", "--minibatches", 2048], "leaves one outcome each"),
    "zero steps an iteration": (["train", "RPSContinuous", "--num-steps", 0], "num_steps = 0"),
    "half an environment": (["train", "RPSContinuous", "--num-envs", 1.5], "num_envs = 1.5 must be a whole number"),
    "negative rate": (["train", "RPSContinuous", "--learning-rate", -1], "learning_rate"),
    "NaN rate": (["train", "RPSContinuous", "--learning-rate", "nan"], "learning_rate = nan must be a number"),
    "infinite rate": (["train", "RPSContinuous", "--learning-rate", "inf"], "learning_rate = inf must be a number"),
    "gamma": (["train", "RPSContinuous", "--gamma", 2], "gamma = 2.0 must lie between 0 and 1"),
    "opponents": (["train", "RPSContinuous", "--opponents", "all"], "opponents = 'all' must be one of batch, queue"),
    "opponents none": (["train", "RPSContinuous", "--opponents", "none"], "opponents = None must be one of"),
    "hidden": (["train", "RPSContinuous", "--hidden", "8,0"], "positive layer sizes"),
    "horizon": (["train", "RPSContinuous", "--horizon", 0], "horizon = 0 is too small"),
    "no equals sign": ([*RPS, "--task-setting", "end"], "--task-setting end: write KEY=VALUE"),
    "no key": ([*RPS, "--task-setting", "=1"], "write KEY=VALUE"),
    "unknown key": ([*RPS, "--task-setting", "theta=1"], "does not take these settings"),
    "text for a number": ([*RPS, "--task-setting", "end=often"], "RPSContinuous"),
    "list for a number": ([*RPS, "--task-setting", "end=[1]"], "RPSContinuous"),
    "no probability": ([*RPS, "--task-setting", "end=1.5"], "end is a probability below 1"),
    "NaN probability": ([*RPS, "--task-setting", "end=NaN"], "end is a probability below 1"),
    "half a step": (["train", "Hopper-v5", *TINY, "--task-setting", "horizon=1.5"], "horizon must be a whole number"),
    "negative horizon": (
        ["train", "Hopper-v5", *TINY, "--task-setting", "horizon=-1"],
        "horizon must be a whole number",
    ),
    "truth for a horizon": (["train", "Hopper-v5", *TINY, "--task-setting", "horizon=true"], "at least 1, got True"),
    "a setting twice": (
        [*RPS, "--task-setting", "end=0.1", "--task-setting", "end=0.2"],
        "--task-setting names end twice; leave one out",
    ),
    "text for a horizon": (["train", "Hopper-v5", *TINY, "--task-setting", "horizon=long"], "horizon must be"),
    "theta": (["train", "Reacher-NT", *TINY, "--task-setting", "theta=NaN"], "theta"),
    "unwritable": ([*RPS, "--steps", 64, "--out", "/proc/nope"], "cannot make the folder /proc/nope"),
    "out is a file": ([*RPS, "--steps", 64, "--out", "a-file"], "cannot make the folder a-file"),
    "out is too long": ([*RPS, "--steps", 64, "--out", "x" * 300], ""),
    "out is no name": ([*RPS, "--steps", 64, "--out", "a\0b"], ""),
    "too large": ([*RPS, "--num-steps", 10**13], ""),
    "a rate too large": ([*RPS, "--learning-rate", 1e30], "learning_rate = 1e+30 is too large; it must be below 1e+15"),
    "far too large": ([*RPS, "--num-steps", 10**20], ""),
    "out is empty": ([*RPS, "--steps", 64, "--out", ""], "--out is empty"),
    "resume is empty": ([*RPS, "--steps", 64, "--resume", ""], "--resume is empty"),
    "margin is empty": ([*RPS, "--steps", 64, "--margin", ""], "--margin is empty"),
    "sweep to nowhere": (["sweep", "--tasks", "RPSContinuous", *TINY, "--out", ""], "--out is empty"),
    "run is empty": (["evaluate", ""], "a run's folder is empty"),
    "film is empty": (["play", "{run}", "--video", ""], "--video is empty"),
    "gap of nothing": (["gap", ""], "a run's folder is empty"),
    "label nothing": (["label", ""], "the folder is empty"),
    "report is empty": (["report", "{out}", "--out", ""], "--out is empty"),
    "report is no page": (["report", "{out}", "--out", "a-file"], "--out a-file is not the name of a page; it ends in"),
    "report is a folder": (["report", "{out}", "--out", "empty"], "empty is a folder; name a page in it, such as"),
    "resume nothing": (["train", "--resume", "nowhere"], "cannot read the folder nowhere"),
    "resume a file": (["train", "--resume", "a-file"], "cannot read the folder a-file"),
    "resume an empty folder": (["train", "--resume", "empty"], "there is no run in empty"),
    "resume a foreign folder": (["train", "--resume", "foreign"], "foreign"),
    "resume a foreign store": (["train", "--resume", "."], "foreign"),
    "resume with a task": (["train", "RPSCorridor", "--resume", "{run}"], "leave them out"),
    "resume with settings": (["train", "--resume", "{run}", "--gamma", 0.5], "leave them out"),
    "resume elsewhere": (["train", "--resume", "{run}", "--out", "there"], "leave them out: out"),
    "resume with other files": (
        ["train", "--resume", "{run}", "--checkpoint-every", 0, "--tensorboard"],
        "leave them out: checkpoint_every, tensorboard",
    ),
    "evaluate nothing": (["evaluate", "nowhere"], "nowhere holds no run"),
    "evaluate a store": (["evaluate", "{out}"], "holds no run"),
    "evaluate a foreign folder": (["evaluate", "foreign"], "foreign"),
    "no episodes": (["evaluate", "{run}", "--episodes", 0], "episodes must be at least 1"),
    "negative seed": (["evaluate", "{run}", "--seed", -1], "seed"),
    "play nothing": (["play", "nowhere", "--video", "v.mp4"], "nowhere holds no run"),
    "no display": (["play", "{run}"], "there is no display to show it on; --video out.mp4"),
    "wrong ending": (["play", "{run}", "--video", "v.gif"], "v.gif: the video must be named *.mp4"),
    "no ending": (["play", "{run}", "--video", "v"], "the video must be named *.mp4"),
    "missing folder": (["play", "{run}", "--video", "missing/v.mp4"], "cannot write missing/v.mp4"),
    "a folder of that name": (["play", "{run}", "--video", "folder.mp4"], "folder.mp4"),
    "film of nothing": (["play", "{run}", "--video", "v.mp4", "--episodes", 0], "episodes must be at least 1"),
    "film of a negative seed": (["play", "{run}", "--video", "v.mp4", "--seed", -1], "seed"),
}


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_two_with_one_clear_line(case, run, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISPLAY", raising=False)
    (tmp_path / "a-file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder.mp4").mkdir()
    if "foreign" in case:
        (tmp_path / "foreign").mkdir()
        (tmp_path / "foreign" / "run.json").write_text('{"format": "mdcontest/run", "version": 1, "task": 3}')
    arguments, message = BAD[case]
    places = {"{run}": trained, "{out}": trained.parent}
    code, out, err = run(*(places.get(argument, argument) for argument in arguments))
    assert code == 2, (out, err)
    assert one_clear_line(err), err
    assert message in err
    assert not list(tmp_path.glob("*.mp4/*")) + list(tmp_path.glob("v.*")) + list(tmp_path.glob(".v*"))


@pytest.mark.parametrize("name", ["train", "sweep"])
def test_help_says_whose_defaults_these_are(name, capsys):
    with pytest.raises(SystemExit):
        main([name, "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "a task with recommended settings (RPSCorridor), SPPO and --preset go before them" in said


def test_a_report_does_not_replace_a_run(run, trained):
    before = (trained / "run.json").read_bytes()
    code, _, err = run("report", trained.parent, "--out", trained / "run.json")
    assert code == 2
    assert one_clear_line(err), err
    assert (trained / "run.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "RPSContinuous", "--algo", "dqn"], "invalid choice: 'dqn'"),
        (["train", "RPSContinuous", "--steps", "0"], "no number of steps"),
        (["compare", "dataset", "--pairs", "0"], "'0' is no whole number of at least 1"),
        (["train", "RPSContinuous", "--steps", "many"], "no number of steps"),
        (["train", "RPSContinuous", "--steps", "nan"], "no number of steps"),
        (["train", "RPSContinuous", "--steps", "inf"], "no number of steps"),
        (["train", "RPSContinuous", "--steps", "1e300"], "no number of steps"),
        (["train", "RPSContinuous", "--seeds", "-1"], "are no seeds"),
        (["train", "RPSContinuous", "--seeds", "a"], "are no seeds"),
        (["train", "RPSContinuous", "--seeds", ""], "are no seeds"),
        (["train", "RPSContinuous", "--seeds", "5-2"], "are no seeds"),
        (["train", "RPSContinuous", "--seeds", "0-10000"], "are no seeds"),
        (["train", "RPSContinuous", "--seeds", "0-1000000000000000"], "are no seeds"),
        (["train", "RPSContinuous", "--seeds", "0-1" + "0" * 30], "are no seeds"),
        (["train", "RPSContinuous", "--seeds", "0-1-2"], "are no seeds"),
        (["train", "RPSContinuous", "--jobs", "two"], "invalid int value"),
        (["train", "RPSContinuous", "--preset", "mine"], "invalid choice"),
        (["train", "RPSContinuous", "--num-steps", "many"], "'many' is no value for num_steps"),
        (["train", "RPSContinuous", "--num-steps", "inf"], "'inf' is no value for num_steps"),
        (["train", "RPSContinuous", "--anneal", "perhaps"], "'perhaps' is no value for anneal"),
        (["train", "RPSContinuous", "--hidden", "8,x"], "'8,x' is no value for hidden"),
        (["train", "RPSContinuous", "--unknown", "1"], "unrecognized arguments"),
        (["train", "RPSContinuous", "RPSCorridor"], "unrecognized arguments"),
        (["evaluate"], "RUN"),
        (["evaluate", "x", "--episodes", "all"], "invalid int value"),
        (["play", "x", "--seed", "a"], "invalid int value"),
    ],
)
def test_usage_errors_are_two(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert "usage: mdcontest" in err
    assert message in err


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


# --- play and evaluate ------------------------------------------------------------------------------------


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


# --- what is imported, and when ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [None, ["--help"], ["train", "--help"], ["evaluate", "--help"], ["train", "RPSContinuous", "--steps", "0"]],
    ids=["import", "help", "train help", "evaluate help", "usage error"],
)
def test_neither_jax_nor_gymnasium_is_loaded_for_help(arguments):
    script = textwrap.dedent(f"""
        import contextlib, io, sys
        import mdcontest
        arguments = {arguments!r}
        if arguments is not None:
            from mdcontest.cli import main
            with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
                with contextlib.redirect_stderr(io.StringIO()):
                    main(arguments)
        print([name for name in ("jax", "jaxlib", "gymnasium", "optax", "mujoco", "imageio") if name in sys.modules])
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_package_can_be_run_as_a_module():
    done = subprocess.run([sys.executable, "-m", "mdcontest", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"mdcontest {mdc.__version__}\n")
