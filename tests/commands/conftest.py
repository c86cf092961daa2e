"""What the tests of commands start from: a contest in a file, and a finished run."""

import pytest

import mdcontest as mdc
from mdcontest.cli import main
from sweeps import RPS


@pytest.fixture
def contest_file(tmp_path):
    path = tmp_path / "contest.json"
    mdc.examples.make("corridor").save(path)
    return path


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The folder of a finished run."""
    out = tmp_path_factory.mktemp("trained")
    assert main([str(argument) for argument in (*RPS, "--steps", 256, "--out", out, "--quiet")]) == 0
    (folder,) = out.iterdir()
    return folder
