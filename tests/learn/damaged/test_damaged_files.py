"""Files of a run that are damaged, cut, foreign or hostile are refused by name, and nothing in them is run."""

import hashlib
import json
import os
import pickle
import random
import re
import shutil

import pytest

from learn.damaged.files import FILES, NEWEST, require_refused
from learn.stopped_runs import finish
from mdcontest.errors import FileFormatError, InputError
from mdcontest.learn import load_agent
from mdcontest.learn.loading import same_parameters


def essence(agent):
    """What two loads of the same run have in common."""
    return agent.settings, agent.seed, agent.algorithm, agent.task.name, agent.call, agent.num_timesteps


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_anywhere_is_refused(name, trained, run, count):
    """Of run.json, which people may read and edit, a flip that leaves the same run is let through, and no other."""
    sound, rng = load_agent(trained), random.Random(name)
    path = run / name
    content = path.read_bytes()
    end = len(content)
    if name.endswith(".f32"):
        rows = sound.learner.iterates.rows if name == "iterates.f32" else sound.learner.cloning_buffer
        end = rows.count * rows.row_bytes
        assert end < len(content), "there are rows of the iteration after the checkpoint"
    for _ in range(count(8, 80)):
        position, bit = rng.randrange(end), 1 << rng.randrange(8)
        path.write_bytes(content[:position] + bytes([content[position] ^ bit]) + content[position + 1 :])
        try:
            agent = load_agent(run)
        except InputError as error:
            assert path.name in str(error) or str(run / NEWEST) in str(error), (position, bit, str(error))
        else:
            assert name in ("run.json", f"{NEWEST}/SHA256SUMS"), (position, bit)
            assert essence(agent) == essence(sound), content[max(0, position - 30) : position + 10]
            assert same_parameters(agent, sound)


def test_a_flipped_bit_behind_the_recorded_rows_is_harmless(run, trained):
    rows = load_agent(trained).learner.iterates.rows
    path = run / "iterates.f32"
    content = bytearray(path.read_bytes())
    content[rows.count * rows.row_bytes + 3] ^= 255
    path.write_bytes(content)
    assert same_parameters(finish(run), finish(shutil.copytree(trained, run.parent / "sound")))
    assert path.read_bytes() == (run.parent / "sound" / "iterates.f32").read_bytes()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["empty", "half", "one byte less", "missing", "a folder", "zeros", "pickle"])
def test_a_file_that_is_not_whole_is_refused(name, how, run, trained):
    path = run / name
    content = path.read_bytes()
    end = len(content)
    if name.endswith(".f32"):
        agent = load_agent(trained)
        rows = agent.learner.iterates.rows if name == "iterates.f32" else agent.learner.cloning_buffer
        end = rows.count * rows.row_bytes
    path.unlink()
    if how == "a folder":
        path.mkdir()
    elif how != "missing":
        changed = {
            "empty": b"",
            "half": content[: end // 2],
            "one byte less": content[: end - 1] if name != "run.json" else content[: end - 2],
            "zeros": bytes(len(content)),
            "pickle": pickle.dumps(Trap(run.parent / "sprung")),
        }
        path.write_bytes(changed[how])
    if how == "one byte less" and name.endswith("SHA256SUMS"):
        assert same_parameters(load_agent(run), load_agent(trained))  # its last line just has no end
    else:
        require_refused(run, name, how)
    assert not (run.parent / "sprung").exists()


class Trap:
    """Unpickling this leaves a trace."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def sign(folder, name, content):
    """Put a file into the newest checkpoint, with the checksum that belongs to it."""
    folder = folder / NEWEST
    (folder / name).write_bytes(content)
    files = ("arrays.safetensors", "state.json")
    sums = (f"{hashlib.sha256((folder / file).read_bytes()).hexdigest()}  {file}\n" for file in files)
    (folder / "SHA256SUMS").write_text("".join(sums))


@pytest.mark.parametrize("name", ["arrays.safetensors", "state.json"])
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_with_the_right_checksum_is_not_unpickled(name, protocol, run):
    sign(run, name, pickle.dumps(Trap(run.parent / "sprung"), protocol=protocol))
    with pytest.raises(FileFormatError, match=NEWEST):
        load_agent(run)
    assert not (run.parent / "sprung").exists()


def test_nothing_in_the_package_unpickles():
    import mdcontest.learn

    sources = [path for path in os.scandir(os.path.dirname(mdcontest.learn.__file__)) if path.name.endswith(".py")]
    assert len(sources) > 15
    for path in sources:
        with open(path) as file:
            text = file.read()
        assert not re.search(r"\b(pickle|marshal|shelve|dill|joblib)\b|allow_pickle|\beval\(|\bexec\(", text), path.name


@pytest.mark.parametrize(
    "content",
    [
        b"[]",
        b"3",
        b"{}",
        b'{"format": "mdcontest/checkpoint", "version": 2}',
        b'{"format": "mdcontest/checkpoint", "version": 1}',
        b'{"format": "mdcontest/checkpoint", "version": 1, "learner": {"array": "nothing"}}',
        b'{"format": "mdcontest/checkpoint", "version": 1, "learner": {}, "call": [], "recent": [], "logs": null}',
        b"[" * 100_000,
    ],
    ids=["list", "number", "empty", "version", "nothing in it", "no such array", "no learner", "deep"],
)
def test_a_foreign_state_with_the_right_checksum_is_refused(content, run):
    sign(run, "state.json", content)
    with pytest.raises(FileFormatError):
        load_agent(run)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("task", "RPSContinuous"),
        ("task", None),
        ("algorithm", "dqn"),
        ("algorithm", ["ppo"]),
        ("seed", -1),
        ("seed", "0"),
        ("seed", 1.5),
        ("settings", {"num_stepz": 64}),
        ("settings", {"minibatches": 3}),
        ("settings", {"hidden": "wide"}),
        ("settings", {"hidden": 8}),
        ("settings", {"hidden": [16]}),
        ("settings", None),
        ("checkpoint_every", "often"),
        ("checkpoint_every", 0),
    ],
    ids=repr,
)
def test_a_run_json_that_says_nonsense_is_refused_by_name(key, value, run):
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(record | {key: value}))
    with pytest.raises(InputError, match=re.escape(str(run))):
        finish(run)
