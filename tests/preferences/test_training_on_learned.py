"""Policies trained on a learned margin: the run carries it, resumes bit for bit, and is told apart from others."""

import dataclasses
import json
import os
import shutil

import numpy as np
import pytest

from learned_margins import STEP, random_margin
from mdcontest import tasks
from mdcontest.errors import FileFormatError, InputError
from mdcontest.experiments.store import Store
from mdcontest.experiments.sweep import Sweep, read_sweep
from mdcontest.gap import GapBracket, estimate_gap
from mdcontest.gap.curve import GapRequest, measure_on_run
from mdcontest.gap.estimate import GapSettings
from mdcontest.learn import PPO, HPIClip, load_agent
from mdcontest.learn.loading import same_parameters
from mdcontest.learn.spec import RunSpec
from mdcontest.preferences import load_margin
from mdcontest.preferences.ensemble import Ensemble
from mdcontest.preferences.inputs import Field, InputReader
from mdcontest.preferences.learned import LearnedReward
from sweeps import one_clear_line

FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
TINY = {"num_steps": 64, "minibatches": 2, "epochs": 1, "hidden": (8,)}
FLAGS = ["--num-steps", 64, "--minibatches", 2, "--epochs", 1, "--hidden", 8]


def learned(model="skew", seed=0):
    return random_margin(model, seed, fields=STEP)


def place(sign=1.0):
    """The learned reward ±x: right, or left, is better."""
    one = np.ones(1)
    reader = InputReader((Field("obs", 1),), 0 * one, one, -one, one)
    params = {"w0": np.ones((1, 1), np.float32), "b0": np.zeros(1, np.float32), "ended": np.zeros(1, np.float32)}
    return LearnedReward(Ensemble("reward", reader, (params,), np.array([sign]), 0.1, True), {})


def corridor(margin=None):
    task = tasks.make("RPSContinuous")
    return task if margin is None else task.with_margin(margin)


@pytest.fixture
def folders(tmp_path):
    """Saved margins by name, and a place for runs."""
    for name, margin in {"skew": learned(), "other": learned(seed=1), "reward": learned("reward")}.items():
        margin.save(tmp_path / name)
    return tmp_path


def train(agent, folder, iterations=6, **options):
    return agent.learn(iterations * 64, progress=False, folder=folder, checkpoint_every=2, **options)


class Stop(KeyboardInterrupt):
    """What Ctrl-C raises, and nobody else."""


def stop(agent, progress):
    if progress.iteration == 3:
        raise Stop


# --- tasks ------------------------------------------------------------------------------------------------


def test_a_task_with_another_margin():
    own, margin = tasks.make("Walker2d-v5"), learned()
    task = own.with_margin(margin)
    assert task.margin is margin
    assert task.true is own
    assert task.with_margin(learned(seed=1)).true is own, "the task's own, however often it is replaced"
    assert (task.ended, task.largest_reward, task.model) == (None, None, None)
    assert not task.is_reward_difference
    assert own.with_margin(place()).is_reward_difference


def test_rewards_are_those_of_the_margin():
    played = HPIClip(corridor(), **TINY)
    played.learn(64, progress=False)
    z = played.learner.opponents.first
    np.testing.assert_array_equal(corridor().reward(z), z.reward)
    np.testing.assert_allclose(corridor(place()).reward(z), z.obs[:, 0], atol=1e-6)
    with pytest.raises(InputError, match=r"RPSContinuous: PPO learns from rewards, .* mdcontest fit --model reward"):
        corridor(learned()).reward(z)


# --- training ---------------------------------------------------------------------------------------------


def test_resumed_without_the_original_folder(folders):
    """Interrupted, its margin's folder gone, and resumed: bit for bit the run that was not."""
    task = corridor(load_margin(folders / "skew"))
    whole = train(HPIClip(task, 5, **TINY), folders / "whole")
    with pytest.raises(Stop):
        train(HPIClip(task, 5, **TINY), folders / "parts", callback=stop)
    shutil.rmtree(folders / "skew")
    agent = load_agent(folders / "parts")
    assert agent.task.margin.digest == task.margin.digest
    assert agent.resumed_exactly
    agent.resume(progress=False)
    assert same_parameters(agent, whole)
    assert same_parameters(load_agent(folders / "parts"), load_agent(folders / "whole"))
    own = train(HPIClip(corridor(), 5, **TINY), folders / "own")
    assert not same_parameters(own, whole), "the margin makes a difference"


def test_an_agent_saved_elsewhere_brings_its_margin(folders):
    agent = HPIClip(corridor(learned()), **TINY)
    agent.learn(64, progress=False)
    agent.save(folders / "copy")
    loaded = load_agent(folders / "copy")
    assert loaded.task.margin.digest == learned().digest
    assert same_parameters(agent, loaded)


def test_a_task_of_ones_own_gets_its_margin_back(folders):
    """Such a task has to be passed to load_agent; the margin it was trained on is still the run's."""
    mine = dataclasses.replace(corridor(), name="mine", settings=None)
    train(HPIClip(mine.with_margin(learned()), **TINY), folders / "mine", 2)
    with pytest.raises(InputError, match="pass it: load_agent"):
        load_agent(folders / "mine")
    assert load_agent(folders / "mine", task=mine).task.margin.digest == learned().digest


def test_a_tampered_margin_is_refused(folders):
    train(HPIClip(corridor(learned()), **TINY), folders / "run", 2)
    kept = folders / "run" / "margin"
    learned(seed=1).save(kept)
    with pytest.raises(FileFormatError, match="is not the one that the run was trained on"):
        load_agent(folders / "run")
    record = json.loads((folders / "run" / "run.json").read_text())
    record["task"]["margin"] = learned(seed=1).digest
    (folders / "run" / "run.json").write_text(json.dumps(record))
    with pytest.raises(FileFormatError, match="its task is not that of the checkpoint"):
        load_agent(folders / "run")
    record["task"]["margin"] = learned().digest
    (folders / "run" / "run.json").write_text(json.dumps(record))
    learned().save(kept)
    load_agent(folders / "run").close()
    shutil.rmtree(kept)
    with pytest.raises(InputError, match=r"there is no learned margin in .*margin"):
        load_agent(folders / "run")


def test_outcomes_that_the_margin_cannot_read(folders):
    """A margin of another environment: an error that names it, before anything starts."""
    with pytest.raises(InputError, match="Reacher-v5: the learned margin reads 1 numbers of obs an outcome, got 10"):
        HPIClip(tasks.make("Reacher-v5").with_margin(learned()), **TINY)
    with pytest.raises(InputError, match="no 'features' for the learned margin to read"):
        HPIClip(corridor(random_margin("skew")), **TINY)


def test_categories_of_another_task():
    """RPSCorridor has places and moves that are counted, RPSContinuous numbers; both have one of each a step."""
    counted = random_margin("skew", fields=(Field("obs", 1, (0.0, 1.0, 2.0)),))
    with pytest.raises(InputError, match=r"^RPSContinuous: .* reads obs as categories \(0, 1, 2\), and it is float"):
        HPIClip(corridor(counted), **TINY)
    with pytest.raises(InputError, match=r"reads obs as categories .* it was learned from another task"):
        estimate_gap(corridor(counted), HPIClip(tasks.make("RPSContinuous"), **TINY), steps=64, progress=False)
    moves = Field("action", 1, (0.0, 1.0, 2.0))
    cart = tasks.Task("CartPole-v1", lambda z, w: z.reward - w.reward)
    with pytest.raises(InputError, match="knows the value 2 of action, here 0 to 1; it was learned from another"):
        HPIClip(cart.with_margin(random_margin("skew", fields=(moves,))), **TINY)
    HPIClip(cart.with_margin(random_margin("skew", fields=(Field("action", 1, (0.0, 1.0)),))), **TINY).close()


def test_ppo_needs_a_reward(folders):
    with pytest.raises(InputError, match="PPO learns from rewards, and the margin that was learned is none"):
        PPO(corridor(learned()), **TINY)
    spec = RunSpec("RPSContinuous", "ppo", 0, 64, "", settings=TINY, margin=str(folders / "skew"))
    with pytest.raises(InputError, match="PPO learns from rewards"):
        spec.in_folder(folders)


def test_ppo_learns_the_learned_reward():
    """The environment pays nothing. With +x learned one ends on the right, with −x on the left."""
    settings = {"num_steps": 256, "minibatches": 4, "epochs": 4, "hidden": (16,), "learning_rate": 3e-3}
    ends = []
    for sign in (1.0, -1.0):
        agent = PPO(corridor(place(sign)), 0, **settings)
        agent.learn(12 * 256, progress=False)
        actions = agent.predict(np.linspace(-0.9, 0.9, 7)[:, None], deterministic=True)[0]
        ends.append(float(np.mean(actions)))
        agent.close()
    assert ends[0] > 0.2
    assert ends[1] < -0.2


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
    """By what it was trained on, by the task's own, and by others: each answer has a file of its own."""
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
    assert len(set(files.values())) == 4
    for margin, request in asked.items():
        assert GapRequest.of_record(json.loads(json.dumps(request.record()))) == request, "as a worker gets it"
        if margin in (None, "own"):
            found = measure_on_run(request)
            assert found.get("margin") == margin
            assert found == measure_on_run(request), "read back from its file"
    above = {margin: GapBracket.of_record(measure_on_run(asked[margin])).upper for margin in (None, "own")}
    assert above[None] is None, "nobody knows how much an outcome could win by a learned margin"
    assert above["own"] is not None


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
        (["train", "RPSCorridor", "--margin", "wide"], "it was learned from another task"),
    ],
)
def test_clear_errors_before_anything_starts(run, folders, monkeypatch, arguments, message):
    monkeypatch.chdir(folders)
    (folders / "judged.toml").write_text('tasks = ["RPSContinuous"]\n[gap]\nmargin = "nobody"\n')
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
