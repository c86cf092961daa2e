"""Raw trajectories as they are kept for comparing: outcomes, whether they ended by themselves, how to replay them."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdcontest.errors import InputError
from mdcontest.outcomes import Outcomes, concatenate

DTYPES = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
DTYPES = (*DTYPES, "float16", "float32", "float64")
"""Element types that a stored array may have."""

Layout = dict[str, Any]
"""Which arrays an outcome has: column → [dtype, shape of one row], and whether there is a next observation."""


@dataclass(frozen=True)
class Trajectory:
    """One episode as it was played, unchanged."""

    outcomes: Outcomes
    terminated: bool
    """Whether it ended by itself rather than by being cut off."""
    seed: int | None = None
    """What the environment was reset with; its actions replayed from there give the same episode."""
    source: str = ""
    """Where it comes from, such as a run's name."""
    steps: int = 0
    """Training steps of the policy that played it."""

    def __post_init__(self) -> None:
        if len(self.outcomes) < 1:
            raise InputError("a trajectory needs at least one step")
        for name in ("seed", "steps"):
            if isinstance(number := getattr(self, name), np.integer):
                object.__setattr__(self, name, int(number))  # the id is made of the number as Python writes it
        if self.seed is not None and not (isinstance(self.seed, int) and 0 <= self.seed < 2**63):
            raise InputError(f"seed must be a whole number, not negative, got {self.seed!r:.60}")
        if not (isinstance(self.steps, int) and 0 <= self.steps < 2**63):
            raise InputError(f"steps must be a whole number, not negative, got {self.steps!r:.60}")
        for name, array in self.arrays.items():
            if array.dtype.name not in DTYPES:
                raise InputError(f"{name} holds {array.dtype} values; numbers of at most 64 bits are stored")
            if 0 in array.shape[1:]:
                raise InputError(f"{name} has shape {array.shape}: there is no number in it; leave it out")
            if array.ndim < 1 or len(array) != len(self):
                raise InputError(f"{name} has shape {array.shape}, the trajectory {len(self)} steps")
        self._require_continuous()

    def _require_continuous(self) -> None:
        """Each observation is the one after the step before: only the last one is stored apart."""
        if self.outcomes.next_obs is None:
            return
        for (name, before), after in zip(
            parts_of(self.outcomes.obs, "obs").items(), parts_of(self.outcomes.next_obs, "obs").values(), strict=True
        ):
            if after.shape != before.shape or after.dtype != before.dtype:
                raise InputError(
                    f"next {name} is {after.dtype}{list(after.shape)}, {name} {before.dtype}{list(before.shape)}"
                )
            if before[1:].tobytes() != after[:-1].tobytes():
                step = next(t for t in range(len(self) - 1) if before[t + 1].tobytes() != after[t].tobytes())
                raise InputError(
                    f"{name} of step {step + 1} is not what step {step} led to: one trajectory is one episode, unbroken"
                )

    def __len__(self) -> int:
        return len(self.outcomes)

    @functools.cached_property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its arrays by the name of their column, without the next observations."""
        z = self.outcomes
        rest = {"action": z.action, "reward": z.reward}
        return {
            **parts_of(z.obs, "obs"),
            **{name: np.asarray(array) for name, array in rest.items() if array is not None},
            **parts_of(z.info, "info"),
        }

    @functools.cached_property
    def last(self) -> dict[str, NDArray[Any]]:
        """The observation after the last step, one row a column; empty where none is known."""
        if self.outcomes.next_obs is None:
            return {}
        return {name: array[-1:] for name, array in parts_of(self.outcomes.next_obs, "obs").items()}

    @functools.cached_property
    def layout(self) -> Layout:
        """What its arrays are, as written into a part's metadata."""
        columns = {name: [array.dtype.name, list(array.shape[1:])] for name, array in self.arrays.items()}
        return {"columns": columns, "next_obs": self.outcomes.next_obs is not None}

    @functools.cached_property
    def id(self) -> str:
        """16 hexadecimal digits made of all of it: equal for the same trajectory, wherever it is stored."""
        about = [self.layout, len(self), bool(self.terminated), self.seed, self.source, self.steps]
        digest = hashlib.blake2b(json.dumps(about).encode(), digest_size=8)
        for array in (*self.arrays.values(), *self.last.values()):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class TrajectoryInfo:
    """What is known of a stored trajectory without reading its outcomes."""

    id: str
    length: int
    terminated: bool
    seed: int | None
    source: str
    steps: int
    part: str
    """The file that holds it."""
    row: int
    """Its first row there."""


def parts_of(values: Any, name: str) -> dict[str, NDArray[Any]]:
    """A field of outcomes as arrays by column: one, or one a key, in the order of the keys."""
    if isinstance(values, Mapping):
        if not all(isinstance(key, str) for key in values):
            raise InputError(f"{name} has keys that are no texts: {list(values)}")
        return {f"{name}.{key}": np.asarray(values[key]) for key in sorted(values)}
    return {name: np.asarray(values)}


def outcomes_of(arrays: Mapping[str, NDArray[Any]], last: Mapping[str, NDArray[Any]]) -> Outcomes:
    """The outcomes of one trajectory from its arrays by column and the observation after its last step."""

    def field(name: str, columns: Mapping[str, NDArray[Any]]) -> Any:
        if name in columns:
            return columns[name]
        return {key.removeprefix(f"{name}."): array for key, array in columns.items() if key.startswith(f"{name}.")}

    next_obs = field("obs", {name: np.concatenate([arrays[name][1:], last[name]]) for name in last}) if last else None
    info = field("info", arrays)
    return Outcomes(field("obs", arrays), arrays.get("action"), arrays.get("reward"), next_obs, info)


def join(trajectories: list[Trajectory]) -> Outcomes:
    """All outcomes one after the other; an error where their arrays differ."""
    for trajectory in trajectories[1:]:
        require_layout(trajectory.layout, trajectories[0].layout, "the other trajectories")
    return concatenate([trajectory.outcomes for trajectory in trajectories])


def require_layout(found: Layout, known: Layout, where: str) -> None:
    """An error that names the first array which is not as in `known`."""
    if found == known:
        return
    mine, theirs = found["columns"], known["columns"]
    names = [name for name in {**theirs, **mine} if mine.get(name) != theirs.get(name)]
    if not names:
        raise InputError(f"only one of the trajectory and {where} has next observations")
    name = names[0]
    raise InputError(
        f"the trajectory's {name} is {_shown(mine.get(name))}, in {where} it is {_shown(theirs.get(name))}"
    )


def _shown(kind: list[Any] | None) -> str:
    return "missing" if kind is None else f"{kind[0]} of shape {tuple(kind[1])}"
