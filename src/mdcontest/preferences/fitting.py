"""Fitting one model of a margin to comparisons: P(first ≻ second) = (1 − ε) σ(M) + ε/2, by maximum likelihood.

ε is the share of labels taken for noise, 10 % after Christiano et al. 2017: without it one wrong label about a clear
pair would count for more than a hundred right ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from mdcontest.arrays import Array
from mdcontest.errors import RunError
from mdcontest.interrupts import stop_if_asked
from mdcontest.preferences.batches import Side, Table, segment_means
from mdcontest.preferences.networks import Params, between_inputs, between_means, network

CHUNK = 25
"""Updates in one compiled call."""
LEARNING_RATE = 3e-3


def logit(model: str, params: Params, first: Side, second: Side, xp: Any) -> Any:
    """M of two batches of segments, shape [B]: the mean over their cross pairs, or for `general` over drawn ones."""
    if model == "general":
        x, y = (xp.where((side.ended > 0)[..., None], params["ended"], side.x) for side in (first, second))
        return between_inputs(params, x, y, xp).mean(-1)
    return between_means(params, *(segment_features(params, side, xp) for side in (first, second)))


def segment_features(params: Params, side: Side, xp: Any) -> Any:
    """The mean of h over the steps of each segment, ⊥ included, shape [B, outputs]."""
    h = network(params, side.x, xp)
    return (side.weight[..., None] * h).sum(-2) + side.ended.sum(-1, keepdims=True) * params["ended"]


def choice_probability(margin: Any, noise: float, xp: Any) -> Any:
    """P(first ≻ second) with a share of labels that are chance."""
    return noise / 2 + (1 - noise) / (1 + xp.exp(-xp.clip(margin, -30, 30)))


def log_likelihood(margin: Any, target: Any, noise: float, xp: Any) -> Any:
    """y ln P + (1 − y) ln(1 − P), one a comparison."""
    p = xp.clip(choice_probability(margin, noise, xp), 1e-7, 1 - 1e-7)
    return target * xp.log(p) + (1 - target) * xp.log(1 - p)


def fit(
    model: str,
    params: Params,
    table: Table,
    *,
    penalty: float,
    noise: float,
    updates: int,
    batch_size: int,
    rng: np.random.Generator,
    report: Callable[[int], None] | None = None,
) -> Params:
    """Parameters after `updates` steps of Adam with an annealed learning rate; ‖weights‖² costs `penalty`/2."""
    chunks = -(-updates // CHUNK)
    run = _compiled(model)
    state = _optimiser().init(params)
    for chunk in range(chunks):
        stop_if_asked()
        which = rng.integers(0, len(table), (CHUNK, min(batch_size, len(table))))
        rates = LEARNING_RATE * (1 - (chunk * CHUNK + np.arange(CHUNK)) / (chunks * CHUNK))
        with jax.default_device(jax.devices("cpu")[0]):
            params, state = run(params, state, table.batch(which, rng), rates.astype(np.float32), penalty, noise)
        if report is not None:
            report(CHUNK)
    found: Params = jax.device_get(params)
    if not all(np.isfinite(value).all() for value in found.values()):
        raise RunError("fitting the margin diverged: its parameters are no longer finite")
    return found


def _optimiser() -> Any:
    return optax.inject_hyperparams(optax.adam)(learning_rate=LEARNING_RATE)


@functools.cache
def _compiled(model: str) -> Any:
    optimiser = _optimiser()

    def loss(params: Params, batch: Any, penalty: Any, noise: Any) -> Any:
        first, second, target = batch
        fit_term = -log_likelihood(logit(model, params, first, second, jnp), target, noise, jnp).mean()
        weights = sum((value**2).sum() for name, value in params.items() if name[0] in "wW")
        return fit_term + penalty / 2 * weights

    def update(carry: Any, item: Any) -> Any:
        params, state, penalty, noise = carry
        batch, rate = item
        gradient = jax.grad(loss)(params, batch, penalty, noise)
        state.hyperparams["learning_rate"] = rate
        change, state = optimiser.update(gradient, state, params)
        return (optax.apply_updates(params, change), state, penalty, noise), None

    def run(params: Params, state: Any, batches: Any, rates: Any, penalty: Any, noise: Any) -> Any:
        (params, state, _, _), _ = jax.lax.scan(update, (params, state, penalty, noise), (batches, rates))
        return params, state

    return jax.jit(run)


def margins_of(model: str, params: Params, table: Table, block: int = 16384) -> Array:
    """M of every comparison of a table, shape [n], without JAX: of whole segments, or of drawn cross pairs."""
    if model == "general":
        rng, found = np.random.default_rng(0), []  # the same cross pairs every time
        for begin in range(0, len(table), block):
            one, other = table.rows(np.arange(begin, min(begin + block, len(table))), rng)
            found.append(logit(model, params, table.side(one), table.side(other), np))
        return np.concatenate(found).astype(float)
    inputs, first, second = table.compact()
    h = [network(params, inputs[rows : rows + block], np) for rows in range(0, max(len(inputs), 1), block)]
    means = (segment_means(side, np.concatenate(h), params["ended"]) for side in (first, second))
    return np.asarray(between_means(params, *means), float)
