"""Counts: `make test` runs few cases of each kind, `make test-slow` (MDCONTEST_COUNTS=full) all of them."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

import mdcontest as mdc
from mdcontest.cli import main

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Tests that were started in the background of a shell ignore Ctrl-C, and so would every process they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)

FULL = os.environ.get("MDCONTEST_COUNTS", "reduced") == "full"
COMMON = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
}
settings.register_profile("reduced", max_examples=20, **COMMON)
settings.register_profile("full", max_examples=250, **COMMON)
settings.load_profile("full" if FULL else "reduced")


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium, or a skipped test that says what to install."""
    from browser import Browser, require_browser

    require_browser()
    with Browser() as browser:
        yield browser


@pytest.fixture
def count():
    """count(reduced, full): how many cases of a kind to run."""
    return lambda reduced, full: full if FULL else reduced


@pytest.fixture
def run(capsys):
    """The command in this process: exit code, standard output, standard error."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def contest():
    """A small contest: May's suitors."""
    return mdc.examples.make("marriage")
