"""Tasks by name. Other packages add theirs through the entry-point group `mdcontest.tasks`.

[project.entry-points."mdcontest.tasks"]
"My-Task" = "my_package.tasks:my_task"      # a function that returns a Task; its keywords are settings
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from mdcontest.errors import InputError, did_you_mean
from mdcontest.tasks.corridor import rps_continuous, rps_corridor
from mdcontest.tasks.faults import RAISED, told
from mdcontest.tasks.reacher_nt import reacher_nt
from mdcontest.tasks.suite import SUITE, suite_task
from mdcontest.tasks.task import Task
from mdcontest.tasks.walker2d_nt import walker2d_nt

GROUP = "mdcontest.tasks"
"""The entry-point group that is looked through."""

_makers: dict[str, Callable[..., Task]] = {name: functools.partial(suite_task, name) for name in SUITE} | {
    "Reacher-NT": reacher_nt,
    "Walker2d-NT": walker2d_nt,
    "RPSCorridor": rps_corridor,
    "RPSContinuous": rps_continuous,
}


def register(name: str, maker: Callable[..., Task]) -> None:
    """Make `maker` known as `name` in this process: a function whose keyword arguments are the task's settings."""
    if name in names():
        raise InputError(f"there is already a task {name!r}; choose another name")
    _makers[name] = maker


def names() -> list[str]:
    """All tasks known here, shipped, registered, or offered by installed packages."""
    return [*_makers, *(point.name for point in entry_points(group=GROUP) if point.name not in _makers)]


def make(name: str, /, **settings: Any) -> Task:
    """The task of that name, with settings of its own such as `theta=` for Reacher-NT."""
    maker = _find(name)
    try:
        inspect.signature(maker).bind(**settings)
    except TypeError as error:
        raise InputError(f"the task {name} does not take these settings: {error}") from None
    except ValueError:  # a maker without a signature
        pass
    try:
        task = maker(**settings)
    except InputError:
        raise
    except RAISED as error:
        raise InputError(f"the task {name} cannot be made: {told(error)}") from error
    if not isinstance(task, Task):
        raise InputError(f"what is registered as {name} makes a {type(task).__name__}, not a Task")
    return dataclasses.replace(task, name=name, settings=dict(settings)).as_registered()


def _find(name: str) -> Callable[..., Task]:
    if name in _makers:
        return _makers[name]
    for point in entry_points(group=GROUP):
        if point.name == name:
            try:
                return point.load()
            except RAISED as error:
                raise InputError(f"the task {name} of {point.value} cannot be loaded: {error!r}") from error
    near = did_you_mean(name, names(), "tasks")
    raise InputError(f"there is no task {name!r}{near}{' (mdcontest tasks lists all)' if 'mean' in near else ''}")
