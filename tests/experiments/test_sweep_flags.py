"""Sweeps in flags: the same as in a file, and sentences for whatever is wrong in one."""

from pathlib import Path

import pytest

from mdcontest.cli import main
from mdcontest.commands import sweeping
from mdcontest.commands.options import json_or_text
from mdcontest.experiments.sweep import GapPlan
from sweeps import WHOLE, one_clear_line


@pytest.fixture
def planned(monkeypatch):
    """The runs that a command would start."""
    from mdcontest.commands import sweeping

    monkeypatch.setattr(sweeping, "print_plan", lambda sweep, out, jobs: planned.append((sweep, out)) or 0)
    planned = []

    def plan(*arguments):
        planned.clear()
        assert main(["sweep", *map(str, arguments), "--dry-run"]) == 0
        return planned[0]

    return plan


def test_a_sweep_in_flags(planned):
    flags = ["--tasks", "RPSCorridor, Reacher-NT", "--algos", "HPIClip,ppo", "--seeds", "0-2", "--steps", "2e4"]
    flags += ["--grid", "gamma=0.9,0.99", "--grid", "hidden=[[8],[16]]", "--num-steps", 64, "--minibatches", 2]
    sweep, out = planned(*flags, "--gap-every", "1e4", "--trace-every", 640, "--checkpoint-every", 3, "--out", "here")
    assert out == Path("here")
    assert (sweep.tasks, sweep.algorithms) == (["RPSCorridor", "Reacher-NT"], ["hpi-clip", "ppo"])
    assert sweep.settings == {"num_steps": 64, "minibatches": 2}
    assert sweep.grid == {"gamma": [0.9, 0.99], "hidden": [[8], [16]]}
    assert sweep.gap == GapPlan(10_000, [])
    assert (sweep.trace_every, sweep.checkpoint_every, sweep.steps) == (640, 3, 20_000)
    assert len(sweep.runs(out)) == 2 * 2 * 3 * 4


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,4,16", [1, 4, 16]),
        ("[8,8],[4]", [[8, 8], [4]]),
        ("[[8,8],[4]]", [[8, 8], [4]]),
        ("corrected,printed", ["corrected", "printed"]),
        ("true,false", [True, False]),
        ("0.5", [0.5]),
    ],
)
def test_values_of_a_grid_in_a_flag(text, values):
    assert sweeping._values(json_or_text(text)) == values


def test_settings_of_every_task(planned):
    sweep, _ = planned("--tasks", "RPSCorridor, RPSContinuous", "--task-setting", "end=0.2")
    assert sweep.task_settings == {"RPSCorridor": {"end": 0.2}, "RPSContinuous": {"end": 0.2}}


def test_flags_before_a_file(planned, tmp_path):
    (tmp_path / "study.toml").write_text(WHOLE)
    sweep, out = planned(tmp_path / "study.toml", "--seeds", "5", "--steps", 12_288)
    assert out == Path("study")
    assert (sweep.seeds, sweep.steps, sweep.preset) == ([5], 12_288, "paper")
    assert planned(tmp_path / "study.toml", "--out", "elsewhere")[1] == Path("elsewhere")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "which sweep? name a TOML file, or --tasks"),
        (["--seeds", "3"], "which sweep?"),
        (["--tasks", "RPSCoridor"], "did you mean RPSCorridor"),
        (["--tasks", "RPSCorridor", "--algos", "pppo"], "did you mean ppo or sppo?"),
        (["--tasks", "RPSCorridor", "--algos", ""], "algorithms must be a list of names"),
        (["--tasks", ""], "tasks must be a list of names"),
        (["--tasks", "RPSCorridor", "--grid", "gamma"], "--grid gamma: write KEY=VALUE"),
        (
            ["--tasks", "RPSCorridor", "--grid", "gamma=0.9", "--grid", "gamma=0.8", "--dry-run"],
            "--grid names gamma twice; give all its values at once, --grid gamma=V,W",
        ),
        (["--tasks", "RPSCorridor", "--grid", "gama=1"], "did you mean gamma"),
        (["--tasks", "RPSCorridor", "--grid", "eta=1,3", "--eta", "2"], "--grid varies eta, so --eta would have no"),
        (["--tasks", "RPSCorridor", "--checkpoint-every", "0"], "checkpoint_every"),
        (["--tasks", "RPSCorridor", "--task-setting", "x"], "write KEY=VALUE"),
        (["--tasks", "RPSCorridor", "--gap-every", "3"], "is less than one iteration"),
        (["--tasks", "RPSCorridor", "--jobs", "0"], "--jobs must be at least 1, got 0"),
        (["--tasks", "RPSCorridor", "--jobs", "-1", "--dry-run"], "--jobs must be at least 1, got -1"),
        (["--tasks", "RPSCorridor", "--retries", "-1"], "retries must not be negative"),
        (["--tasks", "RPSCorridor", "--out", "a\0b"], "cannot make the folder"),
        (["--tasks", "RPSCorridor", "--out", "/dev/null"], "cannot make the folder /dev/null"),
        (["--tasks", "RPSCorridor", "--out", "/dev/null/x"], "/dev/null/x"),
    ],
)
def test_wrong_flags(flags, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *flags]) == 2
    err = capsys.readouterr().err
    assert one_clear_line(err), err
    assert message in err
    assert not list(tmp_path.glob("runs/*/*"))


@pytest.mark.parametrize("flags", [["--steps", "nan"], ["--steps", "-1"], ["--seeds", "x"], ["--preset", "mine"]])
def test_usage_errors(flags, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["sweep", "--tasks", "RPSCorridor", *flags])
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert one_clear_line(err), err
    assert err.endswith("; see mdcontest sweep --help\n")
