"""Step 4 of Algorithms 3 and 4: a policy with the average occupancy, cloned from stored outcomes (lem:omm).

Every iteration adds its rollout, raw observations and actions as drawn, so that each iterate counts the same. Cloning
starts from the last iterate and maximises (1/|B_avg|) Σ log d_θ(a|s), with observations normalised by the final
statistics.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from mdcontest.learn.networks import Params, log_probability
from mdcontest.learn.policy import Moments
from mdcontest.learn.rollout import Rollout
from mdcontest.learn.rows import Rows
from mdcontest.settings import Settings

FILE = "cloning.f32"


def add_rollout(buffer: Rows, rollout: Rollout) -> None:
    """Append the rollout's observations and actions, one row an outcome."""
    count = rollout.reward.size
    buffer.append(np.hstack([rollout.obs.reshape(count, -1), rollout.action.reshape(count, -1)]))


def clone(buffer: Rows, actor: Params, moments: Moments, settings: Settings, rng: np.random.Generator) -> Params:
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
            actor, state = step(actor, state, moments.normalise(part[:, :inputs]), jnp.asarray(action))
    return actor
