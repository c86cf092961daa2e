"""The state of a running environment, so that a run goes on mid-episode, bit for bit, as if it had never stopped.

MuJoCo's environments of Gymnasium are understood here. Any other environment or wrapper takes part by having two
methods, `save_state()` → a dictionary of numbers, strings, lists and arrays, and `load_state(that dictionary)`; the
environment's `np_random` is saved beside it. One without them starts a new episode when its run is resumed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import wrappers

from mdcontest.errors import InputError

State = dict[str, Any]

STATELESS = (
    wrappers.PassiveEnvChecker,
    wrappers.ClipAction,
    wrappers.RescaleAction,
    wrappers.FlattenObservation,
    wrappers.FilterObservation,
    wrappers.ReshapeObservation,
    wrappers.RescaleObservation,
    wrappers.DtypeObservation,
    wrappers.ClipReward,
)
"""Wrappers of Gymnasium with nothing to save."""


def reset(env: Any, seed: int | None) -> Any:
    """The first observation; a seed is that of the spaces, too, for environments that sample from them as they go."""
    if seed is not None:
        for space in _spaces(env):
            space.seed(seed)  # and its parts, each with another seed that follows from it
    answer = env.reset(seed=seed)
    if not (isinstance(answer, tuple | list) and len(answer) == 2):
        raise InputError(f"reset must return (observation, info), it returned {answer!r:.60}")
    return answer[0]


def save_environment(env: Any) -> list[State] | None:
    """The state of every layer, outermost first, or None where some layer cannot tell."""
    states = [_save_layer(layer) for layer in _layers(env)]
    if any(state is None for state in states):
        return None
    for layer, state in zip(_layers(env), states, strict=True):
        if "own" in (state or {}):
            _require_state(state["own"], f"the state that save_state of {type(layer).__name__} gave")  # type: ignore[index]
    drawn = [space.np_random.bit_generator.state for space in _with_parts(_spaces(env))]
    return [*states[:-1], states[-1] | {"spaces": drawn}]  # type: ignore[list-item, operator]


def load_environment(env: Any, states: list[State]) -> None:
    """Put an environment that was made the same way, and reset once, into the saved state."""
    layers = list(_layers(env))
    if len(layers) != len(states):
        raise InputError(
            f"the state is that of {len(states)} layers of environment and wrappers, here are {len(layers)}"
        )
    for layer, state in zip(layers, states, strict=True):
        _load_layer(layer, state)
    drawn = states[-1].get("spaces", ())  # older states have none
    for space, generator in zip(_with_parts(_spaces(env)), drawn, strict=False):
        space.np_random.bit_generator.state = generator


def _spaces(env: Any) -> list[gymnasium.Space[Any]]:
    """Spaces of the outermost and the innermost layer, each once: some environments sample from them."""
    names = ("action_space", "observation_space")
    named = (getattr(layer, name, None) for layer in (env, env.unwrapped) for name in names)
    return list({id(space): space for space in named if isinstance(space, gymnasium.Space)}.values())


def _with_parts(found: list[gymnasium.Space[Any]]) -> Iterator[gymnasium.Space[Any]]:
    """Spaces, and those that they are made of: each draws from a generator of its own."""
    for space in found:
        yield space
        parts = getattr(space, "spaces", ())
        yield from _with_parts(list(parts.values() if isinstance(parts, Mapping) else parts))


def _layers(env: Any) -> Iterator[Any]:
    while env is not env.unwrapped:
        yield env
        env = env.env
    yield env


def _save_layer(layer: Any) -> State | None:
    if "save_state" in _methods(layer):
        return {"own": layer.save_state()} | _generator_of(layer)
    if type(layer) is wrappers.TimeLimit:  # a subclass may have more to save
        return {"elapsed": layer._elapsed_steps}
    if type(layer) is wrappers.OrderEnforcing:
        return {"has_reset": layer._has_reset}
    if type(layer) in STATELESS:
        return {}
    return _mujoco_state(layer) | _generator_of(layer) if _is_mujoco(layer) else None


def _require_state(state: Any, where: str) -> None:
    """What `load_state` is promised to get."""
    if not isinstance(state, dict):
        raise InputError(
            f"{where} is {state!r:.60}, it must be a dictionary, an empty one where there is nothing to save"
        )
    _require_kept(state, where)


def _require_kept(value: Any, where: str) -> None:
    """An error that names the entry which a checkpoint cannot hold; numbers of NumPy and arrays may be anything."""
    if isinstance(value, dict | list | tuple):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            _require_kept(inner, f"{where}[{key!r}]")
    elif not isinstance(value, str | int | float | np.ndarray | np.generic | None):
        raise InputError(
            f"{where} is a {type(value).__name__}, which no file holds; save numbers, texts, lists, dictionaries and "
            "arrays, and make the rest of them again in load_state"
        )
    elif isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind == "f" and value.dtype.itemsize > 8:
            raise InputError(f"{where} is of {value.dtype}, which no file holds; save it as np.float64")
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(
            f"{where} is {value}; a number that is not finite is saved as one of NumPy, np.float64({value})"
        )


def _load_layer(layer: Any, state: State) -> None:
    if "generator" in state:
        layer.np_random.bit_generator.state = state["generator"]
    if "save_state" in _methods(layer):
        layer.load_state(state["own"])
    elif isinstance(layer, wrappers.TimeLimit):
        layer._elapsed_steps = state["elapsed"]
    elif isinstance(layer, wrappers.OrderEnforcing):
        layer._has_reset = state["has_reset"]
    elif type(layer) not in STATELESS:
        _restore_mujoco(layer, state)


def _methods(layer: Any) -> set[str]:
    """Names the layer's own classes define; a wrapper's __getattr__ would answer for what it wraps."""
    return {name for kind in type(layer).__mro__ for name in vars(kind)}


def _generator_of(layer: Any) -> State:
    return {"generator": layer.np_random.bit_generator.state} if layer is layer.unwrapped else {}


# --- MuJoCo -----------------------------------------------------------------------------------------------


def _is_mujoco(env: Any) -> bool:
    return type(env).__module__.startswith("gymnasium.envs.mujoco.") and hasattr(env, "data")


def _mujoco_state(env: Any) -> State:
    import mujoco

    spec = mujoco.mjtState.mjSTATE_INTEGRATION
    physics = np.empty(mujoco.mj_stateSize(env.model, spec))
    mujoco.mj_getState(env.model, env.data, physics, spec)
    # Ant's and Humanoid's velocity is read from body positions that the physics state does not hold.
    return {"physics": physics, "xpos": env.data.xpos.copy(), "xipos": env.data.xipos.copy()}


def _restore_mujoco(env: Any, state: State) -> None:
    import mujoco

    mujoco.mj_resetData(env.model, env.data)
    mujoco.mj_setState(env.model, env.data, np.asarray(state["physics"], float), mujoco.mjtState.mjSTATE_INTEGRATION)
    env.data.xpos[:], env.data.xipos[:] = state["xpos"], state["xipos"]  # mj_forward would recompute them
