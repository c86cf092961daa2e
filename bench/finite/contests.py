"""What `bench/solvers.py` solves: the models of bench/finite/models.py with margins of five kinds, at any size."""

from __future__ import annotations

from collections.abc import Callable

import models
import numpy as np
from models import Model

from mdcontest import Contest, margins
from mdcontest.errors import InputError

RANK, FEATURES, CLASSES = 8, 3, 5


def dense(model: Model, seed: int = 0) -> margins.Margin:
    """M = G − Gᵀ with normal G: no structure at all. n² numbers."""
    G = np.random.default_rng(seed).standard_normal((model.num_pairs,) * 2)
    return margins.Dense(G - G.T)


def low_rank(model: Model, seed: int = 0) -> margins.Margin:
    """M = U J Uᵀ of rank 8, U normal [n, 8], J a skew normal matrix."""
    rng = np.random.default_rng(seed)
    J = rng.standard_normal((RANK, RANK))
    return margins.LowRank(rng.standard_normal((model.num_pairs, RANK)), J - J.T)


def reward(model: Model, seed: int = 0) -> margins.Margin:
    """M(z, z') = r(z) − r(z') with the model's own reward: the Markov decision process itself."""
    return margins.RewardDifference(model.reward)


def classes(model: Model, seed: int = 0) -> margins.Margin:
    """Five classes drawn at random, each of which beats the next two: rock-paper-scissors-lizard-Spock."""
    ahead = (np.arange(CLASSES)[None, :] - np.arange(CLASSES)[:, None]) % CLASSES
    K = np.where(ahead == 0, 0.0, np.where(ahead <= CLASSES // 2, 1.0, -1.0))
    return margins.Classes(np.random.default_rng(seed).integers(CLASSES, size=model.num_pairs), K)


def signs(model: Model, seed: int = 0) -> margins.Margin:
    """The mean of three signs of differences, features normal: three voters of equal weight."""
    features = np.random.default_rng(seed).standard_normal((model.num_pairs, FEATURES))
    return margins.Signs(features, np.full(FEATURES, 1 / FEATURES))


MARGINS: dict[str, Callable[[Model, int], margins.Margin]] = {
    "dense": dense,
    "low rank": low_rank,
    "reward": reward,
    "classes": classes,
    "signs": signs,
}


def sized(name: str, pairs: int) -> Model:
    """The model of that name whose number of pairs is nearest to `pairs`."""
    if name == "garnet":
        return models.garnet(max(5, round(pairs / 4)))
    if name == "grid":
        return models.grid(max(2, round((pairs / 5) ** 0.5)))
    if name == "queue":
        return models.queue(max(1, round(pairs / 4) - 1))
    if name == "routing":
        return models.routing(max(1, round((pairs / 3) ** 0.5) - 1))
    if name == "inventory":
        return models.inventory(max(1, round(pairs / 4) - 1))
    raise InputError(f"no model is called {name!r}; there are garnet, grid, queue, routing and inventory")


def make(model: str, margin: str, pairs: int, seed: int = 0) -> Contest:
    """The contest of a case; the seed is that of the margin."""
    if margin not in MARGINS:
        raise InputError(f"no margin is called {margin!r}; there are {', '.join(MARGINS)}")
    chain = sized(model, pairs)
    return chain.contest(MARGINS[margin](chain, seed))
