"""The learned margin of a run: a copy of it lies in the run's folder, so that the run needs nothing else.

RUN/margin/      as `mdcontest fit` writes one; run.json has its digest, or "ask" where it changes while it trains
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from mdcontest.errors import PREVIEWED, FileFormatError, InputError
from mdcontest.outcomes import Outcomes
from mdcontest.preferences.asked import ASK, AskedMargin
from mdcontest.preferences.inputs import Field
from mdcontest.preferences.learned import Learned
from mdcontest.preferences.margin_files import DESCRIPTION, load_margin
from mdcontest.tasks import Task
from mdcontest.tasks.records import parts_record, task_record

MARGIN = "margin"
"""The folder within a run's."""


def run_task_record(task: Task) -> dict[str, Any]:
    """What run.json says about a task: it is the registered one only if its margin is, or is stored with the run."""
    learned, record = margin_entry(task), task_record(task)
    found_again = record["registered"] and (task.original is None or bool(learned))
    parts = {} if found_again else {"parts": parts_record(task.true)}
    return record | {"registered": found_again} | learned | parts


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
                _require_categories(task, field, z)
            except InputError as error:
                raise InputError(f"{task.name}: {error}; it was learned from another task") from None


def _require_categories(task: Task, field: Field, z: Outcomes) -> None:
    """An error where a field that the margin reads as categories is none here, or has others."""
    if field.categories is None:
        return
    part, _, key = field.name.partition(".")
    seen, known = getattr(z, part), ", ".join(f"{value:g}" for value in field.categories[:PREVIEWED])
    kind = np.asarray(seen[key] if key else seen).dtype
    if kind.kind not in "iu":
        raise InputError(f"the learned margin reads {field.name} as categories ({known}), and it is {kind} here")
    space: Any = task.spaces[1].space if part == "action" else task.spaces[0].space
    space = space[key] if key else space
    if isinstance(space, Discrete):
        last = int(space.start + space.n - 1)
        outside = [value for value in field.categories if not space.start <= value <= last]
        if outside:
            raise InputError(
                f"the learned margin knows the value {outside[0]:g} of {field.name}, here {space.start} to {last}"
            )


def keep_margin(task: Task, run: Path, own: bool) -> None:
    """Put a copy into a run's folder; `own`: the folder that the task's margin is fitted in, where it is asked for.

    The margin there is the one trained on, or a newer one that was fitted meanwhile and is about to be taken up.
    """
    asked = task.margin if isinstance(task.margin, AskedMargin) else None
    if asked and own and (run / MARGIN / DESCRIPTION).is_file():
        return
    margin = asked.current if asked else task.margin
    if isinstance(margin, Learned):
        margin.save(run / MARGIN)


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
