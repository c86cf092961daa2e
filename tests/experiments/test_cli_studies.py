"""`mdcontest sweep` as a person uses it: what is done already, what one sees of it, and two at once."""

import os
import pty
import re
import subprocess
import sys

import duckdb
import pandas
import pytest

from sweeps import (
    FULL,
    QUICK,
    change,
    command,
    ended_afterwards,
    leftovers,
    one_clear_line,
    read_terminal,
    rows_in,
    run_folders,
    snapshot,
    start,
    times,
    wait_until,
    workers,
)

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
        assert process.wait(timeout=120) == 0, said
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
    with ended_afterwards(start(*QUICK, "--steps", 10**9, "--out", out, output=output)) as first:
        assert wait_until(lambda: workers(first.pid))
        code, said, err = here(*QUICK, "--steps", 10**9, "--out", out)
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
        assert first.wait(timeout=120) == 130, output.read_text()
    assert "nothing is lost" in output.read_text()
