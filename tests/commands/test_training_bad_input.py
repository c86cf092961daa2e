"""Bad input of `mdcontest train`, `play`, `evaluate` and their like: exit code 2, one clear line, nothing written."""

import pytest

from mdcontest.cli import main
from sweeps import RPS, TINY, one_clear_line

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
    "text for a number": ([*RPS, "--task-setting", "end=often"], "end is a probability below 1"),
    "list for a number": ([*RPS, "--task-setting", "end=[1]"], "end is a probability below 1"),
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
    "out is too long": ([*RPS, "--steps", 64, "--out", "x" * 300], "File name too long"),
    "out is no name": ([*RPS, "--steps", 64, "--out", "a\0b"], "cannot use the folder"),
    "too large": ([*RPS, "--num-steps", 10**13], "not enough memory: Unable to allocate"),
    "a rate too large": ([*RPS, "--learning-rate", 1e30], "learning_rate = 1e+30 is too large; it must be below 1e+15"),
    "far too large": (
        [*RPS, "--num-steps", 10**20],
        "00000 is too large; it must be below 1e+15",
    ),
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
    assert one_clear_line(err), err
    assert err.endswith(f"; see mdcontest {arguments[0]} --help\n")
    assert message in err
