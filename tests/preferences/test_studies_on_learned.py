"""Studies of runs on learned margins: told apart from others, judged by several margins, on the command line."""

import json
import os
import shutil
from pathlib import Path

import pytest

from fitted_margins import random_margin
from learned_training import TINY, corridor, learned, train
from mdcontest.errors import InputError
from mdcontest.experiments.store import Store
from mdcontest.experiments.stored import Run
from mdcontest.experiments.sweep import Sweep, read_sweep
from mdcontest.gap import GapBracket
from mdcontest.gap.curve import GapRequest, measure_on_run
from mdcontest.gap.estimate import GapSettings
from mdcontest.learn import PPO, HPIClip, load_agent
from mdcontest.learn.loading import same_parameters
from mdcontest.learn.spec import RunSpec
from mdcontest.learn.spec import train as train_spec
from mdcontest.preferences.inputs import Field
from sweeps import one_clear_line

FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
FLAGS = ["--num-steps", 64, "--minibatches", 2, "--epochs", 1, "--hidden", 8]


# --- runs told apart --------------------------------------------------------------------------------------


def test_names_and_variants(folders):
    """Own and learned margins are different runs, and the store averages only runs of one margin."""
    names = {}
    for margin in (None, "skew", "other"):
        where = None if margin is None else str(folders / margin)
        for seed in (0, 1):
            spec = RunSpec("RPSContinuous", "hpi-clip", seed, 64, "", settings=TINY, margin=where)
            spec = spec.in_folder(folders / "runs")
            names[margin, seed] = spec.folder
            spec.agent().learn(64, progress=False, folder=spec.folder).close()
    assert len(set(names.values())) == 6
    variants = {run.name: run.variant for run in Store(folders / "runs").runs}
    found = {key: variants[folder.rpartition("/")[2]] for key, folder in names.items()}
    assert all(found[margin, 0] == found[margin, 1] for margin in (None, "skew", "other"))
    assert len(set(found.values())) == 3
    assert found[None, 0] == "hpi-clip margin=own"
    assert found["skew", 0] == f"hpi-clip margin=learned-{learned().digest[:4]}"


def test_sweeps_with_margins(folders):
    both = ["RPSContinuous", "RPSCorridor"]
    sweep = Sweep(both, seeds=[0], steps=64, settings=TINY, margin={"RPSContinuous": str(folders / "skew")})
    runs = {spec.task: spec for spec in sweep.runs(folders / "runs")}
    assert (runs["RPSContinuous"].margin, runs["RPSCorridor"].margin) == (str(folders / "skew"), None)
    assert runs["RPSContinuous"].make_task().margin.digest == learned().digest
    with pytest.raises(InputError, match="margin has 'RPSContinous'; did you mean RPSContinuous"):
        Sweep(both, margin={"RPSContinous": "x"})
    with pytest.raises(InputError, match="there is no learned margin in nowhere"):
        Sweep(["RPSCorridor"], margin="nowhere").runs(folders)
    file = folders / "study.toml"
    file.write_text(f'tasks = {both}\n[margin]\nRPSContinuous = "{folders / "skew"}"\n')
    assert read_sweep(file)[0].margin == {"RPSContinuous": str(folders / "skew")}
    assert not read_sweep(file, tasks=["RPSCorridor"])[0].margin, "a task that is left out takes its margin with it"
    file.write_text('tasks = ["RPSCorridor"]\nmargin = 3\n')
    with pytest.raises(InputError, match="margin must be a folder, or a table of one a task, got 3"):
        read_sweep(file)


# --- gaps -------------------------------------------------------------------------------------------------


def test_gaps_by_several_judges(folders):
    """By what it was trained on, by the task's own, and by others: each answer has a file of its own.

    What it was trained on is the same judge where it is named.
    """
    train(HPIClip(corridor(learned()), **TINY), folders / "run", 2)
    how = GapSettings(trajectories=2, steps=64, restarts=1, evaluation_steps=50, settings=TINY | {"hidden": [8]})
    asked = {
        margin: GapRequest(str(folders / "run"), 128, "mixture", 0, how, margin)
        for margin in (None, "own", str(folders / "other"), str(folders / "skew"))
    }
    own = corridor()
    judges = {margin: request.task(own.with_margin(learned())) for margin, request in asked.items()}
    assert judges["own"] is own
    assert judges[str(folders / "other")].margin.digest == learned(seed=1).digest
    assert judges[str(folders / "other")].true is own
    files = {margin: request.file for margin, request in asked.items()}
    assert len(set(files.values())) == 3
    assert files[None] == files[str(folders / "skew")]
    named = GapRequest(str(folders / "nothing"), 128, "mixture", 0, how, str(folders / "skew")).file
    assert named.name not in [file.name for file in files.values()], (
        "a run that is not there was trained on nothing yet"
    )
    for margin, request in asked.items():
        assert GapRequest.of_record(json.loads(json.dumps(request.record()))) == request, "as a worker gets it"
        if margin in (None, "own"):
            found = measure_on_run(request)
            assert found.get("margin") == margin
            assert found == measure_on_run(request), "read back from its file"
    found = measure_on_run(asked[str(folders / "other")])
    assert (found["margin"], found["digest"]) == (str(folders / "other"), learned(seed=1).digest)
    judges = {gap.judge for gap in Run(folders / "run").gaps}
    assert judges == {"own", learned().digest, learned(seed=1).digest}
    files[None].rename(folders / "run" / "gaps" / named.name)
    assert asked[str(folders / "skew")].file.name == named.name, "measured before a run's own judge was known as such"
    above = {margin: GapBracket.of_record(measure_on_run(asked[margin])).upper for margin in (None, "own")}
    assert above[None] is None, "nobody knows how much an outcome could win by a learned margin"
    assert above["own"] is not None


def test_a_task_s_own_margin_is_the_same_judge_where_it_is_named(folders):
    train(HPIClip(corridor(), **TINY), folders / "run", 1)
    how = GapSettings(trajectories=2, steps=64, restarts=1, evaluation_steps=50, settings=TINY | {"hidden": [8]})
    plain, named = (GapRequest(str(folders / "run"), 64, "mixture", 0, how, margin) for margin in (None, "own"))
    assert plain.file == named.file
    assert "margin" not in measure_on_run(named)
    assert [gap.judge for gap in Run(folders / "run").gaps] == ["own"]


# --- the command line -------------------------------------------------------------------------------------


def test_train(run, folders):
    out = folders / "runs"
    code, said, err = run("train", "RPSContinuous", *FLAGS, "--steps", 128, "--out", out, "--margin", folders / "skew")
    assert (code, err) == (0, ""), said
    (folder,) = out.iterdir()
    shutil.rmtree(folders / "skew")
    agent = load_agent(folder)
    assert agent.task.margin.digest == learned().digest
    reference = HPIClip(corridor(learned()), **TINY).learn(128, progress=False)
    assert same_parameters(agent, reference), "a worker's run is the run of the library"


def test_sweep_judged_by_the_own_margin(run, folders):
    brief = {"trajectories": 2, "steps": 64, "restarts": 1, "evaluation_steps": 50}
    gap = "".join(f"{name} = {value}\n" for name, value in brief.items())
    small = "[gap.settings]\nnum_steps = 64\nminibatches = 2\nepochs = 1\nhidden = [8]\n"
    (folders / "study.toml").write_text(f'tasks = ["RPSContinuous"]\n[gap]\nmargin = "own"\n{gap}{small}')
    flags = ["--steps", 64, *FLAGS, "--algos", "ppo", "--margin", folders / "reward", "--quiet"]
    code, _, err = run("sweep", folders / "study.toml", *flags, "--out", folders / "study")
    assert (code, err) == (0, "")
    (found,) = Store(folders / "study").runs
    assert (found.algorithm, found.learned) == ("ppo", learned("reward").digest)
    assert same_parameters(load_agent(found.folder), PPO(corridor(learned("reward")), **TINY).learn(64, progress=False))
    assert [gap.by_own for gap in found.gaps] == [True]
    if FULL:
        asked = [text for name, value in brief.items() for text in (f"--{name.replace('_', '-')}", value)]
        code, said, err = run("gap", found.folder, *asked, "--margin", folders / "other", "--json", "--quiet")
        assert (code, err) == (0, "")
        assert [record["margin"] for record in json.loads(said)] == [str(folders / "other")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "RPSContinuous", "--margin", "nowhere"], "there is no learned margin in nowhere"),
        (["train", "RPSContinuous", "--algo", "ppo", "--margin", "skew"], "PPO learns from rewards"),
        (["train", "--resume", "runs", "--margin", "skew"], "leave them out: margin"),
        (["sweep", "--tasks", "RPSContinuous", "--algos", "ppo", "--margin", "skew"], "PPO learns from rewards"),
        (["sweep", "--tasks", "RPSContinuous", "--margin", "nowhere"], "there is no learned margin in nowhere"),
        (["sweep", "judged.toml"], "there is no learned margin in nobody"),
        (["sweep", "elsewhere.toml"], "it was learned from another task"),
        (["train", "RPSCorridor", "--margin", "wide"], "it was learned from another task"),
    ],
)
def test_clear_errors_before_anything_starts(run, folders, monkeypatch, arguments, message):
    monkeypatch.chdir(folders)
    (folders / "judged.toml").write_text('tasks = ["RPSContinuous"]\n[gap]\nmargin = "nobody"\n')
    (folders / "elsewhere.toml").write_text('tasks = ["RPSCorridor"]\n[gap]\nmargin = "wide"\n')
    random_margin("skew", fields=(Field("obs", 3),)).save(folders / "wide")
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert one_clear_line(err)
    assert message in err
    assert not (folders / "runs").exists()


def test_a_judge_that_is_not_there(run, folders):
    train(HPIClip(corridor(), **TINY), folders / "runs" / "one", 1)
    code, out, err = run("gap", folders / "runs" / "one", "--margin", folders / "nowhere")
    assert (code, out) == (2, "")
    assert one_clear_line(err)
    assert "there is no learned margin in" in err


def test_a_margin_that_is_replaced_while_a_sweep_runs(folders):
    """Seeds of one name would be on several margins, and averaged."""
    sweep = Sweep(["RPSContinuous"], seeds=[0, 1], steps=64, settings=TINY, margin=str(folders / "skew"))
    first, second = sweep.runs(folders / "runs")
    train_spec(first).close()
    learned(seed=1).save(folders / "skew")
    with pytest.raises(InputError, match=rf"was replaced after this run was planned: .*, and was {learned().digest}"):
        train_spec(second)
    assert not (Path(second.folder) / "run.json").exists()
    train_spec(first).close()  # what is there has its own copy
    assert {spec.folder for spec in sweep.runs(folders / "runs")}.isdisjoint({first.folder, second.folder})


@pytest.mark.parametrize("report", [{"cycles": {}}, {"cycles": 3}, {"cycles": None, "settings": []}])
def test_a_report_that_somebody_edited(report, run, folders):
    file = folders / "skew" / "margin.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"report": report}))
    for more in ([], ["--page", folders / "page.html"]):
        code, out, err = run("margin", folders / "skew", *more)
        assert (code, out) == (2, "")
        assert one_clear_line(err)
        assert "was changed or damaged" in err
        assert not (folders / "page.html").exists()
