"""Contests that are hard on a solver's numerics, each a function of a seed."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import mdcontest as mdc
from random_contests import random_contest, random_margin, random_transitions


def scaled(factor: float):
    """M times a factor, however large or small."""

    def make(seed: int) -> mdc.Contest:
        rng = np.random.default_rng(seed)
        M = rng.normal(size=(24, 24))
        return mdc.Contest(random_transitions(rng, 8, 3, "dense"), np.eye(8)[0], factor * (M - M.T))

    return make


def scaled_low_rank(factor: float):
    def make(seed: int) -> mdc.Contest:
        rng = np.random.default_rng(seed)
        U, J = rng.normal(size=(240, 4)), rng.normal(size=(4, 4))
        P = random_transitions(rng, 60, 4, "garnet")
        return mdc.Contest(P, np.full(60, 1 / 60), mdc.margins.LowRank(U, factor * (J - J.T))).with_restart(0.01)

    return make


def almost_zero(seed: int) -> mdc.Contest:
    """Features and J that cancel: φᵀJφ' is nothing but rounding."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(60, 1))
    return mdc.Contest(
        random_transitions(rng, 20, 3, "dense"),
        np.eye(20)[0],
        mdc.margins.LowRank(np.hstack([u, 3 * u]), [[0, 1], [-1, 0]]),
    )


def zero(seed: int) -> mdc.Contest:
    return mdc.Contest(random_transitions(np.random.default_rng(seed), 5, 2, "dense"), np.eye(5)[0], np.zeros((10, 10)))


def duplicate_actions(seed: int) -> mdc.Contest:
    """Every action three times, in transitions and margin."""
    rng = np.random.default_rng(seed)
    P = random_transitions(rng, 12, 2, "restart")
    M = rng.normal(size=(24, 24))
    pairs = np.arange(24).reshape(12, 2)[:, [0, 1, 0, 1, 0, 1]].reshape(-1)
    return mdc.Contest(P[:, [0, 1, 0, 1, 0, 1]], np.full(12, 1 / 12), mdc.margins.Dense(M - M.T, pairs)).with_restart(
        0.05
    )


def rare_restart(seed: int) -> mdc.Contest:
    """Two halves that only a restart of 1e-6 connects."""
    rng = np.random.default_rng(seed)
    blocks = [random_transitions(rng, 10, 3, "dense") for _ in range(2)]
    P = np.zeros((20, 3, 20))
    P[:10, :, :10], P[10:, :, 10:] = blocks
    margin = random_margin(rng, 20, 3, "low rank")
    return mdc.Contest(sp.csr_array(P.reshape(60, 20)), np.full(20, 1 / 20), margin).with_restart(1e-6)


def one_action(seed: int) -> mdc.Contest:
    return random_contest(seed, states=15, actions=1, shape="dense", margin="dense")


def one_state(seed: int) -> mdc.Contest:
    M = np.random.default_rng(seed).normal(size=(9, 9))
    return mdc.Contest(np.ones((1, 9, 1)), [1.0], M - M.T)


def one_pair(seed: int) -> mdc.Contest:
    return mdc.Contest(np.ones((1, 1, 1)), [1.0], [[0.0]])


def dominant_policy(seed: int) -> mdc.Contest:
    """Action 0 beats all others everywhere, by much."""
    rng = np.random.default_rng(seed)
    labels = np.ones((20, 4), int)
    labels[:, 0] = 0
    return mdc.Contest(
        random_transitions(rng, 20, 4, "dense"), np.eye(20)[0], mdc.margins.Classes(labels, [[0, 5], [-5, 0]])
    )


def many_solutions(seed: int) -> mdc.Contest:
    """A reward that is the same in all but one state: almost every policy is as good as any."""
    rng = np.random.default_rng(seed)
    reward = np.zeros((25, 4))
    reward[0, 0] = 1
    return mdc.Contest.from_mdp(random_transitions(rng, 25, 4, "lazy"), np.eye(25)[0], reward)


def nearly_periodic(seed: int) -> mdc.Contest:
    """A cycle of 12 states that pauses with probability 1e-9, a few ways to go on at each."""
    rng = np.random.default_rng(seed)
    P = np.zeros((12, 3, 12))
    for s in range(12):
        P[s, :, (s + 1) % 12] = 1 - 1e-9
        P[s, :, s] = 1e-9
    return mdc.Contest(P, np.eye(12)[0], random_margin(rng, 12, 3, "dense"))


def horizon(seed: int) -> mdc.Contest:
    """Exactly periodic, with neither restart nor common part."""
    return random_contest(seed, states=6, actions=3, shape="dense", margin="low rank").finite_horizon(7)


def sparse_horizon(seed: int) -> mdc.Contest:
    rng = np.random.default_rng(seed)
    P = random_transitions(rng, 40, 3, "garnet")
    return mdc.Contest(P, np.full(40, 1 / 40), random_margin(rng, 40, 3, "classes")).finite_horizon(12)


def horizon_with_restart(seed: int) -> mdc.Contest:
    """Restarts that differ from pair to pair."""
    rng = np.random.default_rng(seed)
    P = random_transitions(rng, 20, 3, "garnet")
    base = mdc.Contest(P, np.full(20, 1 / 20), random_margin(rng, 20, 3, "low rank"))
    return base.finite_horizon(6).with_restart(1e-3)


def two_cycles(seed: int) -> mdc.Contest:
    """A line on which every action moves: policies that go to and fro between two states, restart 1e-5."""
    rng = np.random.default_rng(seed)
    S = 200
    s = np.arange(S)
    rows, columns = np.concatenate([2 * s, 2 * s + 1]), np.concatenate([np.maximum(s - 1, 0), np.minimum(s + 1, S - 1)])
    P = sp.csr_array((np.ones(2 * S), (rows, columns)), shape=(2 * S, S))
    margin = mdc.margins.LowRank(rng.normal(size=(2 * S, 4)), np.kron(np.eye(2), [[0, 1], [-1, 0]]))
    return mdc.Contest(P, np.full(S, 1 / S), margin).with_restart(1e-5)


HOSTILE = {
    "times 1e8": scaled(1e8),
    "times 1e-8": scaled(1e-8),
    "times 1e-300": scaled(1e-300),
    "low rank times 1e8": scaled_low_rank(1e8),
    "low rank times 1e-8": scaled_low_rank(1e-8),
    "almost zero": almost_zero,
    "zero": zero,
    "duplicate actions": duplicate_actions,
    "restart 1e-6": rare_restart,
    "one action": one_action,
    "one state": one_state,
    "one pair": one_pair,
    "dominant policy": dominant_policy,
    "many solutions": many_solutions,
    "nearly periodic": nearly_periodic,
    "finite horizon": horizon,
    "sparse finite horizon": sparse_horizon,
    "finite horizon with restart": horizon_with_restart,
    "to and fro": two_cycles,
}
