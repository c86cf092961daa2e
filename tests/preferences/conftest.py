"""Learned margins in folders, for the tests that load them and train on them."""

import pytest

from fitted_margins import REPORT, random_margin
from learned_training import learned


@pytest.fixture
def saved(tmp_path):
    """A margin and the folder it was saved to."""
    margin = random_margin("skew", report=REPORT)
    margin.save(tmp_path / "margin")
    return margin, tmp_path / "margin"


@pytest.fixture
def folders(tmp_path):
    """Saved margins by name, and a place for runs."""
    for name, margin in {"skew": learned(), "other": learned(seed=1), "reward": learned("reward")}.items():
        margin.save(tmp_path / name)
    return tmp_path
