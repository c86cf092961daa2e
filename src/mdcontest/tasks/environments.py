"""Making environments: by id or cut off after so many steps, without a display and without files left behind."""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
from gymnasium.wrappers import TimeLimit

from mdcontest.errors import InputError
from mdcontest.tasks.faults import RAISED, one_line, told


def limited(env: Any, limit: int) -> Any:
    """The environment cut off after `limit` steps, whatever limits it came with."""
    found = _time_limits(env)
    for layer in found:
        layer._max_episode_steps = limit
    return env if found else TimeLimit(env, limit)


def step_limit(env: Any) -> int | None:
    """Steps after which an environment cuts its episodes off; None where it does not."""
    return min((layer._max_episode_steps for layer in _time_limits(env)), default=None)


def _time_limits(env: Any) -> list[TimeLimit[Any, Any]]:
    """All of them: one made around `gymnasium.make` has that one's own limit inside."""
    found = []
    while env is not env.unwrapped:
        if isinstance(env, TimeLimit):
            found.append(env)
        env = env.env
    return found


def with_own_spaces(env: Any) -> Any:
    """The environment with copies of those spaces that its class holds for all of its kind.

    An environment may draw from its spaces as it goes. Where another one that is reset seeds the same ones, what is
    played beside it, such as an evaluation in a callback, would change what it meets.
    """
    layer: Any = env
    copies: dict[int, Any] = {}
    while layer is not None:
        for name in ("action_space", "observation_space"):
            held = inspect.getattr_static(layer, name, None)  # of a wrapper without its own it is a property
            if isinstance(held, gymnasium.Space) and name not in vars(layer):
                setattr(layer, name, copy.deepcopy(held, copies))
        layer = None if layer is layer.unwrapped else layer.env
    return env


def make_registered(env_id: str, limit: int | None, render_mode: str | None, settings: Mapping[str, Any]) -> Any:
    """An environment by its Gymnasium id; what stands in the way is an error in words."""
    arguments = dict(settings)
    if limit is not None:
        arguments["max_episode_steps"] = limit
    if render_mode is not None:
        arguments["render_mode"] = render_mode
        if not os.environ.get("DISPLAY") and sys.platform == "linux":
            os.environ.setdefault("MUJOCO_GL", "egl")  # pictures without a display
    try:
        # The checker tests every step for faults that the rollout reports better, at 10 µs a step.
        return gymnasium.make(env_id, disable_env_checker=True, **arguments)
    except gymnasium.error.Error as error:
        raise InputError(f"cannot make the environment {env_id}: {one_line(str(error))}") from None
    except TypeError as error:
        raise InputError(f"the environment {env_id} does not take these settings: {one_line(str(error))}") from None
    except ModuleNotFoundError as error:
        raise InputError(f"the environment {env_id} needs the package {error.name}, which is not installed") from None
    except RAISED as error:
        raise InputError(f"cannot make the environment {env_id}: {told(error)}") from error


@contextlib.contextmanager
def quiet_mujoco() -> Iterator[None]:
    """MuJoCo writes warnings about a model to MUJOCO_LOG.TXT in the working folder; make them Python's instead."""
    try:
        import mujoco
    except ImportError:
        yield
        return
    except Exception as error:  # a value of MUJOCO_GL that it does not know, or a way to draw that is not there
        drawing = os.environ.get("MUJOCO_GL")
        way_out = f"; MUJOCO_GL is {drawing!r}: unset it, or set it to 'disable' where nothing is drawn"
        raise InputError(f"MuJoCo cannot be loaded: {error}{way_out if drawing else ''}") from error

    def warn(text: str) -> None:
        if "settotalmass" not in text:  # HalfCheetah's own file, nothing its user could do about
            warnings.warn(text, stacklevel=2)

    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(warn)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
