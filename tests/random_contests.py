"""Random contests of many shapes, from a seed: dense and sparse, periodic, with transient states, with every margin."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import mdcontest as mdc

SHAPES = ("dense", "garnet", "periodic", "transient", "restart", "lazy")
MARGINS = (
    "dense",
    "low rank",
    "reward",
    "classes",
    "signs",
    "circular",
    "two of three",
    "voters",
    "preference",
    "function",
)


def random_contest(
    seed: int,
    *,
    states: int | None = None,
    actions: int | None = None,
    shape: str | None = None,
    margin: str | None = None,
    max_policies: int | None = None,
) -> mdc.Contest:
    """A unichain contest; what is not given is drawn."""
    rng = np.random.default_rng(seed)
    A = int(rng.integers(2, 7)) if actions is None else actions
    most = 30 if max_policies is None else max(2, int(np.log(max_policies) / np.log(max(A, 2)) + 1e-9))
    S = int(rng.integers(2, most + 1)) if states is None else states
    shape = SHAPES[rng.integers(len(SHAPES))] if shape is None else shape
    margin = MARGINS[rng.integers(len(MARGINS))] if margin is None else margin
    P = random_transitions(rng, S, A, shape)
    start = rng.dirichlet(np.ones(S))
    contest = mdc.Contest(P, start, random_margin(rng, S, A, margin), name=f"{shape}, {margin}, seed {seed}")
    return contest.with_restart(0.1) if shape in ("garnet", "restart") else contest


def random_transitions(rng: np.random.Generator, S: int, A: int, shape: str):
    P = np.zeros((S, A, S))
    if shape == "dense":
        return rng.dirichlet(np.full(S, 0.5), size=(S, A))
    if shape in ("garnet", "restart"):
        for s, a in np.ndindex(S, A):
            later = rng.choice(S, size=min(S, 3), replace=False)
            P[s, a, later] = rng.dirichlet(np.ones(len(later)))
        return sp.csr_array(P.reshape(S * A, S)) if shape == "garnet" else P
    if shape == "periodic":  # two groups of states, always from one to the other
        half = max(1, S // 2)
        for s, a in np.ndindex(S, A):
            later = np.arange(half, S) if s < half else np.arange(half)
            P[s, a, later] = rng.dirichlet(np.ones(len(later)))
        return P
    if shape == "transient":  # the first third is left for good
        core = np.arange(S // 3, S)
        for s, a in np.ndindex(S, A):
            later = core if s >= S // 3 else np.arange(s + 1, S)
            P[s, a, later] = rng.dirichlet(np.ones(len(later)))
        return P
    assert shape == "lazy"  # may stay where it is, returns to state 0 now and then
    P = 0.5 * rng.dirichlet(np.full(S, 0.3), size=(S, A))
    P[:, :, 0] += 0.1
    P[np.arange(S), :, np.arange(S)] += 0.4
    return P


def random_margin(rng: np.random.Generator, S: int, A: int, kind: str):
    n = S * A
    if kind == "dense":
        M = rng.normal(size=(n, n))
        return M - M.T
    if kind == "low rank":
        J = rng.normal(size=(4, 4))
        return mdc.margins.LowRank(rng.normal(size=(S, A, 4)), J - J.T)
    if kind == "reward":
        return mdc.margins.RewardDifference(rng.normal(size=(S, A)))
    if kind == "classes":
        K = rng.normal(size=(3, 3))
        return mdc.margins.Classes(rng.integers(3, size=(S, A)), K - K.T)
    if kind == "signs":
        return mdc.margins.Signs(rng.integers(6, size=(n, 3)), rng.normal(size=3))
    if kind == "circular":
        features = np.stack([rng.normal(size=n), rng.uniform(-9, 9, size=n)], axis=1)
        return mdc.margins.Signs(features, [0.3, 0.7], period=[None, 2 * np.pi])
    if kind == "two of three":
        return mdc.margins.BestTwoOfThree(rng.integers(5, size=(n, 3)))
    if kind == "voters":
        return mdc.margins.Aggregated(rng.normal(size=(n, 5)), rng.uniform(size=5))
    score = rng.normal(size=n)
    if kind == "preference":
        return mdc.margins.FromPreference(1 / (1 + np.exp(score[None, :] - score[:, None])))
    assert kind == "function"
    return mdc.margins.Pairwise(lambda z, w: np.tanh(z - w) + 0.5 * np.sin(z - w), score)


def random_rule(rng: np.random.Generator, contest: mdc.Contest, concentration: float = 1.0) -> np.ndarray:
    return rng.dirichlet(np.full(contest.num_actions, concentration), size=contest.num_states)
