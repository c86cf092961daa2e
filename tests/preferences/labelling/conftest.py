"""A dataset to label; tests that need another make their own."""

import pytest

from preferences.labelling.sessions import make_dataset


@pytest.fixture
def dataset(tmp_path):
    return make_dataset(tmp_path / "dataset", count=6)
