"""Definitions of sweeps: every combination once, names that last, and what follows a run."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fitted_margins import STEP, random_margin
from mdcontest.errors import InputError
from mdcontest.experiments.sweep import Sweep, make_sweep, read_sweep
from mdcontest.gap.curve import GapRequest
from mdcontest.learn.spec import RunSpec
from sweeps import OUT

SETTINGS = {"num_steps": 64, "minibatches": 2}


def combinations(sweep):
    return [(run.task, run.algorithm, run.seed) for run in sweep.runs(OUT)]


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


def test_what_is_varied_is_not_fixed_as_well(tmp_path):
    """Within a file it is a slip; by flags one asks for another sweep than the file's."""
    with pytest.raises(InputError, match="grid varies gamma, so gamma in settings would have no effect"):
        make_sweep({"tasks": "RPSCorridor", "settings": {"gamma": 0.5}, "grid": {"gamma": [0.9]}})
    file = tmp_path / "study.toml"
    file.write_text('tasks = ["RPSCorridor"]\n[settings]\ngamma = 0.5\n')
    runs = read_sweep(file, grid={"gamma": [0.9]})[0].runs(OUT)
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


def test_a_clone_that_no_run_keeps_outcomes_for_is_found_before_anything_starts():
    content = {"tasks": "RPSCorridor", "settings": SETTINGS, "gap": {"returned": "mixture,cloned"}}
    with pytest.raises(
        InputError, match=r"RPSCorridor hpi-clip with returned = mixture keeps nothing to clone from; put"
    ):
        make_sweep(content).jobs(OUT)
    (job,) = make_sweep(content | {"settings": SETTINGS | {"returned": "cloned"}}).jobs(OUT)
    assert [gap.content["returned"] for gap in job.then] == ["mixture", "cloned"]
    varied = content | {"grid": {"returned": ["cloned", "last"]}}
    with pytest.raises(InputError, match="with returned = last keeps nothing"):
        make_sweep(varied).jobs(OUT)


def test_a_run_of_less_than_one_iteration_has_one():
    (job,) = make_sweep({"tasks": "RPSCorridor", "settings": SETTINGS, "steps": 3, "gap": {"every": 64}}).jobs(OUT)
    assert [gap.content["steps"] for gap in job.then] == [64]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"gap": {"every": 63}}, r"every = 63 in \[gap\] \(--gap-every\) is less than one iteration of 64 steps; ask"),
        ({"trace_every": 1}, r"trace_every = 1 \(--trace-every\) is less than one iteration of 64 steps; ask"),
    ],
)
def test_steps_of_less_than_one_iteration_are_named_as_they_were_asked_for(asked, said):
    with pytest.raises(InputError, match=said):
        make_sweep({"tasks": "RPSCorridor", "settings": SETTINGS, **asked}).jobs(OUT)


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
