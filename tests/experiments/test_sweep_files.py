"""Files of sweeps: what they say is what is run, flags go before them, and sentences for whatever is wrong in one."""

from pathlib import Path

import pytest

from mdcontest.cli import main
from mdcontest.errors import FileFormatError
from mdcontest.experiments.sweep import GapPlan, Sweep, read_sweep
from sweeps import OUT, WHOLE, one_clear_line


@pytest.fixture
def file(tmp_path):
    def file(text, **changes):
        path = tmp_path / "study.toml"
        path.write_text(text, encoding="utf-8")
        return read_sweep(path, **changes)

    return file


def test_a_whole_file(file):
    sweep, out = file(WHOLE)
    assert out == "study"
    assert sweep == Sweep(
        ["RPSCorridor", "Reacher-NT"],
        ["hpi-clip", "sppo"],
        [0, 1],
        20_000,
        "paper",
        {"num_steps": 1024},
        {"comparison_horizon": [1, 16]},
        {"Reacher-NT": {"theta": 1.5}},
        5,
        GapPlan(10_000, ["last", "mixture"], 3, {"steps": 1000}),
        10_000,
    )
    assert len(sweep.runs(OUT)) == 16


def test_flags_go_before_the_file(file):
    sweep, _ = file(WHOLE, tasks="RPSCorridor", seeds=[7], steps=5000, task_settings={})
    assert (sweep.tasks, sweep.seeds, sweep.steps) == (["RPSCorridor"], [7], 5000)
    assert sweep.algorithms == ["hpi-clip", "sppo"]


def test_a_flag_goes_before_the_grid_and_the_tasks_settings_of_the_file(file):
    """Entry by entry: what the flag does not name stays."""
    more = WHOLE.replace("[grid]", "[grid]\neta = [0.1, 0.2]").replace("theta = 1.5", "theta = 1.5\nhorizon = 30")
    sweep, _ = file(more, settings={"eta": 3.0}, task_settings={"Reacher-NT": {"theta": 1.0}})
    assert sweep.grid == {"comparison_horizon": [1, 16]}
    assert {run.settings["eta"] for run in sweep.runs(OUT)} == {3.0}
    assert sweep.task_settings == {"Reacher-NT": {"theta": 1.0, "horizon": 30}}


def test_a_mark_at_the_start_of_a_file(tmp_path):
    (tmp_path / "study.toml").write_text('\ufefftasks = "RPSCorridor"', encoding="utf-8")
    assert read_sweep(tmp_path / "study.toml")[0].tasks == ["RPSCorridor"]


def test_only_the_end(file):
    sweep, _ = file("tasks = 'RPSCorridor'\nsteps = 1000\nalgorithms = 'ppo'\n[settings]\nnum_steps = 64\n[gap]\n")
    (job,) = sweep.jobs(OUT)
    (gap,) = job.then
    assert (gap.content["steps"], gap.content["returned"]) == (960, "last")


RPS = 'tasks = ["RPSCorridor"]\n'
WRONG = {
    "typo in a key": (RPS + "algoritms = ['ppo']", "a sweep has no 'algoritms'; did you mean algorithms?"),
    "another typo": (RPS + "sedes = 3", "did you mean seeds or steps?"),
    "unknown key": (RPS + "zzzz = 3", "the keys are tasks, algorithms, seeds"),
    "no tasks": ("seeds = 1", "a sweep needs tasks"),
    "empty": ("", "a sweep needs tasks"),
    "empty tasks": ("tasks = []", "at least one entry in tasks"),
    "empty algorithms": (RPS + "algorithms = []", "at least one entry in algorithms"),
    "empty seeds": (RPS + "seeds = []", "at least one entry in seeds"),
    "empty grid": (RPS + "grid.gamma = []", "grid: gamma must be a list of values, got []"),
    "grid of one": (RPS + "grid.gamma = 0.9", "grid: gamma must be a list of values, got 0.9"),
    "grid is a list": (RPS + "grid = [1]", "grid must be a table"),
    "settings are a text": (RPS + "settings = 'x'", "settings must be a table"),
    "task settings are a number": (RPS + "task_settings = 3", "task_settings must be a table"),
    "task's settings are a number": (RPS + "task_settings.RPSCorridor = 3", "must be a table of settings, got 3"),
    "settings of another task": (RPS + "task_settings.RPSCoridor.end = 1", "did you mean RPSCorridor?"),
    "unknown setting of a task": (RPS + "task_settings.RPSCorridor.colour = 1", "does not take these settings"),
    "unknown task": ('tasks = ["Reacher"]', "there is no task 'Reacher'; did you mean Reacher-"),
    "unknown algorithm": (RPS + "algorithms = 'hpi-clap'", "no algorithm 'hpi-clap'; did you mean hpi-clip"),
    "unknown setting": (RPS + "settings.gama = 1", "there is no setting 'gama'; did you mean gamma"),
    "unknown setting in the grid": (RPS + "grid.gama = [1]", "there is no setting 'gama'; did you mean gamma"),
    "wrong setting": (RPS + "settings.gamma = 'much'", "setting gamma = 'much' must be a number"),
    "wrong value in the grid": (RPS + "grid.gamma = [0.9, 3]", "gamma = 3 must lie between 0 and 1"),
    "NaN setting": (RPS + "settings.gamma = nan", "gamma = nan must be a number"),
    "batch that cannot be divided": (RPS + "settings.minibatches = 31", "must divide the batch"),
    "tasks are a number": ("tasks = 3", "tasks must be a list of names, got 3"),
    "a task is a number": ('tasks = ["RPSCorridor", 3]', "tasks must be a list of names"),
    "a task without a name": ("tasks = ['']", "tasks must be a list of names"),
    "algorithms are a table": (RPS + "algorithms = {a = 1}", "algorithms must be a list of names"),
    "NaN steps": (RPS + "steps = nan", "steps must be a whole number, at least 1, got nan"),
    "infinite steps": (RPS + "steps = inf", "steps must be a whole number"),
    "negative steps": (RPS + "steps = -5", "steps must be a whole number, at least 1, got -5"),
    "no steps": (RPS + "steps = 0", "steps must be a whole number"),
    "half a step": (RPS + "steps = 1.5", "steps must be a whole number"),
    "steps are true": (RPS + "steps = true", "steps must be a whole number"),
    "steps are a text": (RPS + "steps = '1e6'", "steps must be a whole number"),
    "steps are a date": (RPS + "steps = 2026-01-01", "steps must be a whole number"),
    "checkpoints": (RPS + "checkpoint_every = 0", "checkpoint_every must be a whole number, at least 1, got 0"),
    "traces": (RPS + "trace_every = 'often'", "trace_every must be a whole number"),
    "traces too often": (RPS + "trace_every = 10", "is less than one iteration of"),
    "negative seed": (RPS + "seeds = -1", "are no seeds"),
    "half a seed": (RPS + "seeds = [1.5]", "are no seeds"),
    "seeds are true": (RPS + "seeds = true", "are no seeds"),
    "seeds of seeds": (RPS + "seeds = [[0, 1], [2]]", "are no seeds"),
    "preset": (RPS + "preset = 'mine'", "there is no preset 'mine'"),
    "preset is a list": (RPS + "preset = ['paper']", "there is no preset"),
    "out is a number": (RPS + "out = 3", "out must be the name of a folder, got 3"),
    "out is a list": (RPS + "out = ['a']", "out must be the name of a folder"),
    "gap is a number": (RPS + "gap = 3", "gap must be a table"),
    "typo in gap": (RPS + "gap.evry = 3", "gap has no 'evry'; did you mean every?"),
    "gap every": (RPS + "gap.every = 'often'", "every must be a whole number"),
    "gap too often": (RPS + "gap.every = 10", "is less than one iteration of"),
    "gap of one episode": (RPS + "gap.trajectories = 1", "trajectories must be at least 2"),
    "gap confidence": (RPS + "gap.confidence = 2.0", "confidence must lie between 0 and 1"),
    "gap returned": (RPS + "gap.returned = 'mixure'", "returned has 'mixure'; did you mean mixture?"),
    "gap returned number": (RPS + "gap.returned = 3", "returned must be a list of names"),
    "gap seed": (RPS + "gap.seed = 'x'", "are no seeds"),
    "gap negative seed": (RPS + "gap.seed = -1", "are no seeds"),
    "gap NaN seed": (RPS + "gap.seed = nan", "are no seeds"),
    "gap seeds": (RPS + "gap.seed = [1, 2]", "seed must be one number"),
    "gap settings": (RPS + "gap.settings = 3", "settings must be a table, got 3"),
    "gap settings typo": (RPS + "gap.settings.gama = 0.9", "did you mean gamma"),
    "not TOML": ("tasks: [RPSCorridor]", "cannot read the sweep"),
    "key twice": (RPS + RPS, "cannot read the sweep"),
    "deep": ("a = " + "[" * 100_000, "cannot read the sweep"),
    "huge": (RPS + "# " + "x" * (1 << 20), "over 1048576 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_in_a_file_is_named(case, tmp_path, capsys, monkeypatch):
    """One sentence with the name of the file, exit code 2, and nothing on disk."""
    monkeypatch.chdir(tmp_path)
    text, message = WRONG[case]
    Path("study.toml").write_text(text)
    assert main(["sweep", "study.toml"]) == 2
    err = capsys.readouterr().err
    assert one_clear_line(err), err
    assert message in err
    names_the_file = ("task", "algorithm", "setting", "wrong", "NaN setting", "batch", "often", "preset")
    assert "study.toml" in err or any(word in case for word in names_the_file)
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "study.toml").write_bytes(b"tasks = '\xff\xfe'")
    with pytest.raises(FileFormatError, match="cannot read the sweep"):
        read_sweep(tmp_path / "study.toml")


@pytest.mark.parametrize(
    ("name", "message"),
    [("nothing.toml", "No such file"), (".", "Is a directory"), ("a\0b", "cannot read"), ("/dev/zero", "over")],
)
def test_what_is_no_file(name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileFormatError, match=message):
        read_sweep(name)
