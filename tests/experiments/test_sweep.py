"""Definitions of sweeps: every combination once, names that last, and sentences for whatever is wrong in a file."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from learned_margins import STEP, random_margin
from mdcontest.cli import main
from mdcontest.commands import sweeping
from mdcontest.commands.options import json_or_text
from mdcontest.errors import FileFormatError, InputError
from mdcontest.experiments.sweep import GapPlan, Sweep, make_sweep, read_sweep
from mdcontest.gap.curve import GapRequest
from mdcontest.learn.spec import RunSpec
from sweeps import one_clear_line

OUT = Path("runs")
SETTINGS = {"num_steps": 64, "minibatches": 2}


def combinations(sweep):
    return [(run.task, run.algorithm, run.seed) for run in sweep.runs(OUT)]


@pytest.fixture
def file(tmp_path):
    def file(text, **changes):
        path = tmp_path / "study.toml"
        path.write_text(text, encoding="utf-8")
        return read_sweep(path, **changes)

    return file


# --- combinations -----------------------------------------------------------------------------------------


def test_every_combination_once():
    sweep = make_sweep({"tasks": ["RPSCorridor", "Reacher-NT"], "algorithms": ["hpi", "ppo"], "seeds": "0-4"})
    found = combinations(sweep)
    wanted = itertools.product(["RPSCorridor", "Reacher-NT"], ["hpi", "ppo"], range(5))
    assert sorted(found) == sorted(wanted)
    assert len({run.folder for run in sweep.runs(OUT)}) == 20
    assert [seed for _, _, seed in found] == sorted(seed for _, _, seed in found), "a seed of all before the next one"


def test_the_grid():
    grid = {"gamma": [0.9, 0.99], "num_steps": [64, 128, 256]}
    sweep = make_sweep({"tasks": "RPSCorridor", "seeds": [3, 1], "settings": {"minibatches": 2}, "grid": grid})
    runs = sweep.runs(OUT)
    assert len({run.folder for run in runs}) == len(runs) == 12
    found = {(run.seed, run.settings["gamma"], run.settings["num_steps"]) for run in runs}
    assert found == set(itertools.product([1, 3], [0.9, 0.99], [64, 128, 256]))
    assert all(run.settings["minibatches"] == 2 for run in runs)


def test_the_same_run_in_two_ways_is_one():
    grid = {"num_steps": [2048, 2048.0, 64], "minibatches": [32]}
    assert len(make_sweep({"tasks": ["RPSCorridor"] * 3, "seeds": [0, "0-1", 1], "grid": grid}).runs(OUT)) == 4


def test_a_grid_of_lists():
    runs = make_sweep({"tasks": "RPSCorridor", "grid": {"hidden": [[8], [8, 8], [16]]}}).runs(OUT)
    assert [run.settings["hidden"] for run in runs] == [[8], [8, 8], [16]]
    assert len({run.folder for run in runs}) == 3


def test_the_grid_goes_before_the_settings():
    runs = make_sweep({"tasks": "RPSCorridor", "settings": {"gamma": 0.5}, "grid": {"gamma": [0.9]}}).runs(OUT)
    assert [run.settings for run in runs] == [{"gamma": 0.9}]


def test_settings_of_a_task_are_only_its_own():
    own = {"Reacher-NT": {"theta": 1.5}}
    first, second = make_sweep({"tasks": ["Reacher-NT", "RPSCorridor"], "task_settings": own}).runs(OUT)
    assert (first.task_settings, second.task_settings) == ({"theta": 1.5}, {})
    plain, _ = make_sweep({"tasks": ["Reacher-NT", "RPSCorridor"]}).runs(OUT)
    assert plain.folder != first.folder


SCRIPT = """
from pathlib import Path
from mdcontest.experiments.sweep import make_sweep
sweep = make_sweep({"tasks": "RPSCorridor,Reacher-NT", "algorithms": "ppo,hpi", "seeds": "0-1",
                    "settings": {"minibatches": 2, "gamma": 0.9}, "grid": {"num_steps": [64, 128]}})
print("\\n".join(run.folder for run in sweep.runs(Path("runs"))))
"""


def test_names_are_the_same_in_every_process():
    found = [
        subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout.splitlines()
        for _ in range(2)
    ]
    settings = {"gamma": 0.9, "minibatches": 2}  # in another order
    content = {"tasks": ["RPSCorridor", "Reacher-NT"], "algorithms": ["ppo", "hpi"], "seeds": [0, 1]}
    here = make_sweep(content | {"settings": settings, "grid": {"num_steps": [64, 128]}}).runs(OUT)
    assert found[0] == found[1] == [run.folder for run in here]
    assert len(set(found[0])) == 16


def test_names_hold_what_decides_the_result():
    """The preset's settings written out are the same run; the folder and the checkpoints do not matter, steps do."""

    def name(**changes):
        (run,) = make_sweep({"tasks": "RPSCorridor", **changes}).runs(OUT)
        return Path(run.folder).name

    assert name() == name(checkpoint_every=3) == name(steps=1e6) == name(algorithms="HPI_Clip")
    assert name().startswith("RPSCorridor_hpi-clip_seed0_")
    others = [name(steps=2e6), name(settings={"gamma": 0.9}), name(preset="paper"), name(algorithms="ppo")]
    others += [name(seeds=1), name(settings={"hidden": [64]})]
    assert len({name(), *others}) == 7


@pytest.mark.parametrize(
    ("seeds", "wanted"),
    [
        ("0-9", list(range(10))),
        ("0,2,5", [0, 2, 5]),
        ("3", [3]),
        (3, [3]),
        ([0, 2, 1], [0, 2, 1]),
        (["0-2", 7], [0, 1, 2, 7]),
        ("1-3,2-4", [1, 2, 3, 4]),
    ],
)
def test_seeds(seeds, wanted):
    assert make_sweep({"tasks": "RPSCorridor", "seeds": seeds}).seeds == wanted


# --- files ------------------------------------------------------------------------------------------------

WHOLE = """
tasks = ["RPSCorridor", "Reacher-NT"]
algorithms = ["HPI-Clip", "sppo"]
seeds = "0-1"
steps = 20_000
out = "study"
preset = "paper"
checkpoint_every = 5
trace_every = 10_000
[settings]
num_steps = 1024
[grid]
comparison_horizon = [1, 16]
[task_settings.Reacher-NT]
theta = 1.5
[gap]
every = 10_000
returned = ["last", "mixture"]
steps = 1000
seed = 3
"""


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


# --- on the command line ----------------------------------------------------------------------------------


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
    assert "usage: mdcontest" in capsys.readouterr().err


# --- what follows a run -----------------------------------------------------------------------------------


def test_follow_ups_at_the_right_steps():
    content = {"tasks": "RPSCorridor", "settings": SETTINGS, "steps": 1000, "seeds": "0-1", "trace_every": 300}
    sweep = make_sweep(content | {"gap": {"every": 500, "returned": "last,mixture", "seed": 4, "steps": 64}})
    for job, run in zip(sweep.jobs(OUT), sweep.runs(OUT), strict=True):
        assert (job.kind, job.folder, job.content) == ("train", run.folder, run.record())
        trace, *gaps = job.then
        assert (trace.kind, trace.folder) == ("trace", run.folder)
        assert trace.content == {
            "steps": [0, 256, 576, 896, 960],
            "returned": "mixture",
        }
        asked = [GapRequest.of_record(gap.content) for gap in gaps]
        assert [(one.steps, one.returned) for one in asked] == [
            (448, "last"),
            (448, "mixture"),
            (960, "last"),
            (960, "mixture"),
        ]
        assert {(one.run, one.seed, one.how.steps) for one in asked} == {(run.folder, 4, 64)}
        assert not any(one.then for one in job.then)


def test_only_the_end(file):
    sweep, _ = file("tasks = 'RPSCorridor'\nsteps = 1000\nalgorithms = 'ppo'\n[settings]\nnum_steps = 64\n[gap]\n")
    (job,) = sweep.jobs(OUT)
    (gap,) = job.then
    assert (gap.content["steps"], gap.content["returned"]) == (960, "last")


def test_a_run_of_less_than_one_iteration_has_one():
    (job,) = make_sweep({"tasks": "RPSCorridor", "settings": SETTINGS, "steps": 3, "gap": {"every": 64}}).jobs(OUT)
    assert [gap.content["steps"] for gap in job.then] == [64]


def test_nothing_to_trace_on_a_task_without_a_picture():
    (job,) = make_sweep({"tasks": "Hopper-v5", "steps": 4096, "trace_every": 2048}).jobs(OUT)
    assert job.then == ()


def test_no_follow_ups_unless_asked():
    (job,) = make_sweep({"tasks": "RPSCorridor"}).jobs(OUT)
    assert job.then == ()


def test_a_sweep_in_python_is_checked_too():
    with pytest.raises(InputError, match="at least one entry in tasks"):
        Sweep([])
    with pytest.raises(InputError, match="checkpoint_every must be at least 1"):
        Sweep(["RPSCorridor"], checkpoint_every=0)


def test_a_job_for_another_machine_finds_everything_from_anywhere(tmp_path, monkeypatch):
    """On Ray a worker starts in a folder of its own. Names of runs and brackets are what they were."""
    monkeypatch.chdir(tmp_path)
    random_margin("skew", fields=STEP).save("margins/one")
    content = {"tasks": "RPSContinuous", "settings": SETTINGS, "steps": 1000}
    gaps = [{}, {"margin": "own"}, {"margin": "margins/one"}]
    for gap, margin in itertools.product(gaps, [None, "margins/one"]):
        (job,) = make_sweep(content | {"margin": margin, "gap": gap}).jobs(OUT)
        assert (job.content["margin"], job.folder[:5]) == (margin, "runs/")
        for one in (job, *job.then):
            elsewhere = json.loads(one.absolute().text())
            assert elsewhere["folder"] == str(tmp_path / one.folder)
            asked = one.content["margin"]
            found = elsewhere["content"]["margin"]
            assert found == (str(tmp_path / asked) if asked == "margins/one" else asked)
            assert one.content["margin"] == asked, "the job itself, which is known by what it says, is not changed"
        (after,) = job.then
        there = GapRequest.of_record(after.absolute().content)
        assert there.file.name == GapRequest.of_record(after.content).file.name
        assert RunSpec(**job.absolute().content).in_folder(OUT).folder == job.folder
