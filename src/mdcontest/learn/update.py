"""Lines 9 to 13 of Algorithms 3 and 4 as one jitted call: advantages, then epochs of minibatches in a single scan."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from mdcontest.learn import surrogates
from mdcontest.learn.advantages import generalised_advantages, normalised
from mdcontest.learn.networks import Params, log_probability, state_values
from mdcontest.settings import Settings


class Batch(NamedTuple):
    """What one update learns from; all [T, N, …]."""

    x: Any
    next_x: Any
    action: Any
    cumulant: Any
    ended: Any
    """The last step of an episode."""
    worthless: Any
    """Steps after which nothing counts any more: the next state's value is taken as 0."""


class Averages(NamedTuple):
    """Running means of the average critic: of the cumulant (ρ) and of the value, and over how many batches."""

    cumulant: Any
    value: Any
    batches: Any = float("inf")


class Diagnostics(NamedTuple):
    """Means over the update, for logs."""

    policy_loss: Any
    value_loss: Any
    entropy: Any
    approx_kl: Any
    clip_fraction: Any
    explained_variance: Any


def optimiser(settings: Settings) -> optax.GradientTransformation:
    """Adam on clipped gradients; the learning rate is applied outside, since it changes every iteration."""
    return optax.chain(
        optax.clip_by_global_norm(settings.max_grad_norm), optax.scale_by_adam(eps=settings.adam_epsilon)
    )


def initial_optimiser_state(settings: Settings, params: Params) -> Any:
    """Adam's state for the parameters as one vector."""
    return optimiser(settings).init(ravel_pytree(params)[0])


def permutations(settings: Settings, rng: np.random.Generator) -> NDArray[np.int32]:
    """Which outcomes each minibatch holds, [epochs × minibatches, minibatch size]."""
    orders = [rng.permutation(settings.batch_size) for _ in range(settings.epochs)]
    return np.concatenate(orders).astype(np.int32).reshape(-1, settings.minibatch_size)


@functools.lru_cache(maxsize=64)
def make_update(settings: Settings, surrogate: str) -> Callable[..., Any]:
    """The jitted update for these settings; agents with the same settings share it."""
    objective = _objective(settings, surrogate)
    adam = optimiser(settings)

    def loss(params: Params, part: Any) -> tuple[Any, Any]:
        x, action, old_log_probability, advantage, old_value, target = part
        if settings.normalise_advantages:
            advantage = normalised(advantage)
        log_prob, entropy = log_probability(params["actor"], x, action)
        log_ratio = log_prob - old_log_probability
        policy_loss = -objective(log_ratio, advantage).mean()
        value_loss = _value_loss(state_values(params, x), old_value, target, settings)
        ratio = jnp.exp(log_ratio)
        seen = (
            policy_loss,
            value_loss,
            entropy.mean(),
            (ratio - 1 - log_ratio).mean(),
            (jnp.abs(ratio - 1) > settings.clip).mean(),
        )
        return policy_loss - settings.entropy * entropy.mean() + settings.value_coefficient * value_loss, seen

    @jax.jit
    def update(
        params: Params, state: Any, averages: Averages, batch: Batch, orders: Any, learning_rate: Any
    ) -> tuple[Params, Any, Averages, Diagnostics]:
        # 2. Evaluate (approximately)
        value = state_values(params, batch.x)
        advantage, target, averages = _evaluate(params, value, batch, averages, settings)
        # 3. Update decision rule
        old_log_probability, _ = log_probability(params["actor"], batch.x, batch.action)
        columns = (batch.x, batch.action, old_log_probability, advantage, value, target)
        table = tuple(column.reshape(settings.batch_size, *column.shape[2:]) for column in columns)
        vector, as_params = ravel_pytree(params)  # Adam on one vector is faster than on a dozen small arrays

        def step(carry: Any, rows: Any) -> tuple[Any, Any]:
            vector, state = carry
            part = tuple(column[rows] for column in table)
            gradient, seen = jax.grad(lambda v: loss(as_params(v), part), has_aux=True)(vector)
            direction, state = adam.update(gradient, state)
            return (vector - learning_rate * direction, state), seen

        (vector, state), seen = jax.lax.scan(step, (vector, state), orders)
        explained = 1 - jnp.var(target - value) / jnp.maximum(jnp.var(target), 1e-12)
        return as_params(vector), state, averages, Diagnostics(*[entry.mean() for entry in (*seen, explained)])

    return update


def _objective(settings: Settings, surrogate: str) -> Callable[[Any, Any], Any]:
    if surrogate == "clip":
        return lambda log_ratio, advantage: surrogates.clipped(log_ratio, advantage, settings.clip)
    hedge = surrogates.hedge_corrected if settings.hedge == "corrected" else surrogates.hedge_printed
    return lambda log_ratio, advantage: hedge(log_ratio, advantage, settings.eta)


def _evaluate(
    params: Params, value: Any, batch: Batch, averages: Averages, settings: Settings
) -> tuple[Any, Any, Averages]:
    """Advantages, targets of the critic and the running means, for the discounted or the average critic."""
    next_value = state_values(params, batch.next_x)
    if settings.critic == "discounted":
        next_value = jnp.where(batch.worthless, 0.0, next_value)
        found = generalised_advantages(
            batch.cumulant, value, next_value, batch.ended, settings.gamma, settings.gae_lambda
        )
        return *found, averages
    # δ = c − ρ + V' − V, and values pulled towards mean 0, which the differences leave free.
    rate = jnp.maximum(settings.average_rate, 1 / (averages.batches + 1))  # plain means of the first few batches
    averages = Averages(
        averages.cumulant + rate * (batch.cumulant.mean() - averages.cumulant),
        averages.value + rate * (value.mean() - averages.value),
        averages.batches + 1,
    )
    advantage, target = generalised_advantages(
        batch.cumulant - averages.cumulant, value, next_value, batch.ended, 1.0, settings.gae_lambda
    )
    return advantage, target - settings.average_pull * averages.value, averages


def _value_loss(value: Any, old_value: Any, target: Any, settings: Settings) -> Any:
    """½ E[(V − target)²], the larger of the plain and the clipped error where that is asked for."""
    error = jnp.square(value - target)
    if settings.clip_value_loss:
        kept = old_value + jnp.clip(value - old_value, -settings.clip, settings.clip)
        error = jnp.maximum(error, jnp.square(kept - target))
    return 0.5 * error.mean()
