"""A batch of outcomes z: what a margin compares, on both floors.

In a finite contest an outcome is a pair (s, a): `obs` holds the state's index and `action` the action's.
In a Gymnasium task the same fields hold raw observations, actions and rewards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Outcomes:
    """B outcomes, one row each in every field that is present."""

    obs: Any
    """Observations, shape [B, ...], or a mapping of such arrays; the state's index in a finite contest."""
    action: NDArray[Any] | None = None
    """Actions, shape [B, ...]."""
    reward: NDArray[Any] | None = None
    """Rewards, shape [B]; None in a finite contest."""
    next_obs: Any = None
    """Observations one step later, like `obs`; None in a finite contest."""
    info: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Further arrays by name, shape [B, ...]."""

    def __len__(self) -> int:
        return len(next(iter(self.obs.values()))) if isinstance(self.obs, Mapping) else len(self.obs)

    def __getitem__(self, rows: Any) -> Outcomes:
        def take(values: Any) -> Any:
            if isinstance(values, Mapping):
                return {name: part[rows] for name, part in values.items()}
            return None if values is None else values[rows]

        return Outcomes(take(self.obs), take(self.action), take(self.reward), take(self.next_obs), take(self.info))

    def columns(self) -> dict[str, Any]:
        """Every array that is present by its name, `obs`, or `obs.key` of a mapping."""
        found: dict[str, Any] = {}
        for name in ("obs", "action", "reward", "next_obs", "info"):
            values = getattr(self, name)
            if isinstance(values, Mapping):
                found.update({f"{name}.{key}": part for key, part in values.items()})
            elif values is not None:
                found[name] = values
        return found

    def row_bytes(self) -> int:
        """Bytes of one outcome, all fields together."""
        return sum(array.nbytes for array in self.columns().values()) // max(len(self), 1)


def concatenate(batches: Sequence[Outcomes]) -> Outcomes:
    """One batch of all rows, in order; the fields of every batch must be the same."""

    def join(parts: list[Any]) -> Any:
        if isinstance(parts[0], Mapping):
            return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return None if parts[0] is None else np.concatenate(parts)

    names = ("obs", "action", "reward", "next_obs", "info")
    return Outcomes(*(join([getattr(batch, name) for batch in batches]) for name in names))


def finite_outcomes(num_states: int, num_actions: int) -> Outcomes:
    """The n = S·A pairs of a finite contest in the order of their flat index s·A + a."""
    states, actions = np.divmod(np.arange(num_states * num_actions), num_actions)
    return Outcomes(obs=states, action=actions)
