"""Gymnasium's spaces as plain vectors: what a network reads and writes, and back to what a margin sees.

A rollout stores every observation as one flat float64 vector. `ObservationReader` knows how it was made, so that a
margin gets the observation as the environment gave it: an array, or a mapping of arrays for a Dict space.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mdcontest.arrays import Array
from mdcontest.errors import InputError
from mdcontest.files import key_text

FAR = 4.0
"""Deviations from zero at which a new policy never acts."""


class ObservationReader:
    """Observations of a Box, Discrete or flat Dict space ↔ flat vectors of `size` numbers."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.space = space
        parts = space.spaces if isinstance(space, spaces.Dict) else {"": space}
        if not parts:
            raise InputError("the observation space is a Dict without parts")
        self._is_dict = isinstance(space, spaces.Dict)
        self._keys = {key_text(key): key for key in parts}
        if len(self._keys) < len(parts):
            raise InputError(f"two keys of the observation space read alike: {list(parts)}; rename one")
        where = "the observation's part {!r}" if self._is_dict else "the observation space"
        self._parts = {key: _Part(where.format(key), part) for key, part in parts.items()}
        ends = np.cumsum([part.size for part in self._parts.values()])
        self._slices = {
            key: slice(end - part.size, end)
            for (key, part), end in zip(self._parts.items(), ends.tolist(), strict=True)
        }
        self.size = int(ends[-1])
        self._is_vector = isinstance(space, spaces.Box) and space.shape == (self.size,)

    def flatten(self, observation: Any) -> NDArray[Any]:
        """One observation as a vector, shape [size]; a wrong shape is an error."""
        if self._is_vector:  # every step of most environments comes through here
            vector = np.asarray(observation)
            if vector.shape != (self.size,):
                raise InputError(f"the observation has shape {vector.shape}, its space says ({self.size},)")
            return _numbers(vector)
        if not self._is_dict:
            return self._parts[""].flatten(observation)
        if not isinstance(observation, Mapping) or set(observation) != set(self._parts):
            found = list(observation) if isinstance(observation, Mapping) else type(observation).__name__
            raise InputError(f"the observation is {found}, its space has the keys {list(self._parts)}")
        return np.concatenate([part.flatten(observation[key]) for key, part in self._parts.items()])

    def batch(self, observations: Any) -> tuple[Array, bool]:
        """Flat vectors [B, size] of one observation or a batch of them, and whether it was one."""
        try:
            return self._batch(observations)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"this is neither an observation of {self.space} nor a batch of them: {error}") from None

    def _batch(self, observations: Any) -> tuple[Array, bool]:
        key, part = next(iter(self._parts.items()))
        first = observations[key] if self._is_dict and isinstance(observations, Mapping) else observations
        if np.ndim(first) == len(part.space.shape or ()):
            return self.flatten(observations)[None].astype(float), True
        count = len(first)
        if self._is_dict and any(len(values) != count for values in observations.values()):
            raise InputError(f"the parts {list(self._parts)} of a batch of observations have different lengths")
        rows = (
            {k: values[i] for k, values in observations.items()} if self._is_dict else observations[i]
            for i in range(count)
        )
        return np.array([self.flatten(row) for row in rows], float).reshape(count, self.size), False

    def raw(self, vectors: Array) -> Any:
        """A batch as the environment gave it, from flat vectors of shape [B, size]."""
        if self._is_dict:
            return {key: part.raw(vectors[:, self._slices[key]]) for key, part in self._parts.items()}
        return self._parts[""].raw(vectors)

    def with_own_keys(self, observations: Any) -> Any:
        """A batch as `raw` gives it, from one whose keys a file has made texts."""
        if not self._is_dict:
            return observations
        return {self._keys[text]: values for text, values in observations.items()}


class _Part:
    """One Box or Discrete space inside the flat vector."""

    def __init__(self, where: str, space: spaces.Space[Any]) -> None:
        self.start: int | None = None
        if isinstance(space, spaces.Discrete):
            self.size, self.start = int(space.n), int(space.start)
        elif isinstance(space, spaces.Box):
            self.size = int(np.prod(space.shape))
        else:
            raise InputError(
                f"{where} is a {type(space).__name__}; Box, Discrete and a Dict of those are read: "
                "wrap the environment in gymnasium.wrappers.FlattenObservation"
            )
        if self.size == 0:
            raise InputError(f"{where} is empty")
        self.where, self.space = where, space

    def flatten(self, value: Any) -> NDArray[Any]:
        if self.start is not None:
            hot = np.zeros(self.size)
            index = int(value) - self.start
            if index + self.start != value or not 0 <= index < self.size:
                raise InputError(
                    f"{self.where} is {value}, it must lie between {self.start} and {self.start + self.size - 1}"
                )
            hot[index] = 1.0
            return hot
        array = np.asarray(value)
        if array.shape != self.space.shape:
            raise InputError(f"{self.where} has shape {array.shape}, its space says {self.space.shape}")
        return _numbers(array.reshape(-1))

    def raw(self, vectors: Array) -> NDArray[Any]:
        if self.start is not None:
            return np.argmax(vectors, axis=1) + self.start
        with np.errstate(over="ignore", invalid="ignore"):  # what they would warn of is told below
            values = vectors.astype(self.space.dtype, copy=False)
        self._require_kept(vectors, values)
        return values.reshape(len(vectors), *(self.space.shape or ()))

    def _require_kept(self, vectors: Array, values: NDArray[Any]) -> None:
        """An error where the space's numbers cannot hold what was observed, so that a margin would see something else.

        Policies read the vectors, margins the values. Rounding to a float of the space is no loss, a share read as a
        whole number is, and so is a number beyond the largest.
        """
        kind = values.dtype
        if kind == vectors.dtype:
            return
        kept = np.isfinite(values) == np.isfinite(vectors) if kind.kind == "f" else values == vectors
        if kept.all():
            return
        row, entry = np.argwhere(~kept)[0]
        raise InputError(
            f"{self.where} says {kind}, which cannot hold the {vectors[row, entry]:g} that entry {entry} of an "
            f"observation is: it would be {values[row, entry]}; declare the type that the environment gives, such as "
            "Box(…, dtype=np.float64)"
        )


def _numbers(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind not in "fiub":
        raise InputError(f"the observation holds {array.dtype} instead of numbers")
    return array


class ActionReader:
    """Actions of a Box or Discrete space: `size` numbers out of a network → what `env.step` takes."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.space = space
        self.discrete = isinstance(space, spaces.Discrete)
        if isinstance(space, spaces.Discrete):
            self.size, self.start = int(space.n), int(space.start)
        elif isinstance(space, spaces.Box):
            self.size = int(np.prod(space.shape))
            self.low, self.high = space.low.reshape(-1), space.high.reshape(-1)
            self.bounded = np.isfinite(self.low) & np.isfinite(self.high)
        else:
            raise InputError(
                f"the action space is a {type(space).__name__}; Box and Discrete are supported: make it one with "
                "gymnasium.wrappers.TransformAction"
            )
        if self.size == 0:
            raise InputError("the action space is empty")

    @property
    def is_far(self) -> bool:
        """Whether a policy that begins around 0 with deviation 1 hardly meets the box, or a small part of it only."""
        if self.discrete:
            return False
        low, high = self.low.astype(float), self.high.astype(float)  # 127 − (−128) is −1 in eight bits
        wide = (high / 2 - low / 2 >= 5 * FAR) & self.bounded  # halves, because their difference may have no number
        return bool(((low >= FAR) | (high <= -FAR) | wide).any())

    def to_env(self, action: NDArray[Any]) -> Any:
        """What the environment gets: the index counted from the space's start, or the vector clipped into its box."""
        if self.discrete:
            return int(action) + self.start
        clipped = np.minimum(np.maximum(action, self.low), self.high)
        return clipped.reshape(self.space.shape).astype(self.space.dtype, copy=False)

    def raw(self, actions: NDArray[Any]) -> NDArray[Any]:
        """A batch of stored actions [B] or [B, size] as the environment got them."""
        if self.discrete:
            return actions + self.start
        clipped = np.clip(actions, self.low, self.high).reshape(len(actions), *(self.space.shape or ()))
        return clipped.astype(self.space.dtype, copy=False)
