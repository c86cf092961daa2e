"""A run's folder belongs to that run alone, wherever the process is by then, and a copy of it is whole."""

import json
import os
import shutil
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest

from fitted_margins import STEP, random_margin
from mdcontest import tasks
from mdcontest.errors import InputError, RunError
from mdcontest.experiments.sweep import Sweep
from mdcontest.learn import HPIClip, load_agent
from mdcontest.learn.loading import same_parameters
from mdcontest.learn.margins import MARGIN
from mdcontest.learn.spec import RunSpec, run_name, train
from mdcontest.preferences.asked import AskedMargin
from mdcontest.preferences.margin_files import load_margin
from mdcontest.tasks import registry
from tiny_runs import ITERATION, TINY, new_agent, stop_after

CLONED = {"returned": "cloned", "cloning_epochs": 1, "cloning_minibatches": 2}


def interrupted(folder, iterations=3, stop=2, **options):
    """A run that was stopped with a checkpoint of every iteration but the last."""
    agent, options = new_agent(), {"checkpoint_every": 1} | options
    with pytest.raises(KeyboardInterrupt):
        agent.learn(iterations * ITERATION, False, stop_after(stop), folder=folder, **options)
    return agent


def description(folder):
    return json.loads((folder / "run.json").read_text())


# --- names ------------------------------------------------------------------------------------------------


@pytest.fixture
def odd_names(monkeypatch):
    """Tasks whose names differ only in what a folder's name cannot show."""
    monkeypatch.setattr(registry, "_makers", dict(registry._makers))
    names = ["左", "右", "A/b", "A:b", "A-b"]
    for name in names:
        tasks.register(name, lambda: tasks.make("RPSContinuous"))
    return names


def spec_of(name, out, steps=2 * ITERATION):
    return RunSpec(name, "hpi-clip", 0, steps, "", settings=dict(TINY)).in_folder(out)


def test_tasks_whose_names_look_alike_have_folders_of_their_own(odd_names, tmp_path):
    specs = [spec_of(name, tmp_path) for name in odd_names]
    assert len({spec.folder for spec in specs}) == len(specs)
    assert [train(spec).task.name for spec in (*specs[:2], *specs[:2])] == [*odd_names[:2], *odd_names[:2]]
    sweep = Sweep(tasks=odd_names, algorithms=["hpi-clip"], seeds=[0], steps=64, settings=TINY)
    assert [spec.task for spec in sweep.runs(tmp_path)] == odd_names


def test_an_ordinary_name_is_not_in_the_hash(odd_names):
    """Recorded runs are found by their folder's name, so those of ordinary tasks must stay what they were."""
    one, other = tasks.make("RPSContinuous"), tasks.make("A-b")
    settings = HPIClip.choose_settings(one, None, TINY)
    hashes = {run_name(task, "hpi-clip", 0, settings, 64).rpartition("_")[2] for task in (one, other)}
    assert len(hashes) == 1


def test_a_run_of_another_task_is_not_taken_for_the_one_asked_for(odd_names, tmp_path):
    first = spec_of("左", tmp_path)
    train(first)
    wrong = RunSpec("右", "hpi-clip", 0, 2 * ITERATION, first.folder, settings=dict(TINY))
    with pytest.raises(InputError, match=r"holds a run of the task '左', not of '右'"):
        train(wrong)


@pytest.mark.skipif(os.name == "nt", reason="names are Unicode there")
def test_a_folder_whose_name_is_no_text_is_refused_before_training(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    with pytest.raises(InputError, match=r"'caf\\udce9' is not UTF-8.*name another folder"):
        new_agent().learn(ITERATION, False, folder=folder)
    assert not folder.exists()
    new_agent().learn(ITERATION, False, folder=tmp_path / "café")


@pytest.mark.parametrize("folder", ["a\0b", "circle", 3])
def test_a_folder_that_can_be_none_is_refused(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for use in (load_agent, new_agent().save, lambda folder: new_agent().learn(ITERATION, False, folder=folder)):
        with pytest.raises(InputError, match="folder"):
            use(folder)


@pytest.mark.parametrize(("folder", "said"), [("", "folder is an empty text; name one"), ("x" * 300, "name too long")])
def test_a_name_that_can_be_no_folders_is_refused(folder, said, tmp_path, monkeypatch):
    """The empty one above all, which would be the current folder."""
    monkeypatch.chdir(tmp_path)
    for use in (load_agent, new_agent().save, lambda folder: new_agent().learn(ITERATION, False, folder=folder)):
        with pytest.raises(InputError, match=f"(?i){said}"):
            use(folder)
    assert list(tmp_path.iterdir()) == []


# --- a process that changes its directory -----------------------------------------------------------------


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Two folders, and the process in the first."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    return tmp_path / "one", tmp_path / "two"


@pytest.mark.parametrize("settings", [{}, CLONED], ids=["mixture", "cloned"])
@pytest.mark.parametrize("how", ["learn", "save"])
def test_a_relative_name_means_another_folder_elsewhere(how, settings, places, monkeypatch):
    agent = new_agent(**settings).learn(2 * ITERATION, False, folder="run")
    before = (places[0] / "run" / "iterates.f32").read_bytes()
    monkeypatch.chdir(places[1])
    agent.save("run") if how == "save" else agent.learn(ITERATION, False, folder="run")
    copy = load_agent(places[1] / "run")
    assert same_parameters(copy, agent)
    assert len(copy.mixture.iterates) == len(agent.mixture.iterates)
    assert (places[0] / "run" / "iterates.f32").read_bytes() == before
    assert len(load_agent(places[0] / "run").mixture.iterates) == 2


@pytest.mark.parametrize("loaded", [False, True])
def test_a_run_goes_on_in_its_folder_when_the_process_has_moved(loaded, places, monkeypatch):
    agent = interrupted("run")
    agent = load_agent("run") if loaded else agent
    monkeypatch.chdir(places[1])
    agent.resume(progress=False)
    assert agent.folder == places[0] / "run"
    assert not list(places[1].iterdir())
    monkeypatch.chdir(places[0])
    assert same_parameters(load_agent("run"), agent)
    assert description(places[0] / "run")["status"] == "finished"


def test_a_run_that_is_finished_from_within_its_folder_knows_its_name(places, monkeypatch, run):
    interrupted("myrun")
    monkeypatch.chdir("myrun")
    code, _, err = run("train", "--resume", ".", "--quiet")
    assert code == 0, err
    for name in ("progress.parquet", "episodes.parquet"):
        assert set(pq.read_table(name).column("run").to_pylist()) == {"myrun"}


# --- copies -----------------------------------------------------------------------------------------------


def asking_agent(margin=None):
    asked = AskedMargin(margin)
    return HPIClip(tasks.make("RPSContinuous").with_margin(asked), 0, **TINY), asked


def margin_in(folder):
    return load_margin(folder / MARGIN).digest


@pytest.mark.parametrize("how", ["save", "learn"])
def test_a_copy_of_a_run_that_asks_has_its_margin(how, tmp_path):
    fitted = [random_margin("skew", seed, fields=STEP) for seed in range(2)]
    agent, asked = asking_agent()
    agent.learn(ITERATION, False, folder=tmp_path / "run")
    for margin in fitted:  # the second replaces the first, in the copy as in the agent
        asked.current = margin
        if how == "save":
            agent.save(tmp_path / "copy")
        else:
            agent.learn(ITERATION, False, folder=tmp_path / "run")
            agent.learn(ITERATION, False, folder=tmp_path / "copy")
        assert margin_in(tmp_path / "copy") == margin.digest
    copy = load_agent(tmp_path / "copy")
    assert copy.task.margin.current.digest == fitted[1].digest
    z = copy.learner.opponents.first
    assert np.array_equal(copy.task.cumulant(z, z), agent.task.cumulant(z, z))


def test_before_the_first_answer_a_copy_has_no_margin_either(tmp_path):
    agent, _ = asking_agent()
    agent.save(tmp_path)
    assert load_agent(tmp_path).task.margin.current is None


def test_a_newer_fit_in_a_runs_own_folder_stays(tmp_path):
    """It was fitted meanwhile, by a process of its own, and is about to be taken up."""
    old, new = (random_margin("skew", seed, fields=STEP) for seed in range(2))
    agent, _ = asking_agent(old)

    def fit_and_save(agent, progress):
        assert margin_in(tmp_path) == old.digest
        new.save(tmp_path / MARGIN)
        agent.save(agent.folder)

    agent.learn(ITERATION, False, fit_and_save, folder=tmp_path)
    assert margin_in(tmp_path) == new.digest
    agent.learn(ITERATION, False, folder=tmp_path)
    assert margin_in(tmp_path) == new.digest


def test_saving_in_its_own_folder_keeps_how_a_run_is_logged(tmp_path):
    def save(agent, progress):
        agent.save(agent.folder)

    options = {"checkpoint_every": 3, "tensorboard": True}
    agent = new_agent().learn(2 * ITERATION, False, save, folder=tmp_path / "run", **options)
    agent.save(tmp_path / "run")
    assert {name: description(tmp_path / "run")[name] for name in options} == options
    load_agent(tmp_path / "run").save(tmp_path / "run")
    assert {name: description(tmp_path / "run")[name] for name in options} == options
    agent.save(tmp_path / "copy")
    assert {name: description(tmp_path / "copy")[name] for name in options} == {
        "checkpoint_every": 10,
        "tensorboard": False,
    }


@pytest.mark.parametrize("settings", [{}, CLONED], ids=["last", "cloned"])
@pytest.mark.parametrize("place", ["the same place", "elsewhere"])
def test_an_agent_whose_folder_was_removed_can_still_be_saved(tmp_path, place, settings):
    agent = new_agent(**settings).learn(3 * ITERATION, False, folder=tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    target = tmp_path / ("run" if place == "the same place" else "copy")
    agent.save(target)
    loaded = load_agent(target)
    assert same_parameters(loaded, agent)
    assert repr(loaded.mixture) == "Mixture(3 iterates)"
    assert np.array_equal(loaded.learner.iterates.rows.mapped(), agent.learner.iterates.rows.mapped())


@pytest.mark.parametrize("settings", [{}, CLONED], ids=["last", "cloned"])
def test_a_folder_that_is_removed_while_a_run_goes_on(tmp_path, settings):
    """What was learned is in the agent; the run does not end as if it were in the folder."""
    agent = new_agent(**settings)

    def remove(agent, progress):
        if progress.iteration == 2:
            shutil.rmtree(tmp_path / "run")

    with pytest.raises(RunError, match=r"run.iterates\.f32 was removed or replaced while it was written; agent\.save"):
        agent.learn(4 * ITERATION, False, remove, folder=tmp_path / "run", checkpoint_every=1)
    agent.save(tmp_path / "copy")
    assert same_parameters(load_agent(tmp_path / "copy"), agent)


def test_an_agent_whose_folder_was_removed_goes_on_there(tmp_path):
    agent = new_agent().learn(2 * ITERATION, False, folder=tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    agent.learn(2 * ITERATION, False, folder=tmp_path / "run")
    loaded = load_agent(tmp_path / "run")
    assert loaded.num_timesteps == 4 * ITERATION
    assert repr(loaded.mixture) == "Mixture(4 iterates)"
    assert description(tmp_path / "run")["status"] == "finished"


# --- folders that hold something else ----------------------------------------------------------------------


def everything_in(folder):
    return {path.relative_to(folder): path.is_file() and path.read_bytes() for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("how", ["learn", "save"])
@pytest.mark.parametrize("name", ["progress.csv", "episodes.csv", "iterates.f32", "cloning.f32", "checkpoints/mine"])
def test_somebody_elses_files_are_not_written_over(name, how, tmp_path):
    """Stable-Baselines3 calls its log progress.csv as well."""
    theirs = {".notes.tmp": "notes", ".thesis.tmp/chapter": "1", name: "theirs"}
    for other, content in theirs.items():
        (tmp_path / other).parent.mkdir(exist_ok=True)
        (tmp_path / other).write_text(content)
    before, agent = everything_in(tmp_path), new_agent()
    with pytest.raises(InputError, match=f"holds no run, but has {name.partition('/')[0]}, which one would write over"):
        agent.learn(ITERATION, False, folder=tmp_path) if how == "learn" else agent.save(tmp_path)
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("how", ["learn", "save"])
def test_what_a_run_does_not_write_stays(how, tmp_path):
    (tmp_path / ".thesis.tmp").mkdir()
    (tmp_path / ".thesis.tmp" / "chapter").write_text("1")
    (tmp_path / ".lock-of-mine").write_text("")
    agent = new_agent()
    agent.learn(ITERATION, False, folder=tmp_path) if how == "learn" else agent.save(tmp_path)
    assert (tmp_path / ".thesis.tmp" / "chapter").read_text() == "1"
    assert load_agent(tmp_path).num_timesteps == (ITERATION if how == "learn" else 0)


def test_a_lock_of_somebody_else_keeps_its_content(tmp_path):
    (tmp_path / ".lock").write_text("of another program")
    new_agent().learn(ITERATION, False, folder=tmp_path)
    assert (tmp_path / ".lock").read_text() == "of another program"


def test_checkpoints_without_their_run_are_not_mixed_with_others(tmp_path):
    """Newer ones would go on being the newest, and the new run's own be removed as old."""
    interrupted(tmp_path)
    (tmp_path / "run.json").unlink()
    before = everything_in(tmp_path)
    with pytest.raises(InputError, match=r"has no run.json, but the checkpoint 00000001 of a run .* remove the folder"):
        new_agent().learn(3 * ITERATION, False, folder=tmp_path)
    assert everything_in(tmp_path) == before
    shutil.rmtree(tmp_path / "checkpoints")
    new_agent().learn(3 * ITERATION, False, folder=tmp_path)
    assert load_agent(tmp_path).num_timesteps == 3 * ITERATION


def test_a_process_that_was_killed_before_its_first_description_is_no_obstacle(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(
            "mdcontest.learn.runs.RunFolder.write", lambda *_, **__: stop_after(0)(None, SimpleNamespace(iteration=0))
        )
        with pytest.raises(KeyboardInterrupt):
            new_agent().learn(2 * ITERATION, False, folder=tmp_path)
    assert (tmp_path / "checkpoints" / "00000000").is_dir()
    assert not (tmp_path / "run.json").exists()
    new_agent().learn(2 * ITERATION, False, folder=tmp_path)
    assert load_agent(tmp_path).num_timesteps == 2 * ITERATION
