"""`mdcontest sweep` on full disks, over damaged runs and with tasks that fail: it says which, and does the rest."""

import json
import os
import subprocess
import sys

import pandas
import pytest

from failing import FAILING
from sweeps import (
    FULL,
    QUICK,
    TINY,
    change,
    cut,
    finished,
    leftovers,
    one_clear_line,
    results,
    run,
    run_folders,
    snapshot,
)

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
