"""What a task is, as the files of runs and datasets say it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from mdcontest.errors import InputError
from mdcontest.tasks.task import Task


def task_record(task: Task) -> dict[str, Any]:
    """Name, settings and environment; enough to make a registered task again, and to tell others apart."""
    env = task.env if isinstance(task.env, str) else getattr(task.env, "__qualname__", type(task.env).__name__)
    return {"name": task.name, "registered": task.is_registered, "settings": plain(task.settings), "env": env}


def parts_record(task: Task) -> dict[str, Any]:
    """What else a task that the registry does not make is made of, as far as a file can tell.

    Functions cannot be compared, so of these it says no more than that they are functions.
    """
    return {
        "horizon": task.horizon,
        "env_settings": json.loads(json.dumps(dict(task.env_settings), default=lambda value: type(value).__name__)),
        "info_keys": list(task.info_keys),
        "ended": "function" if callable(task.ended) else task.ended,
        "margin": type(task.margin).__name__,
    }


def plain(settings: Any) -> Any:
    """Settings of a task as JSON knows them; what it does not know is refused before anything is done."""

    def convert(value: Any) -> Any:
        if isinstance(value, np.generic | np.ndarray):
            return value.tolist()
        raise InputError(f"the task's setting {value!r:.60} cannot be stored; use numbers, texts and lists")

    return None if settings is None else json.loads(json.dumps(dict(settings), default=convert))
