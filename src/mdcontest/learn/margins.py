"""The learned margin of a run: a copy of it lies in the run's folder, so that the run needs nothing else.

RUN/margin/      as `mdcontest fit` writes one; run.json has its digest, or "ask" where it changes while it trains
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mdcontest.errors import FileFormatError, InputError
from mdcontest.outcomes import Outcomes
from mdcontest.preferences.asked import ASK, AskedMargin
from mdcontest.preferences.learned import Learned
from mdcontest.preferences.margin_files import load_margin
from mdcontest.tasks import Task

MARGIN = "margin"
"""The folder within a run's."""


def margin_entry(task: Task) -> dict[str, Any]:
    """What run.json says about a learned margin; nothing where the task has its own."""
    if isinstance(task.margin, AskedMargin):
        return {"margin": ASK}
    return {"margin": task.margin.digest} if isinstance(task.margin, Learned) else {}


def require_readable(task: Task) -> None:
    """An error, before anything starts, where a learned margin was fitted to other outcomes than the task has."""
    if not isinstance(task.margin, Learned):
        return
    observations, actions = task.spaces
    obs = observations.raw(np.zeros((1, observations.size)))
    action = actions.raw(np.zeros(1, np.int64) if actions.discrete else np.zeros((1, actions.size)))
    z = Outcomes(obs, action, None, obs)
    for field in task.margin.ensemble.reader.fields:
        if field.name.partition(".")[0] not in ("reward", "info"):  # what these are, a step will tell
            try:
                field.read(z)
            except InputError as error:
                raise InputError(f"{task.name}: {error}; it was learned from another task") from None


def keep_margin(task: Task, run: Path) -> None:
    """Put a copy into the run's folder."""
    if isinstance(task.margin, Learned):
        task.margin.save(run / MARGIN)


def with_kept_margin(task: Task, entry: dict[str, Any], run: Path) -> Task:
    """A run's task with the margin it was trained on."""
    if "margin" not in entry:
        return task
    if entry["margin"] == ASK:
        return task.with_margin(AskedMargin.in_folder(run / MARGIN))
    margin = load_margin(run / MARGIN)
    if margin.digest != entry["margin"]:
        raise FileFormatError(f"the margin in {run / MARGIN} is not the one that the run was trained on")
    return task.with_margin(margin)
