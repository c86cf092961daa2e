"""`mdcontest gap` and `trace` as a person uses them: a run, a folder of runs, and what cannot be measured."""

import json
import shutil

import duckdb
import pandas
import pytest

from mdcontest.learn import load_agent
from sweeps import cut, leftovers, one_clear_line, run_folders, snapshot, times

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
