"""Policy generation: the small game, the rounds, and the answer against methods that share nothing with it."""

import numpy as np
import pytest
import scipy.sparse as sp

import mdcontest as mdc
from mdcontest.regenerative import Regenerative
from mdcontest.solvers import InteriorPoint, PolicyGeneration
from mdcontest.solvers.restricted_game import optimal_mixture
from random_contests import MARGINS, random_contest, random_margin

STRUCTURED = ("low rank", "reward", "classes", "signs", "circular", "two of three", "voters")


def garnet(seed, states=60, actions=4, restart=0.01, margin="low rank"):
    """Sparse, with a restart: the kind that is solved by sweeps."""
    rng = np.random.default_rng(seed)
    n = states * actions
    later = rng.integers(states, size=(n, 5))
    P = sp.csr_array((rng.dirichlet(np.ones(5), n).ravel(), (np.repeat(np.arange(n), 5), later.ravel())), (n, states))
    return mdc.Contest(P, rng.dirichlet(np.ones(states)), random_margin(rng, states, actions, margin)).with_restart(
        restart
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_small_game(seed):
    """p is a distribution that no policy beats, to rounding, over fourteen orders of magnitude of payoffs."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 40))
    size = 10.0 ** -rng.uniform(0, 14, k)
    G = rng.normal(size=(k, k)) * np.sqrt(size[:, None] * size)
    G = G - G.T
    p = optimal_mixture(G)
    assert p.min() >= 0
    np.testing.assert_allclose(p.sum(), 1, atol=1e-14)
    assert (G @ p).max() <= 1e-9 * np.abs(G).max()


def test_rock_paper_scissors_in_four_rounds():
    """One state, so a policy is an action. Against rock the answer is paper, against that scissors, and then all three
    with equal weight, against which nothing wins."""
    contest = mdc.Contest(np.ones((1, 3, 1)), [1.0], [[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    solution = mdc.solve(contest, PolicyGeneration())
    np.testing.assert_allclose(solution.rule, [[1 / 3, 1 / 3, 1 / 3]], atol=1e-12)
    assert solution.info["rounds"] <= 4


@pytest.mark.parametrize("margin", STRUCTURED)
@pytest.mark.parametrize("swept", [True, False])
def test_it_agrees_with_the_interior_point(margin, swept):
    """Both gaps certified, and neither rule beats the other: M̄ is zero between solutions, since each is unbeaten."""
    contest = (
        garnet(11, margin=margin) if swept else random_contest(5, states=25, actions=3, shape="lazy", margin=margin)
    )
    assert Regenerative.serves(contest.dynamics) is swept
    generated, other = mdc.solve(contest, PolicyGeneration()), mdc.solve(contest, InteriorPoint())
    bound = contest.margin.bound
    for solution in (generated, other):
        assert solution.status == "solved", solution.info
        report = mdc.verify(contest, solution)
        assert report, report
    assert abs(mdc.average_margin(contest, generated.rule, other.rule)) <= 3e-9 * bound
    assert mdc.optimality_gap(contest, generated.rule) <= generated.gap + 1e-11 * bound


@pytest.mark.parametrize("seed", range(4))
def test_a_reward_takes_one_best_response(seed):
    """M_r: the first response, found exactly, is the solution; the next round only proves it (and sharpens digits)."""
    contest = garnet(seed, margin="reward")
    solution = mdc.solve(contest)
    assert solution.solver == "PolicyGeneration"
    assert "Markov decision process" in solution.why
    assert solution.status == "solved"
    assert solution.info["policies"] <= 2
    x = solution.occupancy
    best = mdc.solve(contest, InteriorPoint()).occupancy
    r = contest.margin.reward.reshape(x.shape)
    np.testing.assert_allclose((x * r).sum(), (best * r).sum(), atol=3e-9 * contest.margin.bound)


def test_gaps_are_certified_in_every_round():
    """The history never rises, and stopping at any round gives a rule with the gap that was announced."""
    contest = garnet(3)
    whole = mdc.solve(contest, PolicyGeneration())
    gaps = whole.history.gaps
    assert (np.diff(gaps) <= 0).all()
    assert (np.diff(whole.history.seconds) >= 0).all()
    for rounds in range(1, len(gaps)):
        cut = mdc.solve(contest, PolicyGeneration(rounds))
        assert cut.status == "iteration_limit"
        assert cut.gap <= gaps[rounds - 1] * (1 + 1e-6) + 1e-12
        assert mdc.verify(contest, cut)


def test_the_same_again():
    first, second = (mdc.solve(garnet(8), PolicyGeneration()) for _ in range(2))
    assert np.array_equal(first.rule, second.rule)
    assert first.gap == second.gap


def test_unvisited_states_get_the_reply():
    """A state that nothing leads to: the rule there answers the mixture instead of being uniform."""
    P = np.zeros((3, 2, 3))
    P[:, :, 1] = 1
    P[1, 1] = [0, 0, 1]
    contest = mdc.Contest(P, [0, 1.0, 0], mdc.margins.RewardDifference([[5, 4], [0, 0], [1, 1]]))
    rule = mdc.solve(contest, PolicyGeneration()).rule
    np.testing.assert_array_equal(rule[0], [1, 0])


def test_many_policies_are_pruned():
    """A dense margin needs hundreds of policies; those without weight for long are dropped, and it still converges."""
    contest = random_contest(4, states=16, actions=6, shape="dense", margin="dense")
    solution = mdc.solve(contest, PolicyGeneration())
    assert solution.status == "solved"
    assert solution.info["policies"] < solution.info["rounds"]
    assert mdc.verify(contest, solution)


@pytest.mark.parametrize("seed", range(3))
def test_random_contests(seed, count):
    for case in range(seed * count(8, 60), (seed + 1) * count(8, 60)):
        contest = random_contest(1000 + case, margin=MARGINS[case % len(MARGINS)])
        solution = mdc.solve(contest, PolicyGeneration())
        assert solution.status == "solved", (contest, solution.info)
        assert mdc.verify(contest, solution)


def test_a_policy_is_found_once():
    """One action, so there is one policy. At a restart of 1e-11 rounding hides that it wins nothing against itself."""
    rng = np.random.default_rng(0)
    later = np.repeat([[0], [100]], 100, axis=0) + rng.integers(100, size=(200, 3))
    P = sp.csr_array((np.full(600, 1 / 3), (np.repeat(np.arange(200), 3), later.ravel())), (200, 200))
    margin = random_margin(rng, 200, 1, "low rank")
    contest = mdc.Contest(P, np.full(200, 1 / 200), margin).with_restart(1e-11)
    solution = mdc.solve(contest, PolicyGeneration())
    assert solution.info["policies"] == 1
    assert solution.info["rounds"] <= 5
    assert mdc.verify(contest, solution)


def test_bad_settings():
    with pytest.raises(mdc.InputError, match="iterations must be a whole number"):
        mdc.solve(garnet(0), PolicyGeneration(iterations=0))
