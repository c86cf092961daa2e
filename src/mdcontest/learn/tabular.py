"""A decision rule over the states of a task's finite model, played like any other policy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mdcontest.arrays import Array, read_numbers
from mdcontest.errors import InputError
from mdcontest.tasks import Task


class TabularPolicy:
    """d(a|s) as a policy: `predict` finds the state by its observation and draws an action."""

    def __init__(self, task: Task, rule: ArrayLike, seed: int = 0) -> None:
        model = task.finite_model()
        self.task, self.rule = task, read_numbers(rule, "rule")
        shape = (model.contest.num_states, model.contest.num_actions)
        if self.rule.shape != shape or not np.allclose(self.rule.sum(axis=1), 1) or self.rule.min() < 0:
            raise InputError(f"rule must have shape {shape} and rows that sum to one, got shape {self.rule.shape}")
        self._states = {row.tobytes(): s for s, row in enumerate(np.asarray(model.observations, float))}
        self._rng = np.random.default_rng(seed)

    def seed_predictions(self, seed: int) -> None:
        """Make the draws start anew from a seed."""
        self._rng = np.random.default_rng(seed)

    def decision_rule(self) -> Array:
        """The rule itself."""
        return self.rule

    def predict(
        self, obs: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, None]:
        """Actions for one observation or a batch of them."""
        reader, actions = self.task.spaces
        vectors, single = reader.batch(obs)
        try:
            rows = self.rule[[self._states[np.asarray(vector, float).tobytes()] for vector in vectors]]
        except KeyError:
            raise InputError(f"{self.task.name}: this is the observation of no state of the finite model") from None
        if deterministic:
            chosen = rows.argmax(axis=1)
        else:
            chosen = (rows.cumsum(axis=1) < self._rng.random((len(rows), 1))).sum(axis=1)
            chosen = np.minimum(chosen, rows.shape[1] - 1)
        found = actions.raw(chosen)
        return (found[0] if single else found), None
