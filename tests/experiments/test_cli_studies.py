"""`mdcontest sweep`, `gap` and `trace` as a person uses them: two at once, full disks, damage, terminals."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys

import duckdb
import pandas
import pytest

from failing import FAILING
from mdcontest.cli import main
from mdcontest.learn import load_agent
from sweeps import (
    TINY,
    command,
    ended_afterwards,
    finished,
    leftovers,
    one_clear_line,
    read_terminal,
    results,
    rows_in,
    run,
    run_folders,
    snapshot,
    start,
    wait_until,
    workers,
)

FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
QUICK = ["sweep", "--tasks", "RPSCorridor", *TINY, "--steps", 640, "--checkpoint-every", 2]


@pytest.fixture
def here(capsys):
    """The command in this process: exit code, standard output, standard error."""

    def here(*arguments):
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return here


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A folder with two finished runs; only to be copied."""
    out = tmp_path_factory.mktemp("made") / "runs"
    code, _, err = run(*QUICK, "--algos", "hpi-clip,ppo", "--out", out, "--quiet")
    assert (code, err) == (0, "")
    return out


@pytest.fixture
def two(made, tmp_path):
    """Such a folder, and the sweep that made it."""
    out = shutil.copytree(made, tmp_path / "runs")
    return out, [*QUICK, "--algos", "hpi-clip,ppo", "--out", out]


def change(folder, **changes):
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | changes))


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


# --- what is done -----------------------------------------------------------------------------------------


def test_finished_runs_are_never_redone(here, two):
    out, arguments = two
    before = {folder: times(folder) for folder in run_folders(out)}
    code, said, err = here(*arguments)
    assert (code, err) == (0, "")
    assert said == f"2 done (2 of them before), 0 failed, in {out}\n"
    assert {folder: times(folder) for folder in run_folders(out)} == before


def test_a_dry_run_changes_nothing(here, tmp_path):
    out = tmp_path / "runs"
    arguments = [*QUICK, "--algos", "hpi-clip,ppo", "--seeds", "0-4", "--out", out, "--jobs", 3, "--gap-every", 320]
    code, said, err = here(*arguments, "--dry-run")
    assert code == 0
    assert err == "timing each task for a moment …\n"
    header, *lines, total = said.splitlines()
    assert header.split() == ["task", "algorithm", "runs", "done", "steps", "left", "steps/s", "core", "hours"]
    assert [line.split()[:5] for line in lines] == [
        ["RPSCorridor", "hpi-clip", "5", "0", "3,200"],
        ["RPSCorridor", "ppo", "5", "0", "3,200"],
    ]
    assert all(float(line.split()[5].replace(",", "")) > 0 and float(line.split()[6]) >= 0 for line in lines)
    assert re.fullmatch(rf"10 runs into {out}, 0 done; about [\d.]+ core hours, [\d:]+ on 3 cores", total)
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_counts_what_is_there(here, two):
    out, arguments = two
    change(run_folders(out)[1], status="running")
    before = snapshot(out)
    code, said, _ = here(*arguments, "--seeds", "0-1", "--dry-run")
    assert code == 0
    assert [line.split()[2:5] for line in said.splitlines()[1:3]] == [["2", "1", "640"], ["2", "0", "640"]]
    assert snapshot(out) == before


def test_index_files_in_one_line(here, two):
    out, arguments = two
    assert here(*arguments)[0] == 0
    runs = pandas.read_parquet(out / "runs.parquet")
    assert sorted(runs["algorithm"]) == ["hpi-clip", "ppo"]
    assert list(runs["status"]) == ["finished", "finished"]
    assert len(pandas.read_parquet(out / "gaps.parquet")) == 0
    assert duckdb.sql(f"select sum(steps) from '{out}/runs.parquet'").fetchall() == [(1280,)]
    assert duckdb.sql(f"select count(*) from '{out}/gaps.parquet'").fetchall() == [(0,)]
    ((rows,),) = duckdb.sql(f"select count(*) from '{out}/*/episodes.parquet'").fetchall()
    assert rows == sum(len((folder / "episodes.csv").read_text().splitlines()) - 1 for folder in run_folders(out))


# --- what people see --------------------------------------------------------------------------------------


def test_plain_lines_where_nobody_watches(here, tmp_path):
    code, said, err = here(*QUICK, "--out", tmp_path / "runs", "--trace-every", 320)
    assert (code, err) == (0, "[1/2] RPSCorridor hpi-clip 0: done\n[2/2] RPSCorridor hpi-clip 0 traces: done\n")
    assert said == f"2 done (0 of them before), 0 failed, in {tmp_path / 'runs'}\n"
    assert not leftovers(tmp_path)
    if FULL:
        code, said, err = here(*QUICK, "--seeds", "1", "--out", tmp_path / "runs", "--quiet")
        assert (code, err) == (0, "")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a terminal of its own")
def test_the_table_on_a_terminal(tmp_path):
    """It fits, counts, and leaves the summary alone when it is gone."""
    sweep = [
        "sweep",
        "--tasks",
        "RPSCorridor",
        "--num-steps",
        256,
        "--minibatches",
        4,
        "--epochs",
        2,
        "--steps",
        40_000,
    ]
    master, slave = pty.openpty()
    environment = os.environ | {"COLUMNS": "80", "LINES": "30", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        command(*sweep, "--algos", "hpi-clip,ppo", "--jobs", 2, "--out", "runs"),
        cwd=tmp_path,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
        start_new_session=True,
    )
    os.close(slave)
    with ended_afterwards(process):
        said = read_terminal(master, process, 120)
        assert process.wait(timeout=30) == 0, said
    os.close(master)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said)
    lines = re.split(r"[\r\n]+", plain)
    assert "Traceback" not in plain
    assert max(map(len, lines)) <= 80
    assert any(re.match(r"0 done, 2 running, 0 waiting, 0 failed; \d+:\d\d so far", line) for line in lines), plain
    assert any("RPSCorridor hpi-clip 0" in line and "%" in line for line in lines), plain
    assert "training takes about" in plain
    assert lines[-2] == "2 done (0 of them before), 0 failed, in runs"


# --- two at once ------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_two_sweeps_on_one_folder(here, tmp_path):
    """The second one says so and leaves; the first never notices."""
    out, output = tmp_path / "runs", tmp_path / "said"
    with ended_afterwards(start(*QUICK, "--steps", 640_000, "--out", out, output=output)) as first:
        assert wait_until(lambda: workers(first.pid))
        code, said, err = here(*QUICK, "--steps", 640_000, "--out", out)
        assert (code, said, one_clear_line(err)) == (2, "", True)
        assert f"another process is running a sweep in {out}" in err
        assert wait_until(lambda: list(out.glob("*/run.json")))
        (folder,) = run_folders(out)
        code, said, err = here("train", "--resume", folder)
        assert code in (1, 2)
        assert "another process is training in" in err
        rows = rows_in(folder / "progress.csv")
        assert wait_until(lambda: rows_in(folder / "progress.csv") > rows + 10), "the first one goes on"
        first.terminate()
        assert first.wait(timeout=30) == 130, output.read_text()
    assert "nothing is lost" in output.read_text()


# --- disks and damage -------------------------------------------------------------------------------------

LIMITED = """
import resource, sys
from mdcontest.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_FSIZE")
@pytest.mark.parametrize("limit", [300, 2000, 4000, 6000] if FULL else [4000])
def test_a_disk_that_fills(limit, tmp_path, made):
    """Too small for anything, for the first checkpoint, and for a log after a while; all is well once there is room."""
    out = tmp_path / "runs"
    arguments = [*map(str, [*QUICK, "--steps", 2560]), "--out", str(out), "--retries", "1", "--quiet"]
    environment = {key: value for key, value in os.environ.items() if key != "JAX_COMPILATION_CACHE_DIR"}
    limited = [sys.executable, "-c", LIMITED, str(limit), *arguments]
    done = subprocess.run(limited, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode in (1, 2), done.stderr
    assert "Traceback" not in done.stderr
    assert "File too large" in done.stderr
    assert "mdcontest: error: RPSCorridor hpi-clip 0: " in done.stderr
    assert not leftovers(out)
    code, _, err = run(*arguments)
    assert (code, err) == (0, "")
    whole = [*QUICK, "--steps", 2560, "--out", tmp_path / "whole", "--quiet"]
    assert run(*whole)[0] == 0
    assert results(out) == results(tmp_path / "whole")


def cut(path):
    path.write_bytes(path.read_bytes()[:-30])


@pytest.mark.parametrize("name", ["run.json", "episodes.parquet", "progress.parquet"])
def test_a_finished_run_that_is_damaged(name, here, two):
    """The sweep says which; the other run is sound, and no file is touched."""
    out, arguments = two
    cut(run_folders(out)[0] / name)
    before = snapshot(out)
    code, said, err = here(*arguments)
    assert code == 1
    assert said == f"1 done (1 of them before), 1 failed, in {out}\n"
    assert one_clear_line(err), err
    assert str(run_folders(out)[0] / name) in err
    after = {path: content for path, content in snapshot(out).items() if path.parent != out}
    assert after == {path: content for path, content in before.items() if path.parent != out}
    assert list(pandas.read_parquet(out / "runs.parquet")["algorithm"]) == ["ppo"]


@pytest.mark.parametrize(
    "name",
    ["iterates.f32", "arrays.safetensors", "state.json", "SHA256SUMS"] if FULL else ["arrays.safetensors"],
)
def test_an_unfinished_run_that_is_damaged(name, here, two):
    """The worker says which file; the other run is finished, and the damaged files are left as they are."""
    out, arguments = two
    broken, other = run_folders(out)
    cut(max(broken.rglob(name)))
    change(broken, status="running")
    change(other, status="running")
    before = snapshot(broken)
    code, said, err = here(*arguments, "--retries", 0, "--quiet")
    assert code == 1
    assert one_clear_line(err), err
    assert name in err
    assert said == f"1 done (0 of them before), 1 failed, in {out}\n"
    assert finished(out) == 1
    after = snapshot(broken)
    (entry,) = json.loads(after.pop(broken / "failures.json"))["failures"]
    assert name in entry["error"]
    assert after == before


@pytest.mark.filterwarnings("always:.*has no new index:UserWarning")  # the command prints it as a note
def test_a_run_of_another_version_is_refused(here, two):
    out, arguments = two
    change(run_folders(out)[0], version=2)
    before = snapshot(run_folders(out)[0])
    code, _, err = here(*arguments)
    assert code == 1
    assert "mdcontest: error: RPSCorridor hpi-clip 0: " in err
    assert err.count("has version 2, this program reads version 1") == 2, "the index is not of half a study"
    assert "Traceback" not in err
    assert snapshot(run_folders(out)[0]) == before


# --- runs that fail ---------------------------------------------------------------------------------------

OTHERS = """

class Loud(Failing):
    def fail(self):
        os.write(1, b"no line end \\xff\\xfe")
        os.write(2, b"\\xff\\xfe")

def make(env):
    return lambda: mdc.Task(env, lambda z, w: z.obs[:, 0] - w.obs[:, 0], name="Failing")

failing, once, loud = make(Failing), make(Once), make(Loud)
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A package with tasks, installed as pip would: where this and other processes find it."""
    folder = tmp_path / "plugin"
    (folder / "failing-1.0.dist-info").mkdir(parents=True)
    (folder / "sweeping_tasks.py").write_text(FAILING + OTHERS)
    (folder / "failing-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: failing\nVersion: 1.0\n")
    lines = ["[mdcontest.tasks]", *(f"{name} = sweeping_tasks:{name.lower()}" for name in ("Failing", "Once", "Loud"))]
    (folder / "failing-1.0.dist-info" / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("FAIL_ONCE", str(tmp_path / "once"))
    (tmp_path / "once").touch()
    yield tmp_path / "runs"
    sys.modules.pop("sweeping_tasks", None)


def test_failing_tasks(here, plugin):
    """One fails whatever one does, one fails once, one prints what cannot be read: tried again as often as was said."""
    arguments = ["sweep", "--tasks", "Failing,Once,Loud", *TINY, "--steps", 256, "--out", plugin, "--retries", 1]
    code, said, err = here(*arguments, "--quiet")
    assert code == 1
    assert said == f"2 done (0 of them before), 1 failed, in {plugin}\n"
    assert one_clear_line(err), err
    assert "Failing hpi-clip 0: Failing: the environment raised OSError: the robot fell over at step 100" in err
    failures = {
        path.parent.name[:4]: json.loads(path.read_text())["failures"] for path in plugin.glob("*/failures.json")
    }
    assert {name: len(entries) for name, entries in failures.items()} == {"Fail": 2, "Once": 1}
    assert not any(entry["died"] for entries in failures.values() for entry in entries)
    runs = pandas.read_parquet(plugin / "runs.parquet").set_index("task")
    assert dict(runs["status"]) == {"Failing": "failed", "Once": "finished", "Loud": "finished"}
    assert "the robot fell over" in runs["error"]["Failing"]


# --- gap and trace ----------------------------------------------------------------------------------------

FEW = ["--trajectories", 2, "--steps", 64, "--restarts", 1, "--evaluation-steps", 100]


def test_gap_and_trace_of_a_run_and_of_a_folder(here, two):
    out, _ = two
    first, second = run_folders(out)
    code, said, err = here("gap", first, *FEW, "--json", "--quiet")
    assert (code, err) == (0, "")
    (record,) = json.loads(said)
    assert (record["run"], record["step"], record["returned"]) == (str(first.resolve()), 640, "mixture")
    before = times(first)
    code, said, err = here("gap", out, *FEW, "--quiet")
    assert (code, err) == (0, "")
    assert f"{first.name}, mixture policy after 640 steps:" in said
    assert f"{second.name}, last policy after 640 steps:" in said
    assert times(first) == before, "what is measured is not measured again"
    gaps = pandas.read_parquet(out / "gaps.parquet")
    assert list(gaps["run"]) == [first.name, second.name]
    assert duckdb.sql(f"select max(step) from '{out}/gaps.parquet'").fetchall() == [(640,)]
    code, said, err = here("trace", first, "--every", 320, "--quiet")
    assert (code, err) == (0, "")
    assert {path.name for path in first.glob("behaviour/*")} >= {
        "step0000000320_mixture.parquet",
        "step0000000640_mixture.parquet",
    }
    assert not leftovers(out)


GAP_FAULTS = {
    "no such folder": (["gap", "{nothing}"], "cannot read the folder"),
    "no run": (["gap", "{empty}"], "there is no run in"),
    "a file": (["gap", "{file}"], "cannot read the folder"),
    "trace of nothing": (["trace", "{nothing}"], "cannot read the folder"),
    "trace of no run": (["trace", "{empty}"], "there is no run in"),
    "unfinished": (["gap", "{unfinished}"], "is not finished; mdcontest train --resume"),
    "trace of an unfinished one": (["trace", "{unfinished}"], "is not finished; mdcontest train --resume"),
    "damaged": (["gap", "{damaged}"], "truncated or not JSON"),
    "kind": (["gap", "{run}", "--returned", "mixure"], "did you mean mixture"),
    "no kind": (["gap", "{run}", "--returned", ""], "returned must be a list of names"),
    "episodes": (["gap", "{run}", "--trajectories", "1"], "trajectories must be at least 2"),
    "restarts": (["gap", "{run}", "--restarts", "0"], "restarts must be a whole number"),
    "confidence": (["gap", "{run}", "--confidence", "1.5"], "confidence must lie between 0 and 1"),
    "confidence is NaN": (["gap", "{run}", "--confidence", "nan"], "confidence must lie between 0 and 1"),
    "seed": (["gap", "{run}", "--seed", "-1"], "--seed must not be negative"),
    "too often": (["gap", "{run}", "--every", "10"], "is less than one iteration of 64 steps"),
    "jobs": (["gap", "{run}", "--jobs", "0"], "--jobs must be at least 1"),
    "two folders": (["gap", "{run}", "{elsewhere}"], "these runs lie in 2 folders"),
}


@pytest.mark.parametrize("case", GAP_FAULTS)
def test_faults_of_gap_and_trace(case, here, two, tmp_path):
    out, _ = two
    places = {"{nothing}": tmp_path / "nothing", "{empty}": tmp_path / "empty", "{file}": tmp_path / "file"}
    places |= {"{run}": run_folders(out)[0], "{unfinished}": run_folders(out)[1], "{damaged}": tmp_path / "damaged"}
    places["{elsewhere}"] = shutil.copytree(run_folders(out)[0], tmp_path / "more" / "run")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    cut(shutil.copytree(run_folders(out)[0], tmp_path / "damaged") / "run.json")
    record = json.loads((run_folders(out)[1] / "run.json").read_text())
    (run_folders(out)[1] / "run.json").write_text(json.dumps({k: v for k, v in record.items() if k != "steps"}))
    before = snapshot(out)
    arguments, message = GAP_FAULTS[case]
    code, said, err = here(*(places.get(argument, argument) for argument in arguments))
    assert (code, said) == (2, "")
    assert one_clear_line(err), err
    assert message in err
    assert snapshot(out) == before | {out / ".sweep.lock": b""} or snapshot(out) == before


def test_a_policy_that_cannot_be_cloned(here, two):
    """Only a run that kept outcomes to clone from can: the job fails, in one line."""
    out, _ = two
    folder = run_folders(out)[0]
    assert load_agent(folder).settings.returned == "mixture"
    code, said, err = here("gap", folder, *FEW, "--returned", "cloned", "--retries", 0, "--quiet")
    assert (code, said) == (1, "")
    assert one_clear_line(err), err
    assert "kept no outcomes to clone from" in err
