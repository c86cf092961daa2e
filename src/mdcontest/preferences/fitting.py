"""Fitting one model of a margin to comparisons: P(first ≻ second) = (1 − ε) σ(M) + ε/2, by maximum likelihood.

ε is the share of labels taken for noise, 10 % after Christiano et al. 2017: without it one wrong label about a clear
pair would count for more than a hundred right ones. ⊥ is a priori like an average outcome, give or take one in each of
its features: a single answer about it would otherwise say whether living is good.
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
from mdcontest.preferences.batches import Side, Table, points, segment_means
from mdcontest.preferences.comparisons import Segments
from mdcontest.preferences.networks import Params, between_inputs, between_means, network

CHUNK = 25
"""Updates in one compiled call, at most."""
FEW = 8
"""Steps of a segment beyond which an update looks at fewer comparisons instead of more steps."""
CHUNK_NUMBERS = 1 << 26
"""Inputs that one compiled call is given, at most."""
LEARNING_RATE = 3e-3


def logit(model: str, params: Params, first: Side, second: Side, xp: Any) -> Any:
    """M of two batches of segments, shape [B]: the mean over their cross pairs.

    For `general` step i of one side meets step i of the other, and both have as many.
    """
    if model == "general":
        x, y = (xp.where((side.ended > 0)[..., None], params["ended"], side.x) for side in (first, second))
        return ((first.weight + first.ended) * between_inputs(params, x, y, xp)).sum(-1)
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
    knows_ended: bool,
    penalty: float,
    noise: float,
    updates: int,
    batch_size: int,
    rng: np.random.Generator,
    report: Callable[[int], None] | None = None,
) -> Params:
    """Parameters after `updates` steps of Adam with an annealed learning rate; ‖weights‖² costs `penalty`/2.

    `knows_ended` says whether comparisons are about ⊥, be it none of this table.
    """
    size = min(max(1, batch_size * FEW // max(FEW, table.shown)), len(table))
    most = min(CHUNK, max(1, CHUNK_NUMBERS // (2 * size * table.shown * table.inputs.shape[1])))
    run = _compiled(model, knows_ended)
    state = _optimiser().init(params)
    for begin in range(0, updates, most):
        stop_if_asked()
        count = min(most, updates - begin)
        which = rng.integers(0, len(table), (count, size))
        rates = LEARNING_RATE * (1 - (begin + np.arange(count)) / updates)
        costs = (penalty, noise, 1 / len(table))
        with jax.default_device(jax.devices("cpu")[0]):
            params, state = run(params, state, table.batch(which, rng), rates.astype(np.float32), costs)
        if report is not None:
            report(count)
    found: Params = jax.device_get(params)
    if not all(np.isfinite(value).all() for value in found.values()):
        raise RunError("fitting the margin diverged: its parameters are no longer finite")
    return found


def _optimiser() -> Any:
    return optax.inject_hyperparams(optax.adam)(learning_rate=LEARNING_RATE)


@functools.cache
def _compiled(model: str, knows_ended: bool) -> Any:
    optimiser = _optimiser()

    def loss(params: Params, batch: Any, costs: Any) -> Any:
        (first, second, target), (penalty, noise, prior) = batch, costs
        fit_term = -log_likelihood(logit(model, params, first, second, jnp), target, noise, jnp).mean()
        weights = sum((value**2).sum() for name, value in params.items() if name[0] in "wW")
        cost = fit_term + penalty / 2 * weights
        if knows_ended:
            cost += prior / 2 * ((params["ended"] - _average(model, params, first, second)) ** 2).sum()
        return cost

    def update(carry: Any, item: Any) -> Any:
        params, state, costs = carry
        batch, rate = item
        gradient = jax.grad(loss)(params, batch, costs)
        state.hyperparams["learning_rate"] = rate
        change, state = optimiser.update(gradient, state, params)
        return (optax.apply_updates(params, change), state, costs), None

    def run(params: Params, state: Any, batches: Any, rates: Any, costs: Any) -> Any:
        (params, state, _), _ = jax.lax.scan(update, (params, state, costs), (batches, rates))
        return params, state

    return jax.jit(run)


def _average(model: str, params: Params, first: Side, second: Side) -> Any:
    """What ⊥ is a priori: the mean of h over the steps at hand; for `general`, whose inputs are standardised, 0."""
    if model == "general":
        return 0.0
    total = sum((side.weight[..., None] * network(params, side.x, jnp)).sum((0, 1)) for side in (first, second))
    return jax.lax.stop_gradient(total / (first.weight.sum() + second.weight.sum() + 1e-6))


def margins_of(model: str, params: Params, table: Table, knows_ended: bool, block: int = 16384) -> Array:
    """M of every comparison of a table, shape [n], without JAX: of whole segments, or of some of their cross pairs.

    ⊥ that no comparison has shown is as good as anything, M(z, ⊥) = 0, and of rewards an average one.
    """
    if model == "general":
        step = max(1, block // table.crossed)
        starts = range(0, len(table), step)
        parts = [_over_points(params, table, slice(begin, begin + step), knows_ended) for begin in starts]
        return np.concatenate(parts)
    inputs, first, second = table.compact()
    h = [network(params, inputs[rows : rows + block], np) for rows in range(0, max(len(inputs), 1), block)]
    ended = params["ended"] if knows_ended else np.zeros_like(params["ended"])
    means = [segment_means(side, np.concatenate(h), ended) for side in (first, second)]
    found = np.asarray(between_means(params, *means), float)
    if knows_ended or model == "reward":
        return found
    # With h(⊥) = 0 a step z that meets ⊥ still has M = r(z): that much is taken away again.
    meets = [side.ended / side.steps for side in (second, first)]
    return found - meets[0] * means[0][:, 0] + meets[1] * means[1][:, 0]


def _over_points(params: Params, table: Table, which: slice, knows_ended: bool) -> Array:
    """Σ u·v·M(z, z') over the points that stand for two segments: the general model's margins of some comparisons."""
    (x, u), (y, v) = (_at_points(params, table, side[which], knows_ended) for side in (table.first, table.second))
    shape = (*x.shape[:2], *y.shape[1:])
    M = between_inputs(params, np.broadcast_to(x[:, :, None], shape), np.broadcast_to(y[:, None], shape), np)
    return np.einsum("np,npq,nq->n", u, M, v)


def _at_points(params: Params, table: Table, side: Segments, knows_ended: bool) -> tuple[Array, Array]:
    """Inputs [n, k, D] and weights [n, k] of the points of segments."""
    rows, weight = points(side)
    x = np.where((rows == -1)[..., None], params["ended"], table.inputs[np.maximum(rows, 0)])
    return x, weight if knows_ended else np.where(rows == -1, 0.0, weight)
