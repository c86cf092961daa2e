"""The policy and the critic as JAX functions of a plain tree of arrays, and the two action distributions.

Both networks are tanh layers (64 and 64 unless told), orthogonal with gain √2, the policy's last layer with 0.01 and
the critic's with 1. Box actions are normal with a free log-deviation each, Discrete ones categorical.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

Params = dict[str, Any]
HALF_LOG_TAU = 0.5 * float(np.log(2 * np.pi))


def initial_params(inputs: int, actions: int, hidden: tuple[int, ...], discrete: bool, seed: Any) -> Params:
    """{"actor": {"w0", "b0", …}, "critic": {…}}, float32; "log_std" is part of a continuous actor."""
    rng = np.random.default_rng(seed)
    actor = _layers([inputs, *hidden, actions], last_gain=0.01, rng=rng)
    critic = _layers([inputs, *hidden, 1], last_gain=1.0, rng=rng)
    if not discrete:
        actor["log_std"] = np.zeros(actions, np.float32)
    return {"actor": actor, "critic": critic}


def _layers(sizes: list[int], last_gain: float, rng: np.random.Generator) -> Params:
    layers: Params = {}
    for i, (rows, columns) in enumerate(itertools.pairwise(sizes)):
        gain = last_gain if i == len(sizes) - 2 else np.sqrt(2)
        # In C's order, as files hold them: products of a transposed array round differently.
        layers[f"w{i}"] = np.ascontiguousarray(gain * _orthogonal(rows, columns, rng), np.float32)
        layers[f"b{i}"] = np.zeros(columns, np.float32)
    return layers


def _orthogonal(rows: int, columns: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Orthonormal rows or columns, whichever are fewer, drawn uniformly."""
    square = rng.standard_normal((max(rows, columns), min(rows, columns)))
    basis, triangle = np.linalg.qr(square)
    basis = basis * np.sign(np.diag(triangle))
    return basis if rows >= columns else basis.T


def depth(layers: Params) -> int:
    """Number of layers."""
    return sum(name.startswith("w") for name in layers)


def apply_layers(layers: Params, x: Any) -> Any:
    """The network's output, shape [..., columns of the last layer]."""
    last = depth(layers) - 1
    for i in range(last):
        x = jnp.tanh(x @ layers[f"w{i}"] + layers[f"b{i}"])
    return x @ layers[f"w{last}"] + layers[f"b{last}"]


def state_values(params: Params, x: Any) -> Any:
    """V(s), shape [...]."""
    return apply_layers(params["critic"], x)[..., 0]


def log_probability(actor: Params, x: Any, action: Any) -> tuple[Any, Any]:
    """log d_θ(a|s) and the entropy of d_θ(·|s), both of shape [...]."""
    out = apply_layers(actor, x)
    if "log_std" not in actor:
        logits = jax.nn.log_softmax(out)
        chosen = jnp.take_along_axis(logits, action[..., None], axis=-1)[..., 0]
        return chosen, -(jnp.exp(logits) * logits).sum(-1)
    log_std = actor["log_std"]
    density = -0.5 * jnp.square((action - out) * jnp.exp(-log_std)) - log_std - HALF_LOG_TAU
    return density.sum(-1), jnp.broadcast_to((log_std + 0.5 + HALF_LOG_TAU).sum(), density.shape[:-1])
