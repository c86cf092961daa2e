"""The process that films: reads which clips are wanted on standard input, a line each, and says when they are there.

Drawing holds the interpreter for milliseconds at a time and needs a graphics context, which may take its process with
it; here neither delays an answer. The process ends when its standard input does, so it never outlives the server.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from mdcontest.errors import InputError, too_little_memory
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.labelling.clips import Replayer, clip_path
from mdcontest.preferences.references import Segment

MOST_CHARACTERS = 1000
"""Of an error; an environment may say anything, and a line that never ends is not read."""


def main(folder: str) -> int:
    """Film for the dataset in `folder` until nobody asks any more."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # whatever an environment prints is not an answer, also where a C library of its prints it
        replayer, dataset = None, Dataset.open(folder)
        for line in sys.stdin:
            wanted = json.loads(line)
            error = None
            try:
                replayer = replayer or Replayer(dataset.task(), dataset.horizon)
                _film(dataset, replayer, wanted)
            except InputError as problem:
                error = str(problem)
            except MemoryError as problem:
                error = too_little_memory(problem)
            except Exception as problem:  # of the environment, whose author may raise anything
                error = f"the environment failed: {type(problem).__name__}: {problem}"
            if error is not None and replayer is not None:
                with contextlib.suppress(Exception):  # an environment that failed may fail once more
                    replayer.close()
                replayer = None
            said = None if error is None else error[:MOST_CHARACTERS]
            print(json.dumps({"clip": wanted["clip"], "error": said}), file=answers, flush=True)
    return 0


def _film(dataset: Dataset, replayer: Replayer, wanted: dict[str, Any]) -> None:
    segment = Segment(wanted["trajectory"], wanted["start"], wanted["length"])
    replayer.film(dataset.trajectory(segment.trajectory), segment, clip_path(Path(dataset.path), wanted["clip"]))


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(10)  # whoever answers comes first; clips are made ahead of time
    warnings.simplefilter("ignore")  # libraries' warnings about themselves; what fails is said in the answer
    sys.exit(main(sys.argv[1]))
