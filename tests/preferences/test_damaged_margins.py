"""A margin's folder that is damaged, forged or of another version says what is wrong with it."""

import hashlib
import json

import numpy as np
import pytest
import safetensors.numpy

from fitted_margins import members_file
from mdcontest.errors import FileFormatError, InputError, VersionError
from mdcontest.preferences import load_margin


def change(folder, **fields):
    """margin.json with other fields; None takes one away."""
    record = json.loads((folder / "margin.json").read_text()) | fields
    (folder / "margin.json").write_text(
        json.dumps({name: value for name, value in record.items() if value is not None})
    )


def test_flipped_bits_of_the_description(saved, count):
    """Every flip is noticed, or changes nothing but what was measured when it was fitted."""
    margin, folder = saved
    file = folder / "margin.json"
    content, rng = file.read_bytes(), np.random.default_rng(0)
    report = content.index(b'"report"')
    refused = 0
    for at in rng.choice(len(content), count(300, len(content)), replace=False):
        damaged = bytearray(content)
        damaged[at] ^= 1 << int(rng.integers(8))
        file.write_bytes(bytes(damaged))
        try:
            loaded = load_margin(folder)
        except FileFormatError as error:
            assert str(folder) in str(error)
            refused += 1
        else:
            assert loaded.ensemble.record() == margin.ensemble.record()
            assert at > report or damaged[at : at + 1].isspace() or content[at : at + 1].isspace()
    assert refused > 100


def test_flipped_bits_and_cuts_of_the_parameters(saved, count):
    _, folder = saved
    file, rng = members_file(folder), np.random.default_rng(0)
    content = file.read_bytes()
    for at in rng.choice(len(content), count(20, 300)):
        damaged = bytearray(content)
        damaged[at] ^= 1 << int(rng.integers(8))
        for wrong in (bytes(damaged), content[:at]):
            file.write_bytes(wrong)
            with pytest.raises(FileFormatError, match="its checksum is not the one in its name; fit the margin again"):
                load_margin(folder)


def test_cut_descriptions(saved):
    _, folder = saved
    content = (folder / "margin.json").read_bytes()
    for length in np.linspace(0, len(content) - 3, 15).astype(int):
        (folder / "margin.json").write_bytes(content[:length])
        with pytest.raises(FileFormatError, match=r"margin\.json"):
            load_margin(folder)


def test_missing_parts(saved):
    _, folder = saved
    members_file(folder).unlink()
    with pytest.raises(FileFormatError, match=r"members-.* is missing, or no file; fit the margin again"):
        load_margin(folder)
    (folder / "margin.json").unlink()
    for where in (folder, folder / "nowhere", folder / ("x" * 300), "nul\0l"):
        with pytest.raises(InputError, match="there is no learned margin in"):
            load_margin(where)
    with pytest.raises(InputError, match="folder must be a path, got None"):
        load_margin(None)


def test_other_formats_and_versions(saved):
    _, folder = saved
    change(folder, version=2)
    with pytest.raises(VersionError, match="has version 2, this program reads version 1"):
        load_margin(folder)
    change(folder, version=1, format="mdcontest/run")
    with pytest.raises(FileFormatError, match="is a 'mdcontest/run' file, expected 'mdcontest/margin'"):
        load_margin(folder)


def test_huge_files_are_not_read(saved):
    _, folder = saved
    with open(members_file(folder), "r+b") as file:
        file.truncate(1 << 40)  # sparse: it takes no room
    with pytest.raises(FileFormatError, match="has 1099511627776 bytes, over the limit"):
        load_margin(folder)
    with open(folder / "margin.json", "r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(FileFormatError, match="over the limit"):
        load_margin(folder)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "members.safetensors", "", 3, None, ["members"], "a/../b"])
def test_parameters_are_never_read_from_elsewhere(saved, name):
    _, folder = saved
    change(folder, members=name)
    with pytest.raises(FileFormatError, match="names no file of parameters"):
        load_margin(folder)


WRONG = {
    "model": ["cyclic", None, "reward", 3],
    "scales": [[], [1.0], [1.0, 2.0, 3.0], "ab", [[1.0], [2.0]], {"0": 1}, [10**400, 1], None, [1.0, "x"]],
    "noise": [1.0, -0.1, "low", None],
    "knows_ended": ["yes", 1, None],
    "report": [[], "good", None],
    "fields": [[], None, [{"name": "features"}], [{"name": "features", "size": 4, "categories": None}], "abc"],
    "inputs": [{}, None, {"mean": [0.0] * 3, "deviation": [0.0] * 3, "low": [0.0] * 3, "high": [0.0] * 3}],
    "digest": ["0" * 16, None, 7],
}


@pytest.mark.parametrize("field", WRONG)
def test_fields_that_cannot_be(saved, field):
    _, folder = saved
    content = (folder / "margin.json").read_bytes()
    for value in WRONG[field]:
        (folder / "margin.json").write_bytes(content)
        change(folder, **{field: value})
        with pytest.raises(FileFormatError, match="was changed or damaged"):
            load_margin(folder)


def forged(folder, change_arrays):
    """Other parameters under a checksum that fits."""
    file = members_file(folder)
    arrays = dict(safetensors.numpy.load(file.read_bytes()))
    change_arrays(arrays)
    content = safetensors.numpy.save(arrays)
    name = f"members-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    (folder / name).write_bytes(content)
    change(folder, members=name)


@pytest.mark.parametrize(
    "change_arrays",
    [
        lambda a: a.pop("0.W"),
        lambda a: a.update({"0.w9": np.zeros((1, 1), np.float32)}),
        lambda a: a.update({"2.w0": np.zeros((3, 8), np.float32)}),
        lambda a: a.update({"0.w0": np.zeros((4, 8), np.float32)}),
        lambda a: a.update({"0.w0": np.zeros((3, 8))}),
        lambda a: a.update({"0.b0": np.full(8, np.nan, np.float32)}),
        lambda a: a.update({"0.W": np.zeros((10**12, 0), np.float32)}),
        lambda a: a.update({"0.W": np.zeros((), np.float32)}),
        lambda a: a.update({"1.ended": np.ones(5, np.float32)}),
        lambda a: a.clear(),
    ],
)
def test_parameters_that_do_not_fit(saved, change_arrays):
    _, folder = saved
    forged(folder, change_arrays)
    with pytest.raises(FileFormatError, match="was changed or damaged"):
        load_margin(folder)
