"""paper/recorded.py and paper/record.py: tables say what folders said, in whatever order they were filled."""

import argparse
import itertools
import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import record
import recorded

from mdcontest.errors import InputError
from mdcontest.experiments.store import Store
from mdcontest.folders import lock_folder
from mdcontest.learn.runs import DESCRIPTION
from mdcontest.report.study import INVERTED, RETURN, make_study
from report.stores import learning_episodes, write_gap, write_positions, write_run
from sweeps import snapshot

STEPS = 100_000
SAME = ("variant", "algorithm", "area", "area_bootstrap", "final")


# --- made-up folders of runs ------------------------------------------------------------------------------


def write_returns(out, rng, task="Swimmer-v5", seeds=6):
    """Two algorithms, episodes of unequal lengths, other ones for every seed."""
    for algorithm, seed in itertools.product(("hpi-clip", "sppo"), range(seeds)):
        log = learning_episodes(rng, STEPS, -50.0, rng.normal(300, 40), rng.uniform(0.5, 4))
        write_run(out, task, algorithm, seed, target=STEPS, episodes=log, margins=rng.normal(size=7).tolist())


def write_brackets(out, rng, seeds=5):
    """Gaps and positions on a task where returns do not count."""
    for algorithm, seed in itertools.product(("hpi-clip", "sppo"), range(seeds)):
        run = write_run(out, "Reacher-NT", algorithm, seed, target=STEPS, returned="mixture")
        for step in (STEPS // 2, STEPS):
            write_gap(run, step, float(rng.uniform(0, 1)), float(rng.uniform(1, 2)))
            write_positions(run, step, rng.normal(size=(20, 2)))


@pytest.fixture
def runs(tmp_path):
    """Three runs: a curve, and two policies with positions and with two brackets of one gap."""
    out, rng = tmp_path / "runs", np.random.default_rng(0)
    write_run(out, "Swimmer-v5", "hpi", 0, name="curve", target=STEPS, episodes=learning_episodes(rng, STEPS, 0, 9, 2))
    for name in ("one", "two"):
        run = write_run(out, "Reacher-NT", "hpi", int(name == "two"), name=name, target=STEPS)
        for digest in "ab":
            write_gap(run, STEPS, float(rng.random()), digest=digest)
        write_positions(run, STEPS, rng.normal(size=(recorded.POSITIONS + 9, 2)))
    return out


def write_parts(runs, out):
    """The same runs when less of them was known: nothing but training, or one bracket of the two."""
    for name, left_out in (("bare", ("gaps", "behaviour")), ("half", ("*_a.json", "behaviour"))):
        shutil.copytree(runs, out / name, ignore=shutil.ignore_patterns(*left_out))
    return [entry for folder in (runs, out / "bare", out / "half") for entry in sorted(folder.iterdir())]


def tables_of(store):
    tables = {name: [] for name in recorded.SCHEMAS}
    return tables, [recorded.merge(tables, run) for run in store.runs if run.is_finished]


@pytest.fixture
def run_record(monkeypatch, capsys):
    """paper/record.py in this process: exit code, standard output, standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["record.py", *map(str, arguments)])
        return record.main(), *capsys.readouterr()

    return run


# --- a table in place of a folder -------------------------------------------------------------------------


def test_a_recorded_study_is_the_study_of_its_folder(tmp_path, count):
    """Curves, areas, final values, verdicts and notes are equal to the last bit, for returns and for gaps."""
    for seed in range(count(2, 30)):
        folder, rng = tmp_path / str(seed), np.random.default_rng(seed)
        write_returns(folder, rng)
        write_brackets(folder, rng)
        write_run(folder, "Swimmer-v5", "hpi", 0, target=STEPS)  # no episode of it ended
        recorded.write_tables(tables_of(Store(folder))[0], tmp_path / f"tables{seed}")
        ours = make_study(Store(folder))
        theirs = make_study(recorded.RecordedStore(recorded.read_runs(tmp_path / f"tables{seed}")))
        assert [task.measure for task in ours.tasks] == [INVERTED, RETURN]
        assert_same_study(ours, theirs)


def assert_same_study(ours, theirs):
    assert (ours.variants, ours.iqms, ours.notes) == (theirs.variants, theirs.iqms, theirs.notes)
    for one, other in zip(ours.tasks, theirs.tasks, strict=True):
        assert (one.name, one.measure, one.baseline) == (other.name, other.measure, other.baseline)
        assert one.verdicts == other.verdicts
        assert list(one.scores) == list(other.scores) == ["hpi-clip", "sppo"]
        assert one.grid.tobytes() == other.grid.tobytes()
        for mine, read in zip(one.scores.values(), other.scores.values(), strict=True):
            assert [getattr(mine, name) for name in SAME] == [getattr(read, name) for name in SAME]
            for name in ("curves", "areas", "finals"):
                assert getattr(mine, name).tobytes() == getattr(read, name).tobytes(), name


@pytest.mark.parametrize("target", [1, 64, 100, 1001])
def test_short_runs_have_a_point_a_step_at_most(tmp_path, target):
    """As reports do it: a run of fewer steps than a curve has points is recorded all the same."""
    write_run(tmp_path / "runs", "Swimmer-v5", "hpi", 0, target=target, episodes=([target], [3.0]), margins=[np.nan])
    recorded.write_tables(tables_of(Store(tmp_path / "runs"))[0], tmp_path / "tables")
    (run,) = recorded.read_runs(tmp_path / "tables")
    assert len(run.episodes["step"]) == min(target, 100)
    assert set(run.episodes["return"]) == {3.0}
    assert set(run.progress["margin_vs_first"]) == {None}


def test_fingerprints_tell_the_last_bit():
    episodes = {"step": [3, 9], "return": [0.5, -1.25], "length": [3, 6]}
    changes = {"return": [0.5, np.nextafter(-1.25, 0)], "step": [3, 8], "length": [2, 6]}
    found = {recorded.fingerprint(episodes | {name: values}) for name, values in changes.items()}
    assert len({recorded.fingerprint(episodes), *found}) == 4
    assert recorded.fingerprint({k: np.array(v) for k, v in episodes.items()}) == recorded.fingerprint(episodes)


# --- merging ----------------------------------------------------------------------------------------------


def test_parts_in_any_order_give_the_same_bytes(runs, tmp_path, count, run_record):
    assert run_record(runs, "--results", tmp_path / "whole")[0] == 0
    whole = {path.name: content for path, content in snapshot(tmp_path / "whole").items()}
    parts = write_parts(runs, tmp_path / "parts")
    for seed in range(count(6, 60)):
        rng, results = np.random.default_rng(seed), tmp_path / f"results{seed}"
        order = [parts[i] for i in rng.permutation(len(parts))]
        cut = int(rng.integers(1, len(order)))
        for some in (order[:cut], order[cut:]):
            assert run_record(*some, "--results", results)[0] == 0
        assert {path.name: content for path, content in snapshot(results).items()} == whole


def test_merging_says_what_was_new(runs, tmp_path, run_record):
    bare = write_parts(runs, tmp_path / "parts")[3].parent
    write_run(runs, "Swimmer-v5", "hpi", 9, name="half-way", target=STEPS, status="running", done=STEPS // 2)
    results = tmp_path / "results"
    said = [run_record(folder, "--results", results)[1] for folder in (bare, runs, runs)]
    assert [line.partition(";")[0] for line in said] == [
        "3 new",
        "1 known, 2 more, 1 unfinished",
        "3 known, 1 unfinished",
    ]
    assert [run.name for run in recorded.read_runs(results)] == ["curve", "one", "two"]
    assert "3 runs" in said[-1]


def made_on(run, processor):
    path = run / DESCRIPTION
    content = json.loads(path.read_text(encoding="utf-8"))
    content["versions"] |= {"processor": processor}
    path.write_text(json.dumps(content), encoding="utf-8")


def test_other_episodes_under_the_same_name_are_refused(tmp_path, run_record):
    """One return in the last bit is enough; both machines are named, and nothing is written."""
    values = [1.0, 2.0]
    for name, returns in (("here", values), ("there", [1.0, np.nextafter(2.0, 3)])):
        run = write_run(
            tmp_path / name, "Swimmer-v5", "hpi", 0, name="run", target=STEPS, episodes=([50, 90_000], returns)
        )
        made_on(run, f"Machine {name}")
    write_run(tmp_path / "there", "Swimmer-v5", "hpi", 1, name="a-new-one", target=STEPS)
    assert run_record(tmp_path / "here", "--results", tmp_path / "results")[0] == 0
    before = snapshot(tmp_path)
    code, _, said = run_record(tmp_path / "there", "--results", tmp_path / "results")
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith("error: run is recorded with other episodes, made on Machine here")
    assert "Machine there" in said
    assert snapshot(tmp_path) == before


# --- two at once ------------------------------------------------------------------------------------------


def test_two_at_once_lose_nothing(runs, tmp_path, monkeypatch):
    """The second begins when the first has read the tables, and has a second to be through before these are written."""
    results, read, first = tmp_path / "results", recorded.read_tables, threading.current_thread()
    both = [argparse.Namespace(folders=[runs / name], results=str(results)) for name in ("one", "two")]
    second = threading.Thread(target=record._record, args=(both[1],))

    def slow(folder):
        tables = read(folder)
        if threading.current_thread() is first:
            second.start()
            second.join(1.0)
        return tables

    with monkeypatch.context() as patch:
        patch.setattr(recorded, "read_tables", slow)
        assert record._record(both[0]) == 0
        second.join()
    assert [run.name for run in recorded.read_runs(results)] == ["one", "two"]


def test_who_takes_too_long_is_named(runs, tmp_path, monkeypatch, run_record):
    results = tmp_path / "results"
    results.mkdir()
    monkeypatch.setattr(record, "PATIENCE", 0.0)
    with lock_folder(results, record.LOCK):
        code, said, error = run_record(runs, "--results", results)
    assert (code, said, error) == (2, "", f"error: another process is recording into {results}\n")
    assert run_record(runs, "--results", results)[0] == 0


def test_the_lock_is_not_committed():
    checkout = Path(record.__file__).resolve().parents[1]
    ignored = (checkout / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert f"paper/results/{record.LOCK}" in ignored


# --- faults -----------------------------------------------------------------------------------------------


def damage(name, path):
    """What may have become of a table."""
    content = path.read_bytes()
    if name == "empty":
        path.write_bytes(b"")
    elif name == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif name == "without its end":
        path.write_bytes(content[:-1])
    elif name == "a flipped bit":  # in the pages, before the footer whose length the file ends with
        at = (len(content) - 8 - int.from_bytes(content[-8:-4], "little")) // 2
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    elif name == "another table":
        shutil.copy(path.with_name("gaps.parquet"), path)
    else:
        table = pq.read_table(path)
        pq.write_table(table.replace_schema_metadata(table.schema.metadata | {b"version": b"99"}), path)


DAMAGES = ("empty", "truncated", "without its end", "a flipped bit", "another table", "another version")


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_tables_are_one_line_and_stay(runs, tmp_path, run_record, name):
    results = tmp_path / "results"
    assert run_record(runs / "curve", "--results", results)[0] == 0
    damage(name, results / "curves.parquet")
    before = snapshot(tmp_path)
    code, _, said = run_record(runs, "--results", results)
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith(f"error: {results / 'curves.parquet'} ")
    assert snapshot(tmp_path) == before


def test_folders_that_are_none_are_one_line(runs, tmp_path, run_record):
    assert run_record(runs / "curve", "--results", tmp_path / "results")[0] == 0
    (tmp_path / "file").write_text("")
    before = snapshot(tmp_path)
    for folders, results in (((runs, tmp_path / "none"), "results"), ((runs,), "file"), ((tmp_path / "file",), "new")):
        code, _, said = run_record(*folders, "--results", tmp_path / results)
        assert (code, said[:7], said.count("\n")) == (2, "error: ", 1)
    script = Path(record.__file__)
    done = subprocess.run(
        [sys.executable, script, tmp_path / "none", "--results", tmp_path / "results"],
        capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"error: cannot read the folder {tmp_path / 'none'}")
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("written", range(4))
def test_a_disk_that_is_full_loses_nothing(runs, tmp_path, run_record, monkeypatch, written):
    """After some of the tables the next cannot be written. Recorded once more, everything is as if it had been."""
    assert run_record(runs, "--results", tmp_path / "whole")[0] == 0
    results, calls, write = tmp_path / "results", itertools.count(), recorded.write_table

    def full(path, *rest):
        if next(calls) == written:
            raise InputError(f"cannot write {path}: no space left on device")
        write(path, *rest)

    assert run_record(runs / "curve", "--results", results)[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr(recorded, "write_table", full)
        assert run_record(runs, "--results", results)[0] == 2
    assert [run.name for run in recorded.read_runs(results)] == ["curve"]
    assert run_record(runs, "--results", results)[0] == 0
    assert [*snapshot(results).values()] == [*snapshot(tmp_path / "whole").values()]
