"""Policies as they are returned and played: the last iterate, the mixture of all, or the clone of their average."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdcontest.arrays import Array, is_whole
from mdcontest.errors import InputError
from mdcontest.learn.iterates import Iterates, Mixture
from mdcontest.learn.learner import Learner
from mdcontest.learn.policy import Policy
from mdcontest.occupancy import decision_rule, occupancy
from mdcontest.tasks import Task


class ActingPolicy(ABC):
    """Acts on raw observations. Its draws have a stream of their own, so predicting never changes what is learned."""

    def __init__(self, task: Task, rng: np.random.Generator) -> None:
        self.task, self._rng = task, rng
        self._mixture: Mixture | None = None

    @property
    @abstractmethod
    def policy(self) -> Policy:
        """The one policy it plays, where it is no mixture."""

    @property
    @abstractmethod
    def iterates(self) -> Iterates:
        """The stored iterates a mixture draws from."""

    @property
    @abstractmethod
    def is_mixture(self) -> bool:
        """Whether each episode plays a stored iterate."""

    @property
    def mixture(self) -> Mixture:
        """The mixture of the stored iterates."""
        if self._mixture is None or self._mixture.iterates is not self.iterates:
            self._mixture = Mixture(self.iterates)
        return self._mixture

    def seed_predictions(self, seed: int) -> None:
        """Make the draws start anew from a seed."""
        if not (is_whole(seed) and seed >= 0):
            raise InputError(f"seed must be a whole number, not negative, got {seed!r}")
        self._rng = np.random.default_rng(int(seed))

    def draw_policy(self) -> tuple[Policy, np.random.Generator]:
        """What the next episode plays, and the generator of its actions; draws as `predict` would."""
        if not self.is_mixture:
            return self.policy, self._rng
        return self.mixture.policy(int(self.mixture.draw(self._rng, 1)[0])), self._rng

    def predict(
        self, obs: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, NDArray[np.int64] | None]:
        """See `Agent.predict`."""
        reader, actions = self.task.spaces
        vectors, single = reader.batch(obs)
        if not np.isfinite(vectors).all():
            raise InputError("an observation passed to predict is not finite")
        if self.is_mixture:
            state = self._draw(state, episode_start, len(vectors))
            groups = [(self.mixture.policy(int(k)), np.flatnonzero(state == k)) for k in np.unique(state)]
        else:
            groups, state = [(self.policy, np.arange(len(vectors)))], None
        chosen = np.zeros(len(vectors), np.int64) if actions.discrete else np.zeros((len(vectors), actions.size))
        for policy, rows in groups:
            x = policy.moments.normalise(vectors[rows])
            chosen[rows] = policy.act(x, None if deterministic else policy.noise(self._rng, len(rows)))
        found = actions.raw(chosen)
        return (found[0] if single else found), state

    def _draw(self, state: Any, episode_start: Any, size: int) -> NDArray[np.int64]:
        """The iterates to play: kept within an episode, drawn anew at the start of one."""
        if state is None:
            return self.mixture.draw(self._rng, size)
        kept = np.asarray(state).reshape(-1)
        whole = kept.dtype.kind in "iu" and len(kept) == size
        if not whole or (size and not 0 <= kept.min() <= kept.max() < len(self.iterates)):
            raise InputError(f"state must be what predict returned for {size} observations, got {state!r}")
        starts = np.asarray(False if episode_start is None else episode_start, bool)
        if starts.size not in (1, size):
            raise InputError(f"episode_start has {starts.size} entries for {size} observations")
        if not starts.any():
            return kept
        return np.where(starts.reshape(-1), self.mixture.draw(self._rng, size), kept)

    def decision_rule(self, task: Task | None = None) -> Array:
        """See `Agent.decision_rule`."""
        model = (task or self.task).finite_model()
        if not self.is_mixture:
            return self.policy.probabilities(model.observations)
        stored = self.iterates
        rules = (stored.policy(k).probabilities(model.observations) for k in range(len(stored)))
        return decision_rule(sum(occupancy(model.contest, rule) for rule in rules) / len(stored))


class ReturnedPolicy(ActingPolicy):
    """What an agent returns: it follows the agent as that goes on learning."""

    def __init__(self, learner: Learner, seed: int) -> None:
        super().__init__(learner.task, np.random.default_rng(np.random.SeedSequence(seed).spawn(7)[6]))
        self.learner = learner

    @property
    def is_mixture(self) -> bool:
        """Before there are iterates, it is the first policy."""
        return self.learner.settings.returned == "mixture" and len(self.learner.iterates) > 0

    @property
    def policy(self) -> Policy:
        """The last policy, or the cloned one where that is returned and ready."""
        clone = self.learner.clone if self.learner.settings.returned == "cloned" else None
        return clone or self.learner.policy

    @property
    def iterates(self) -> Iterates:
        return self.learner.iterates
