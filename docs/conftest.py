"""The snippets of these pages run as doctests; hidden ones may read the page they stand on from `PAGES`."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _pages(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace["PAGES"] = Path(__file__).parent
