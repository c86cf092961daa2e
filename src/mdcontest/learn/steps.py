"""What an environment hands out, read with care; what is wrong with it names the task and the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdcontest.arrays import Array
from mdcontest.errors import InputError, RunError
from mdcontest.tasks import Task
from mdcontest.tasks.faults import told


def read_info(task: Task, info: Any, key: str, step: int) -> Array:
    """An entry of a step's info as float64, whatever kind of number it is: margins see the same wherever it is read."""
    if not isinstance(info, Mapping):
        raise RunError(f"{task.name}: the info of step {step} is {info!r}, it must be a dictionary")
    if key not in info:
        raise RunError(f"{task.name}: the info of step {step} has no entry {key!r}, it has {sorted(map(str, info))}")
    try:
        value = np.asarray(info[key])
    except ValueError:  # lists of several lengths
        value = np.asarray(None)
    if value.dtype.kind not in "fiub":
        raise RunError(f"{task.name}: info[{key!r}] is {info[key]!r} at step {step}; only numbers can be kept")
    if not np.isfinite(value).all():
        raise RunError(f"{task.name}: info[{key!r}] is {value} at step {step}; it must be finite")
    return np.array(value, float)


def read_step(answer: Any) -> tuple[Any, float, bool, bool, Any]:
    """What `step` returned, whose observation and info are looked at later."""
    if not (isinstance(answer, tuple | list) and len(answer) == 5):
        held = f"{len(answer)} values" if isinstance(answer, tuple | list) else f"a {type(answer).__name__}"
        raise InputError(f"step must return (observation, reward, terminated, truncated, info), it returned {held}")
    observation, reward, terminated, truncated, info = answer
    ended = read_flag(terminated, "terminated"), read_flag(truncated, "truncated")
    return observation, _read_reward(reward), *ended, info


def _read_reward(value: Any) -> float:
    """One number, in an array of one, too, as flags may be."""
    if isinstance(value, float):  # NumPy's doubles are, too
        return float(value)
    try:
        found: Any = np.asarray(value).item()
        return float(found)
    except (TypeError, ValueError):
        raise InputError(f"the reward is {value!r:.60}, it must be one number") from None


def read_flag(value: Any, name: str) -> bool:
    """`terminated` or `truncated` of a step."""
    if value is True or value is False:  # nearly always, and this is asked twice a step
        return value
    try:
        return bool(np.asarray(value).item())
    except (TypeError, ValueError):
        raise InputError(f"{name} is {value!r}, it must be one truth value") from None


def require_finite(task: Task, obs: NDArray[Any], reward: float, step: int) -> None:
    """An error that names the entry of an observation, or the reward, that is no finite number."""
    bad = np.flatnonzero(~np.isfinite(obs))
    if len(bad):
        raise RunError(f"{task.name}: entry {bad[0]} of the observation is {obs[bad[0]]} at step {step}")
    if not np.isfinite(reward):
        raise RunError(f"{task.name}: the reward is {reward} at step {step}")


def fault(task: Task, step: int, error: BaseException, when: str = "") -> RunError:
    """What an environment did wrong, as an error of ours."""
    if isinstance(error, RunError):
        return RunError(told(error))
    what = told(error) if isinstance(error, InputError) else f"the environment raised {told(error)}"
    return RunError(f"{task.name}: {what} at {when}step {step}")
