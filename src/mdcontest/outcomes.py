"""A batch of outcomes z: what a margin compares, on both floors.

In a finite contest an outcome is a pair (s, a): `obs` holds the state's index and `action` the action's.
In a Gymnasium task the same fields hold raw observations, actions and rewards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Outcomes:
    """B outcomes, one row each in every field that is present."""

    obs: NDArray[Any]
    """Observations, shape [B, ...]; the state's index in a finite contest."""
    action: NDArray[Any] | None = None
    """Actions, shape [B, ...]."""
    reward: NDArray[Any] | None = None
    """Rewards, shape [B]; None in a finite contest."""
    next_obs: NDArray[Any] | None = None
    """Observations one step later, shape [B, ...]; None in a finite contest."""
    info: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Further arrays by name, shape [B, ...]."""

    def __len__(self) -> int:
        return len(self.obs)

    def __getitem__(self, rows: Any) -> Outcomes:
        def take(values: NDArray[Any] | None) -> NDArray[Any] | None:
            return None if values is None else values[rows]

        return Outcomes(
            self.obs[rows],
            take(self.action),
            take(self.reward),
            take(self.next_obs),
            {name: values[rows] for name, values in self.info.items()},
        )


def finite_outcomes(num_states: int, num_actions: int) -> Outcomes:
    """The n = S·A pairs of a finite contest in the order of their flat index s·A + a."""
    states, actions = np.divmod(np.arange(num_states * num_actions), num_actions)
    return Outcomes(obs=states, action=actions)
