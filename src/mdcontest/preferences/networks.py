"""The three models of a margin, each skew by construction, with one logit M(z, z') a pair.

    reward    M = r(z) − r(z')                                     Bradley–Terry; it cannot be cyclic
    skew      M = r(z) − r(z') + φ(z)ᵀ(W − Wᵀ)φ(z')                reward plus what no reward explains
    general   M = f(z, z') − f(z', z)                              any skew function; costs a network pass a pair

The first two see an outcome once, as h(z) = (r, φ)(z), and a segment as the mean of h over its steps, so the mean of M
over all cross pairs of two segments, or over a whole batch of opponents, is M of the means. ⊥, the outcome after an
episode has ended, has a learned h of its own (general: a learned input).

Every function here takes NumPy or JAX arrays alike: fitting differentiates what acting evaluates.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

MODELS = ("skew", "reward", "general")
HIDDEN = (64, 64)
RANK = 16
"""Dimensions of φ."""

Params = dict[str, Any]


def shapes(model: str, inputs: int, hidden: tuple[int, ...], rank: int) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter."""
    outputs = {"reward": 1, "skew": 1 + rank, "general": 1}[model]
    sizes = [inputs * (2 if model == "general" else 1), *hidden, outputs]
    found: dict[str, tuple[int, ...]] = {}
    for i, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
        found |= {f"w{i}": (fan_in, fan_out), f"b{i}": (fan_out,)}
    found["ended"] = (inputs if model == "general" else outputs,)
    return found | ({"W": (rank, rank)} if model == "skew" else {})


def init(rng: np.random.Generator, model: str, inputs: int, hidden: tuple[int, ...], rank: int) -> Params:
    """Fresh parameters, float32."""
    params: Params = {}
    for name, shape in shapes(model, inputs, hidden, rank).items():
        if name[0] not in "wW":
            params[name] = np.zeros(shape, np.float32)
            continue
        gain = 0.5 if name == f"w{len(hidden)}" else 1.0
        scale = 1 / rank if name == "W" else gain / np.sqrt(shape[0])
        params[name] = rng.normal(0, scale, shape).astype(np.float32)
    return params


def layers(params: Params) -> int:
    """How many linear maps the network has."""
    return sum(name[0] == "w" and name[1:].isdigit() for name in params)


def network(params: Params, x: Any, xp: Any) -> Any:
    """The multilayer perceptron, [..., inputs] → [..., outputs]."""
    last = layers(params) - 1
    # Some BLAS kernels compute on memory beyond small matrices, and NumPy then warns although the product is right.
    with np.errstate(invalid="ignore", over="ignore"):
        for i in range(last + 1):
            x = x @ params[f"w{i}"] + params[f"b{i}"]
            x = x if i == last else xp.tanh(x)
    return x


def skew_matrix(params: Params) -> Any:
    """J = W − Wᵀ."""
    return params["W"] - params["W"].T


def between_means(params: Params, h: Any, g: Any) -> Any:
    """M of two equally long batches of (mean) features h, g [B, 1 + rank], elementwise, shape [B]."""
    difference = h[..., 0] - g[..., 0]
    if "W" not in params:
        return difference
    return difference + ((h[..., 1:] @ skew_matrix(params)) * g[..., 1:]).sum(-1)


def between_inputs(params: Params, x: Any, y: Any, xp: Any) -> Any:
    """The general model: f(z, z') − f(z', z), elementwise over two batches of inputs."""
    forth = network(params, xp.concatenate([x, y], axis=-1), xp)
    back = network(params, xp.concatenate([y, x], axis=-1), xp)
    return (forth - back)[..., 0]
