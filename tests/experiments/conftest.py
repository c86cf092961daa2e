"""The sweep that nobody disturbed; others must end like it."""

import os

import pytest

from sweeps import SHORT, finished, leftovers, results, run

FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
ALGORITHMS, SEEDS = "hpi-clip,hpi,sppo,ppo", 10 if FULL else 2


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """An environment in which compiled updates are kept in a place of their own: some are killed while they write."""
    return os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path_factory.mktemp("compiled")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }


@pytest.fixture(scope="session")
def whole_sweep():
    """Its arguments: 40 runs, 8 at reduced counts."""
    return ["sweep", *SHORT, "--algos", ALGORITHMS, "--seeds", f"0-{SEEDS - 1}", "--checkpoint-every", 7]


@pytest.fixture(scope="session")
def done(tmp_path_factory, compiled, whole_sweep):
    """The folder of that sweep, run on this machine without any trouble; only to be read."""
    out = tmp_path_factory.mktemp("undisturbed") / "runs"
    code, said, err = run(*whole_sweep, "--out", out, "--jobs", 2, "--quiet", env=compiled)
    assert (code, err) == (0, "")
    assert said == f"{4 * SEEDS} done (0 of them before), 0 failed, in {out}\n"
    assert finished(out) == 4 * SEEDS
    assert not leftovers(out)
    return out


@pytest.fixture(scope="session")
def undisturbed(done):
    """Name → result of every run of it."""
    return results(done)
