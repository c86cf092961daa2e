"""Step 4 of Algorithms 3 and 4: a policy with the average occupancy, cloned from stored outcomes (lem:omm).

Every iteration adds its rollout, raw observations and actions as drawn, so that each iterate counts the same. Cloning
starts from the last iterate and maximises (1/|B_avg|) Σ log d_θ(a|s), with observations normalised by the final
statistics.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from mdcontest.arrays import Array
from mdcontest.learn.networks import Params, log_probability
from mdcontest.learn.policy import Moments
from mdcontest.learn.rollout import Rollout
from mdcontest.learn.rows import Rows
from mdcontest.settings import Settings

FILE = "cloning.f32"
FAR = 1e6
"""Deviations from zero beyond which float32 rounds an observation by more than a twentieth of a deviation."""


class CloningBuffer(Rows):
    """Outcomes to clone from, one row each: the raw observation and the action as drawn."""

    origin: Array | None = None
    """What is subtracted from every observation before it is stored; None for all but those far from zero."""

    def add(self, rollout: Rollout, moments: Moments) -> None:
        """Append a rollout. Where its observations lie is known after the first."""
        if self.count == 0:
            self.origin = _origin(moments)
        count = rollout.reward.size
        obs = rollout.obs.reshape(count, -1)
        near = obs if self.origin is None else obs - self.origin
        self.append(np.hstack([near, rollout.action.reshape(count, -1)]))

    def observations(self, near: NDArray[np.float32]) -> NDArray[Any]:
        """Raw observations as they were, from what is stored of them."""
        return near if self.origin is None else near + self.origin

    def record(self) -> dict[str, Any]:
        return super().record() | ({} if self.origin is None else {"origin": self.origin})

    @classmethod
    def open(cls, path: Path, record: dict[str, Any]) -> Self:
        buffer = super().open(path, record)
        buffer.origin = record.get("origin")
        return buffer


def _origin(moments: Moments) -> Array | None:
    """The mean of those entries that lie far from zero for how much they vary, 0 for others; None if there are none."""
    far = np.abs(moments.mean) > FAR * np.sqrt(moments.variance + 1e-8)
    return np.where(far, moments.mean, 0.0) if far.any() else None


def clone(
    buffer: CloningBuffer, actor: Params, moments: Moments, settings: Settings, rng: np.random.Generator
) -> Params:
    """The cloned actor; only its own parameters change."""
    adam = optax.chain(
        optax.clip_by_global_norm(settings.cloning_max_grad_norm),
        optax.adam(settings.cloning_learning_rate, eps=settings.adam_epsilon),
    )

    @jax.jit
    def step(actor: Params, state: Any, x: Any, action: Any) -> tuple[Params, Any]:
        def loss(actor: Params) -> Any:
            return -log_probability(actor, x, action)[0].mean()

        direction, state = adam.update(jax.grad(loss)(actor), state)
        return optax.apply_updates(actor, direction), state

    minibatches = min(settings.cloning_minibatches, buffer.count)  # fewer where a callback ended training early
    size, inputs = buffer.count // minibatches, len(moments.mean)
    table, state = buffer.mapped(), adam.init(actor)
    for _ in range(settings.cloning_epochs):
        order = rng.permutation(buffer.count)[: size * minibatches]
        for rows in order.reshape(minibatches, size):
            part = table[np.sort(rows)]  # sorted: the order within a minibatch does not matter, the disk's does
            action = part[:, inputs].astype(np.int32) if "log_std" not in actor else part[:, inputs:]
            x = moments.normalise(buffer.observations(part[:, :inputs]))
            actor, state = step(actor, state, x, jnp.asarray(action))
    return actor
