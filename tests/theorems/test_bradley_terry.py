"""The Bradley–Terry remark (app. BT): P_BT − ½ has other optima than the reward, the logit has the same."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from strategies import seeds


def sigmoid(u):
    return 1 / (1 + np.exp(-u))


def test_the_optimum_under_bradley_terry_is_not_the_rewards():
    """A worked counterexample: one state with a safe action, or a gamble.

    "safe" leads to outcome s with r = 1. "gamble" leads to g with r = 10 (probability 0.2) or to b with r = −1
    (0.8). Mean rewards are 1 and 0.2·10 − 0.8·1 = 1.2, so the reward prefers to gamble. Under P_BT − ½ the safe
    outcome is compared with the gamble's: 0.2·(σ(1 − 10) − ½) + 0.8·(σ(1 + 1) − ½) = 0.2·(−0.4999) + 0.8·0.3808 =
    +0.2047 > 0, so every comparison prefers to be safe: a small chance of a huge reward is worth no more than a
    win.
    """
    # States: 0 choose, 1 safe outcome, 2 good outcome, 3 bad outcome; outcomes return to 0.
    P = np.zeros((4, 2, 4))
    P[0, 0, 1] = 1
    P[0, 1, 2], P[0, 1, 3] = 0.2, 0.8
    P[1:, :, 0] = 1
    reward = np.array([0.0, 1.0, 10.0, -1.0])
    choose, start = (0, slice(None)), np.eye(4)[0]

    by_reward = mdc.solve(mdc.Contest.from_mdp(P, start, np.repeat(reward, 2).reshape(4, 2)))
    np.testing.assert_allclose(by_reward.rule[choose], [0, 1], atol=1e-9)

    # All four states are outcomes; half of all time is spent in state 0, whose comparisons are the same for both.
    r = np.repeat(reward, 2)
    bradley_terry = mdc.margins.FromPreference(sigmoid(r[:, None] - r[None, :]))
    contest = mdc.Contest(P, start, bradley_terry)
    safe, gamble = (np.tile(d, (4, 1)) for d in ([1.0, 0.0], [0.0, 1.0]))
    direct = 0.25 * (0.2 * (sigmoid(-9.0) - 0.5) + 0.8 * (sigmoid(2.0) - 0.5))
    resting = 0.25 * ((sigmoid(1.0) - 0.5) - 0.2 * (sigmoid(10.0) - 0.5) - 0.8 * (sigmoid(-1.0) - 0.5))
    assert abs(mdc.average_margin(contest, safe, gamble) - (direct + resting)) < 1e-12
    assert direct + resting > 0.05
    solution = mdc.solve(contest)
    np.testing.assert_allclose(solution.rule[choose], [1, 0], atol=1e-9)

    # The logit of P_BT is r − r' again, and with it the reward's optimum.
    logit = mdc.margins.Dense(np.log(sigmoid(r[:, None] - r[None, :]) / sigmoid(r[None, :] - r[:, None])))
    np.testing.assert_allclose(mdc.solve(mdc.Contest(P, start, logit)).rule[choose], [0, 1], atol=1e-9)


@given(seeds, st.integers(2, 6), st.integers(2, 4))
def test_the_logit_has_the_rewards_optimum(seed, S, A):
    """M = log(P_BT / (1 − P_BT)) = r − r': a solution's average reward is the best there is."""
    rng = np.random.default_rng(seed)
    P, r = rng.dirichlet(np.ones(S), size=(S, A)), rng.uniform(-2, 2, size=S * A)
    chosen = sigmoid(r[:, None] - r[None, :])
    contest = mdc.Contest(P, np.ones(S) / S, mdc.margins.Dense(np.log(chosen / chosen.T)))
    process = mdc.Contest.from_mdp(P, np.ones(S) / S, r)
    earned = (mdc.solve(contest).occupancy.reshape(-1) * r).sum()
    best = (mdc.solve(process).occupancy.reshape(-1) * r).sum()
    assert abs(earned - best) < 1e-8
