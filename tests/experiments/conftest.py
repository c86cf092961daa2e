"""What the tests of sweeps start from: the one that nobody disturbed, which others must end like; small ones; jobs."""

import fcntl
import os
import shutil

import pytest

from mdcontest.cli import main
from mdcontest.experiments.jobs import Job
from sweeps import QUICK, SHORT, finished, leftovers, results, run

FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
ALGORITHMS, SEEDS = "hpi-clip,hpi,sppo,ppo", 10 if FULL else 2


@pytest.fixture(scope="session")
def common(tmp_path_factory):
    """A folder that all processes of one test session see, and a lock for what only one of them should make."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "sweeps"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def compiled(common):
    """An environment in which compiled updates are kept in a place of their own: some are killed while they write."""
    return os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(common / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }


@pytest.fixture(scope="session")
def whole_sweep():
    """Its arguments: 40 runs, 8 at reduced counts."""
    return ["sweep", *SHORT, "--algos", ALGORITHMS, "--seeds", f"0-{SEEDS - 1}", "--checkpoint-every", 7]


@pytest.fixture(scope="session")
def done(common, compiled, whole_sweep):
    """The folder of that sweep, run on this machine without any trouble; only to be read."""
    out, complete = common / "undisturbed", common / "complete"
    with open(common / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            code, said, err = run(*whole_sweep, "--out", out, "--jobs", 2, "--quiet", env=compiled)
            assert (code, err) == (0, "")
            assert said == f"{4 * SEEDS} done (0 of them before), 0 failed, in {out}\n"
            assert finished(out) == 4 * SEEDS
            assert not leftovers(out)
            complete.touch()
    return out


@pytest.fixture(scope="session")
def undisturbed(done):
    """Name → result of every run of it."""
    return results(done)


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


@pytest.fixture
def job(tmp_path):
    """job(label, then): a job of that name, and what follows it."""

    def job(label, then=()):
        return Job("train", str(tmp_path / label), {"name": label}, label, tuple(then))

    return job
