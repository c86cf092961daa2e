"""Gaps and behaviour along a run, in files that are whole or not there."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from full_disk import full
from mdcontest import tasks
from mdcontest.errors import FileFormatError, InputError, VersionError
from mdcontest.gap import GapBracket
from mdcontest.gap.curve import (
    BEHAVIOUR_COLUMNS,
    BEHAVIOUR_FORMAT,
    GapRequest,
    behaviour_file,
    measure_on_run,
    points,
    read_gap,
    requests,
    trace_run,
)
from mdcontest.gap.estimate import GapSettings, whole_iterations
from mdcontest.learn import HPIClip
from mdcontest.tables import read_table
from small_games import TINY

HOW = GapSettings(trajectories=5, steps=128, restarts=1, evaluation_steps=100, settings=TINY)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of 6 iterations of 64 steps that nobody measures on."""
    return trained(tmp_path_factory.mktemp("runs") / "corridor")


def trained(folder, name="RPSCorridor", iterations=6, **settings):
    HPIClip(tasks.make(name), 0, **{**TINY, **settings}).learn(iterations * 64, progress=False, folder=folder)
    return folder


# --- where to look ----------------------------------------------------------------------------------------


def test_points():
    assert points(1000, 100, None) == [1000]
    assert points(1000, 100, 300) == [300, 600, 900, 1000]
    assert points(1000, 100, 250) == [200, 500, 700, 1000]  # 250, 500, 750, 1000 in whole iterations
    assert points(1000, 100, 100) == list(range(100, 1001, 100))
    assert points(1000, 100, 5000) == [1000]
    with pytest.raises(InputError, match="--every 99 is less than one iteration of 100 steps"):
        points(1000, 100, 99)


def test_requests_of_a_finished_run(finished):
    found = requests(finished, 128, [None, "last"], 7, HOW)
    assert [(request.steps, request.returned) for request in found] == [
        (steps, kind) for steps in (128, 256, 384) for kind in ("mixture", "last")
    ]
    assert [request.steps for request in requests(finished, None, [None], 7, HOW)] == [384]
    assert len({request.file for request in found}) == 6
    for request in found:
        assert GapRequest.of_record(json.loads(json.dumps(request.record()))).file == request.file
        assert request.file.parent == finished / "gaps"


def test_how_it_was_measured_is_in_the_name(finished):
    def name(seed=7, **how):
        return GapRequest(str(finished), 128, "last", seed, GapSettings(**how)).file.name

    assert name().startswith("step0000000128_last_")
    assert len({name(), name(seed=8), name(steps=5), name(confidence=0.9), name(settings={"epochs": 3})}) == 5
    assert name(steps=np.int64(5)) == name(steps=5)


def test_a_run_that_is_not_finished(tmp_path):
    def stop(agent, progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        HPIClip(tasks.make("RPSCorridor"), 0, **TINY).learn(384, progress=False, folder=tmp_path, callback=stop)
    with pytest.raises(InputError, match="is not finished; mdcontest train --resume"):
        requests(tmp_path, None, [None], 0, HOW)


def test_a_folder_without_a_run_and_a_damaged_one(tmp_path):
    with pytest.raises(FileFormatError, match="holds no run"):
        requests(tmp_path, None, [None], 0, HOW)
    folder = trained(tmp_path / "run", iterations=1)
    description = json.loads((folder / "run.json").read_text())
    for broken in ({"settings": None}, {"settings": {}}, {"steps": "many"}, {"steps": [1]}):
        (folder / "run.json").write_text(json.dumps(description | broken))
        with pytest.raises(FileFormatError, match=r"run.json is incomplete"):
            requests(folder, None, [None], 0, HOW)


def test_what_was_trained_is_noted_in_whole_iterations():
    """A bracket with 100 steps and one with 127 are the same training of one iteration; defaults have 2048."""
    assert [whole_iterations(steps, TINY) for steps in (1, 64, 100, 127, 128)] == [64, 64, 64, 64, 128]
    assert [whole_iterations(steps, {}) for steps in (512, 2048, 200_000)] == [2048, 2048, 97 * 2048]


# --- measuring --------------------------------------------------------------------------------------------


def test_a_gap_is_measured_once(tmp_path):
    folder = trained(tmp_path / "run")
    request = requests(folder, None, [None], 3, replace(HOW, steps=150))[0]
    found = measure_on_run(request)
    assert (found["step"], found["returned"]) == (384, "mixture")
    assert (found["details"]["effort"], found["details"]["trained"]) == (150, 128)
    written = os.stat(request.file).st_mtime_ns
    again = measure_on_run(request)
    assert os.stat(request.file).st_mtime_ns == written
    assert GapBracket.of_record(again) == GapBracket.of_record(found)
    assert {key: again[key] for key in found} == json.loads(json.dumps(found))
    assert [path.name for path in (folder / "gaps").iterdir()] == [request.file.name]
    assert again["exact"] is not None


def test_a_gap_measured_again_is_the_same(tmp_path):
    folder = trained(tmp_path / "run")
    request = GapRequest(str(folder), 128, "last", 3, HOW)
    measure_on_run(request)
    before = request.file.read_bytes()
    request.file.unlink()
    measure_on_run(request)
    assert request.file.read_bytes() == before


def test_a_damaged_gap_is_named(tmp_path):
    request = GapRequest(str(tmp_path), 128, "last", 0, HOW)
    request.file.parent.mkdir()
    good = json.dumps({"format": "mdcontest/gap", "version": 1, "step": 128})
    for content in (good[:-5], "", "[]", "{}", '{"format": "mdcontest/run", "version": 1}', good.replace("128", "NaN")):
        request.file.write_text(content)
        with pytest.raises(FileFormatError, match=request.file.name):
            measure_on_run(request)
        with pytest.raises(FileFormatError, match=request.file.name):
            read_gap(request.file)
    request.file.write_text(good.replace('"version": 1', '"version": 2'))
    with pytest.raises(VersionError, match="version 2, this program reads version 1"):
        read_gap(request.file)


@pytest.mark.parametrize("operation", ["fsync", "replace"])
def test_no_gap_is_left_half_written(operation, tmp_path, monkeypatch):
    folder = trained(tmp_path / "run")
    request = GapRequest(str(folder), 384, "last", 0, HOW)
    with monkeypatch.context() as patch:
        patch.setattr(os, operation, full)
        with pytest.raises(InputError, match="No space left on device"):
            measure_on_run(request)
    assert not request.file.exists()
    for place in ("gaps", "behaviour"):
        assert not any((folder / place).iterdir()) if (folder / place).exists() else True
    measure_on_run(request)
    assert read_gap(request.file)["step"] == 384


def test_behaviour_opens_in_one_line(tmp_path):
    pandas, duckdb = pytest.importorskip("pandas"), pytest.importorskip("duckdb")
    folder = trained(tmp_path / "run")
    measure_on_run(GapRequest(str(folder), 128, "mixture", 0, HOW))
    path = behaviour_file(folder, 128, "mixture")
    frame = pandas.read_parquet(path)
    assert list(frame.columns) == list(BEHAVIOUR_COLUMNS)
    assert frame["label"].tolist() == ["rock", "paper", "scissors"]
    assert frame["share"].sum() == pytest.approx(1)
    assert set(frame["kind"]) == {"class"}
    assert set(zip(frame["run"], frame["task"], frame["algorithm"], frame["seed"], strict=True)) == {
        ("run", "RPSCorridor", "hpi-clip", 0)
    }
    rows = duckdb.sql(f"select label, share from '{tmp_path}/*/behaviour/*.parquet' where step = 128").fetchall()
    assert dict(rows) == dict(zip(frame["label"], frame["share"], strict=True))
    read = read_table(path, BEHAVIOUR_FORMAT, BEHAVIOUR_COLUMNS)
    assert read["x"] == [None] * 3


def test_positions(tmp_path):
    pytest.importorskip("mujoco")
    folder = trained(tmp_path / "run", "Reacher-NT", iterations=2)
    trace_run(str(folder), [128], "last")
    read = read_table(behaviour_file(folder, 128, "last"), BEHAVIOUR_FORMAT, BEHAVIOUR_COLUMNS)
    assert set(read["kind"]) == {"position"}
    assert len(read["x"]) == 2000
    assert np.hypot(read["x"], read["y"]).max() <= tasks.make("Reacher-NT").reach + 1e-6


def test_behaviour_is_traced_once(tmp_path):
    folder = trained(tmp_path / "run")
    trace_run(str(folder), [128], "last")
    written = os.stat(behaviour_file(folder, 128, "last")).st_mtime_ns
    trace_run(str(folder), [128], "last")
    assert os.stat(behaviour_file(folder, 128, "last")).st_mtime_ns == written


def test_behaviour_at_several_steps(tmp_path):
    folder = trained(tmp_path / "run")
    trace_run(str(folder), [64, 128, 384], "mixture")
    assert len(list((folder / "behaviour").iterdir())) == 3
