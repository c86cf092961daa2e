"""Which checkpoint a run goes on from when the newest is damaged, half written or gone, and what it leaves alone."""

import shutil

import pytest

from learn.damaged.files import FILES, NEWEST, require_refused
from learn.stopped_runs import files_of, finish
from mdcontest.errors import FileFormatError
from mdcontest.learn import checkpoint, load_agent, loading
from mdcontest.learn.checkpoint import list_checkpoints, read_checkpoint
from mdcontest.learn.evaluate import evaluate
from mdcontest.learn.loading import same_parameters


@pytest.mark.parametrize("name", FILES[:3])
def test_without_the_damaged_checkpoint_the_one_before_is_used(name, run, trained):
    """As the error says; the run then ends the same."""
    (run / name).write_bytes(b"damage")
    assert "remove that folder" in require_refused(run, name) or name.endswith("SUMS")
    shutil.rmtree(run / NEWEST)
    agent = load_agent(run)
    assert agent.learner.iteration == 2
    sound = finish(shutil.copytree(trained, run.parent / "sound"))
    agent.resume(progress=False)
    assert same_parameters(agent, sound)
    assert same_parameters(load_agent(run), sound)
    for file in ("iterates.f32", "cloning.f32", "episodes.csv"):
        assert (run / file).read_bytes() == (run.parent / "sound" / file).read_bytes()


def test_without_any_checkpoint_there_is_an_error(run):
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(FileFormatError, match="holds no checkpoint"):
        load_agent(run)


def test_a_half_written_checkpoint_is_ignored(run, trained):
    """Of a process that was killed: the folder with the temporary name counts for nothing, and is in nobody's way."""
    half = run / "checkpoints" / ".00000006.tmp"
    half.mkdir()
    (half / "arrays.safetensors").write_bytes(b"half")
    assert load_agent(run).learner.iteration == 4
    assert same_parameters(finish(run), finish(shutil.copytree(trained, run.parent / "sound")))
    assert [path.name for path in list_checkpoints(run)] == ["00000004", "00000006"]
    assert not half.exists()


def test_a_checkpoint_that_is_replaced_while_it_is_read(run, monkeypatch):
    """A worker whose sweep was killed may train on for a moment: what was the newest goes, and a newer one is there."""
    older, newer = list_checkpoints(run)
    hidden = newer.with_name(".hidden")
    newer.rename(hidden)

    def read(folder):
        if hidden.exists():
            hidden.rename(newer)
            shutil.rmtree(folder)
        return checkpoint.read_checkpoint(folder)

    monkeypatch.setattr(loading, "read_checkpoint", read)
    assert load_agent(run).learner.iteration == 4
    assert not older.exists()


def test_a_checkpoint_that_is_removed_once_it_was_read(run, monkeypatch):
    """A second process that resumes a run which is being trained finds that out, and no damage."""

    def restore(*arguments):
        shutil.rmtree(list_checkpoints(run)[-1])
        return restore_learner(*arguments)

    restore_learner = loading.restore_learner
    monkeypatch.setattr(loading, "restore_learner", restore)
    assert load_agent(run).learner.iteration == 4


def test_what_else_lies_among_the_checkpoints_is_left_alone(run):
    """A copy that somebody made, or a note, is neither loaded nor removed."""
    shutil.copytree(run / "checkpoints" / "00000002", run / "checkpoints" / "kept")
    shutil.copytree(run / "checkpoints" / "00000002", run / "checkpoints" / "00000099.bak")
    (run / "checkpoints" / "note.txt").write_text("the good one is kept")
    assert load_agent(run).learner.iteration == 4
    finish(run)
    assert (run / "checkpoints" / "kept" / "state.json").exists()
    assert (run / "checkpoints" / "00000099.bak" / "state.json").exists()
    assert load_agent(run).learner.iteration == 6


@pytest.mark.parametrize("name", ["progress.csv", "episodes.csv"])
def test_a_log_that_is_gone_does_not_become_zeros(name, run):
    """Somebody moved a log: the run goes on without its rows, and writes no bytes of nothing."""
    (run / name).unlink()
    finish(run)
    assert b"\0" not in (run / name).read_bytes()


@pytest.mark.parametrize("length", [0, 20, -1])
@pytest.mark.parametrize("name", ["progress.csv", "episodes.csv"])
def test_a_log_that_is_shorter_than_the_checkpoint_says_is_refused(name, length, run, trained):
    """Going on would leave rows out without a word; until it is put back the policy can be played."""
    content = (run / name).read_bytes()
    known = read_checkpoint(run / NEWEST)["logs"][name]
    (run / name).write_bytes(content[:known][:length])
    before = {path: path.read_bytes() for path in run.rglob("*.csv")}
    agent = load_agent(run)
    assert evaluate(agent, 1).lengths.min() > 0
    with pytest.raises(FileFormatError, match=rf"{name} is damaged: it has \d+ bytes, and had {known} at "):
        agent.resume(progress=False)
    assert before[run / name] == (run / name).read_bytes()
    (run / name).write_bytes(content)
    agent.resume(progress=False)
    finish(shutil.copytree(trained, run.parent / "sound"))
    assert files_of(run) == files_of(run.parent / "sound")
