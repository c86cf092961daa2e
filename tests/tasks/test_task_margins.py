"""Margins of the shipped tasks: structure against O(B²), ended episodes, and the corridor, which is its contest."""

import numpy as np
import pytest

import mdcontest as mdc
from mdcontest import margins, tasks
from mdcontest.outcomes import finite_outcomes
from shipped_tasks import SHIPPED, random_outcomes
from strategies import dense_transitions

# --- every shipped task -----------------------------------------------------------------------------------


def test_the_tasks_of_the_paper_are_shipped():
    assert len([name for name in SHIPPED if tasks.make(name).group == "suite"]) == 11
    assert [name for name in SHIPPED if tasks.make(name).group == "nt"] == ["Reacher-NT", "Walker2d-NT"]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_batch_against_itself_has_mean_cumulant_zero(name):
    # Σ_ij M(z_i, z_j) = −Σ_ij M(z_j, z_i) = 0, whatever the batch.
    task, z = random_outcomes(name)
    bound = task.margin.rows_bound(task.margin.rows(z))
    if task.is_reward_difference:
        assert bound == z.reward.max() - z.reward.min()
    assert bound > 0
    assert abs(task.cumulant(z, z).mean()) <= 1e-12 * bound


@pytest.mark.parametrize("name", SHIPPED)
def test_the_cumulant_is_the_mean_over_all_pairs(name):
    task, z = random_outcomes(name)
    M = task.margin.matrix(z, z)
    bound = task.margin.rows_bound(task.margin.rows(z))
    assert np.abs(M).max() <= bound * (1 + 1e-12)
    np.testing.assert_allclose(task.cumulant(z, z), M.mean(axis=1), rtol=0, atol=1e-12 * bound)
    some, weights = z[20:90], np.random.default_rng(0).normal(size=70)
    expected = M[:, 20:90] @ weights
    np.testing.assert_allclose(task.cumulant(z, some, weights), expected, rtol=0, atol=1e-11 * bound)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_margin_is_skew_on_real_outcomes(name):
    task, z = random_outcomes(name)
    M = task.margin.matrix(z, z)
    np.testing.assert_array_equal(M, -M.T)
    assert np.abs(M).max() > 0


# --- which margins a task takes ---------------------------------------------------------------------------

RPS = [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]
TURN = [[0, 1], [-1, 0]]
COLUMNS = np.arange(8.0).reshape(4, 2)
NUMBERED = {
    "Classes": lambda: margins.Classes([0, 1, 2], RPS),
    "Signs": lambda: margins.Signs(COLUMNS, [1.0, 0.5]),
    "Aggregated": lambda: margins.Aggregated(COLUMNS),
    "BestTwoOfThree": lambda: margins.BestTwoOfThree(np.eye(3)),
    "LowRank": lambda: margins.LowRank(COLUMNS, TURN),
    "RewardDifference": lambda: margins.RewardDifference([0.0, 1.0, 2.0]),
    "Dense": lambda: margins.Dense(RPS),
}
ON_OUTCOMES = {
    "a function of two": lambda z, w: z.obs[:, 0] - w.obs[:, 0],
    "Pairwise": margins.Pairwise(lambda z, w: z.obs[:, 0] - w.obs[:, 0]),
    "Pairwise over pairs": margins.Pairwise(lambda z, w: z.obs[:, 0] - w.obs[:, 0], finite_outcomes(2, 2)),
    "FromPreference": margins.FromPreference(lambda z, w: 0.5 + 0.1 * np.sign(z.obs[:, 0] - w.obs[:, 0])),
    "Classes": margins.Classes(lambda z: z.action, TURN),
    "Signs": margins.Signs(lambda z: z.obs[:, :2], [1.0, 0.5]),
    "Aggregated": margins.Aggregated(lambda z: z.obs[:, :2]),
    "BestTwoOfThree": margins.BestTwoOfThree(lambda z: z.obs[:, :3]),
    "LowRank": margins.LowRank(lambda z: z.obs[:, :2], TURN),
    "RewardDifference": margins.RewardDifference(lambda z: z.obs[:, 0]),
    "Dense": margins.Dense(RPS, lambda z: z.action),
}


@pytest.mark.parametrize("kind", NUMBERED)
def test_a_margin_on_numbered_pairs_is_refused(kind):
    """Before an environment is made, not as an exception of the margin in the first step."""
    with pytest.raises(mdc.InputError, match=rf"the margin {kind}\(.* let them be a function of a batch of outcomes"):
        mdc.Task("CartPole-v1", NUMBERED[kind]())
    with pytest.raises(mdc.InputError, match="a task's outcomes have no numbers"):
        tasks.make("RPSCorridor").with_margin(NUMBERED[kind]())


@pytest.mark.parametrize("kind", ON_OUTCOMES)
def test_a_margin_on_outcomes_is_taken(kind):
    task, rng = mdc.Task("CartPole-v1", ON_OUTCOMES[kind]), np.random.default_rng(0)
    z = mdc.Outcomes(rng.normal(size=(20, 4)), rng.integers(0, 2, 20))
    assert abs(task.cumulant(z, z).mean()) < 1e-12


def test_a_margin_that_knows_the_pairs_of_a_contest_is_taken():
    """Outcomes of an environment of whole numbers name them."""
    corridor = tasks.make("RPSCorridor")
    contest = corridor.contest()
    z = finite_outcomes(3, 3)
    np.testing.assert_array_equal(mdc.Task(corridor.env, contest.margin).cumulant(z, z), corridor.cumulant(z, z))


# --- ended episodes ---------------------------------------------------------------------------------------


def hopper_function(**options):
    return mdc.Task("Hopper-v5", lambda z, w: z.reward - w.reward, **options)


def test_beyond_ended_a_reward_difference_is_the_reward_itself():
    task, z = random_outcomes("Hopper-v5")
    assert np.array_equal(task.cumulant_beyond_ended(z, z), z.reward)
    assert np.array_equal(task.cumulant_beyond_ended(z[:9], z[50:]), z.reward[:9])
    np.testing.assert_allclose(task.cumulant_beyond_ended(z, z[:2], [1.0, 2.0]), 3 * z.reward, rtol=1e-14)


def test_a_function_that_says_what_ending_is_worth_gives_the_reward_too():
    # c̃(z) = Σ_j w_j [r(z) − r(z_j) + r(z_j)] = r(z).
    _, z = random_outcomes("Hopper-v5")
    task = hopper_function(ended=lambda z: z.reward)
    np.testing.assert_allclose(task.cumulant_beyond_ended(z, z), z.reward, rtol=0, atol=1e-9)
    np.testing.assert_allclose(task.cumulant_beyond_ended(z, z[40:60]), z.reward, rtol=0, atol=1e-9)


def test_without_a_word_about_ending_it_is_indifferent():
    _, z = random_outcomes("Hopper-v5")
    task = hopper_function()
    np.testing.assert_array_equal(task.cumulant_beyond_ended(z, z), task.cumulant(z, z))
    walker_task, w = random_outcomes("Walker2d-NT")
    np.testing.assert_array_equal(walker_task.cumulant_beyond_ended(w, w), walker_task.cumulant(w, w))


def test_ended_as_a_number():
    # Every outcome beats an ended episode by 0.5, so c(⊥) = −0.5 Σ w.
    _, z = random_outcomes("Hopper-v5")
    task = hopper_function(ended=0.5)
    np.testing.assert_allclose(task.cumulant_beyond_ended(z, z), task.cumulant(z, z) + 0.5, atol=1e-12)
    weighted = task.cumulant_beyond_ended(z, z[:2], [1.0, 2.0])
    np.testing.assert_allclose(weighted, task.cumulant(z, z[:2], [1.0, 2.0]) + 1.5, atol=1e-12)
    # It goes before what the margin itself would say.
    told = mdc.Task("Hopper-v5", tasks.reward_difference(), ended=0.0)
    np.testing.assert_allclose(told.cumulant_beyond_ended(z, z), z.reward - z.reward.mean(), atol=1e-12)


def test_what_ended_returns_is_checked():
    _, z = random_outcomes("Hopper-v5")
    with pytest.raises(mdc.InputError, match=r"one number an outcome, shape \(300,\), got \(\)"):
        hopper_function(ended=lambda z: 1.0).cumulant_beyond_ended(z, z)
    with pytest.raises(mdc.InputError, match=r"ended episode\[0\] is nan"):
        hopper_function(ended=lambda z: z.reward * np.nan).cumulant_beyond_ended(z, z)


def test_a_margin_that_is_not_skew_is_shown_with_its_pair():
    z = mdc.Outcomes(np.zeros((2, 11)), reward=np.array([1.0, 2.0]))
    task = mdc.Task("Hopper-v5", lambda z, w: z.reward)
    # r(z) + r(w) is largest for the second outcome against itself: 2 + 2.
    with pytest.raises(
        mdc.InputError, match=r"fn\(z, w\) = 2 but fn\(w, z\) = 2, which sum to 4, for z = Outcomes\(.*reward=.*2\.0"
    ):
        task.cumulant(z, z)


# --- the corridor is its contest --------------------------------------------------------------------------


def next_room(env, obs, terminated):
    return env.reset()[0] if terminated else obs


@pytest.mark.parametrize("settings", [{}, {"slip": 0.3, "end": 0.25}])
def test_the_corridor_moves_as_its_contest_says(settings):
    task = tasks.make("RPSCorridor", **settings)
    P, n = dense_transitions(task.contest()), 3000
    env = task.make_env()
    env.reset(seed=0)
    counts = np.zeros((3, 3, 3))
    for s in range(3):
        for a in range(3):
            for _ in range(n):
                env.load_state({"position": s})
                obs, _, terminated, _, _ = env.step(a)
                counts[s, a, next_room(env, obs, terminated)] += 1
    assert (counts[P == 0] == 0).all()
    # χ² has at most two degrees of freedom a pair; above 18.4 it is once in ten thousand.
    excess = np.divide((counts - n * P) ** 2, n * P, out=np.zeros_like(P), where=P > 0).sum(axis=2)
    assert excess.max() < 18.4


def test_time_in_the_corridor_is_the_occupancy_of_its_contest(count):
    task, steps = tasks.make("RPSCorridor"), count(40_000, 400_000)
    rng = np.random.default_rng(1)
    rule = rng.dirichlet(np.ones(3), size=3)
    draws = rng.uniform(size=steps)
    env, seen = task.make_env(), np.zeros((3, 3))
    room, bounds = env.reset(seed=1)[0], np.cumsum(rule, axis=1)
    for draw in draws:
        action = int(np.searchsorted(bounds[room], draw))
        seen[room, action] += 1
        obs, _, terminated, _, _ = env.step(min(action, 2))
        room = next_room(env, obs, terminated)
    # Ten steps an episode: 4,000 episodes of visits have a deviation below 0.5/√4000 = 0.008.
    np.testing.assert_allclose(seen / steps, mdc.occupancy(task.contest(), rule), atol=0.02)


def test_the_margins_of_corridor_and_contest_are_the_same():
    task = tasks.make("RPSCorridor")
    z = mdc.Outcomes(np.repeat([0, 1, 2], 3), np.tile([0, 1, 2], 3))
    np.testing.assert_array_equal(task.margin.matrix(z, z), task.contest().margin.matrix())
    np.testing.assert_array_equal(task.finite_model().observations, np.eye(3))
