"""The files of a run that tests damage, and the error that must name them."""

import pytest

from mdcontest.errors import FileFormatError
from mdcontest.learn import load_agent

NEWEST = "checkpoints/00000004"
FILES = [f"{NEWEST}/{name}" for name in ("arrays.safetensors", "state.json", "SHA256SUMS")]
FILES += ["iterates.f32", "cloning.f32", "run.json"]


def require_refused(folder, name, what=""):
    with pytest.raises(FileFormatError) as caught:
        load_agent(folder)
    text = str(caught.value)
    assert name.rpartition("/")[2] in text or (name.startswith(NEWEST) and str(folder / NEWEST) in text), (text, what)
    return text
