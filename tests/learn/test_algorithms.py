"""The four algorithms over one loop: which are equal bit for bit, every setting runs, predicting, convergence."""

import functools
import itertools

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import mdcontest as mdc
from mdcontest import tasks
from mdcontest.learn import ALGORITHMS, HPI, PPO, SPPO, HPIClip
from mdcontest.learn.loading import same_parameters
from strategies import count_of

SMALL = {"num_steps": 64, "minibatches": 2, "epochs": 2, "hidden": (8,)}


def trained(kind, task, iterations=2, seed=0, **settings):
    agent = kind(task, seed, **(SMALL | settings))
    return agent.learn(iterations * agent.settings.batch_size, progress=False)


@functools.cache
def rps_agent():
    """A mixture of 12 iterates on RPSContinuous."""
    return trained(HPIClip, tasks.make("RPSContinuous"), 12)


def is_finite(agent):
    return all(np.isfinite(value).all() for layers in agent.learner.params.values() for value in layers.values())


def upright(z, w):
    return np.abs(w.next_obs[:, 2]) - np.abs(z.next_obs[:, 2])


class Kitchen(gymnasium.Env):
    """A Dict observation; the place follows the action, the room changes at random."""

    observation_space = spaces.Dict(
        {"place": spaces.Box(-1.0, 1.0, (2,), np.float32), "room": spaces.Discrete(3, start=1)}
    )
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"place": np.zeros(2, np.float32), "room": 1}, {}

    def step(self, action):
        assert self.action_space.contains(action)
        room = int(self.np_random.integers(1, 4))
        return {"place": np.array(action, np.float32), "room": room}, float(action[0]), room == 3, False, {}


def kitchen(z, w):
    return z.next_obs["place"][:, 0] - w.next_obs["place"][:, 0] + np.sign(z.obs["room"] - w.obs["room"])


# --- which are equal --------------------------------------------------------------------------------------


def test_hpi_clip_is_ppo_on_a_reward_difference_bit_for_bit(count):
    task, iterations = tasks.make("Hopper-v5"), count(8, 20)
    ppo, clip = (kind(task).learn(iterations * 2048, progress=False) for kind in (PPO, HPIClip))
    assert ppo.num_timesteps == clip.num_timesteps == iterations * 2048
    assert same_parameters(ppo, clip)
    assert not same_parameters(ppo, PPO(task))  # they did learn
    assert list(ppo.recent) == list(clip.recent)


def test_sppo_and_hpi_clip_differ_in_the_comparison_horizon_alone():
    task = tasks.make("RPSContinuous")
    clip, sppo = trained(HPIClip, task, 5), trained(SPPO, task, 5)
    assert not same_parameters(clip, sppo)
    assert same_parameters(trained(SPPO, task, 5, comparison_horizon=1), clip)
    assert same_parameters(trained(HPIClip, task, 5, comparison_horizon=0), sppo)


def test_the_surrogate_and_its_form_matter_to_hpi_alone():
    task = tasks.make("RPSContinuous")
    clip, hpi = trained(HPIClip, task), trained(HPI, task)
    assert not same_parameters(clip, hpi)
    assert not same_parameters(hpi, trained(HPI, task, hedge="printed"))
    assert same_parameters(clip, trained(HPIClip, task, hedge="printed"))


@pytest.mark.parametrize("kind", ALGORITHMS.values(), ids=list(ALGORITHMS))
def test_the_same_seed_gives_the_same_parameters_and_another_does_not(kind):
    task = tasks.make("RPSContinuous")
    one, again, other = trained(kind, task, seed=4), trained(kind, task, seed=4), trained(kind, task, seed=5)
    assert same_parameters(one, again)
    assert not same_parameters(one, other)
    assert is_finite(one)


def test_margins_that_mean_the_same_train_the_same():
    """A reward difference as a structured margin, and as a Python function that says what ending is worth."""
    structured = trained(HPIClip, mdc.Task("CartPole-v1", tasks.reward_difference()))
    function = mdc.Task("CartPole-v1", lambda z, w: z.reward - w.reward, ended=lambda z: z.reward)
    again = trained(HPIClip, function, returned="last")
    for part, layers in structured.learner.params.items():
        for name, value in layers.items():
            np.testing.assert_allclose(again.learner.params[part][name], value, atol=1e-5)


# --- one loop for all -------------------------------------------------------------------------------------


def test_learning_twice_goes_on_and_anneals_anew():
    agent, seen = HPIClip(tasks.make("RPSContinuous"), **SMALL), []

    def note(agent, progress):
        seen.append((progress.steps, progress.learning_rate))

    agent.learn(4 * 64, progress=False, callback=note)
    halfway = agent.learner.params
    agent.learn(2 * 64 + 63, progress=False, callback=note)  # whole iterations only
    assert agent.num_timesteps == 6 * 64
    assert agent.learner.iteration == len(agent.learner.iterates) == 6
    assert [steps for steps, _ in seen] == [64 * k for k in range(1, 7)]
    # Over each call: 3e-4·(1, ¾, ½, ¼), then 3e-4·(1, ½).
    np.testing.assert_allclose([rate for _, rate in seen], 3e-4 * np.array([1, 0.75, 0.5, 0.25, 1, 0.5]))
    assert not np.array_equal(agent.learner.params["actor"]["w0"], halfway["actor"]["w0"])


def test_without_annealing_two_calls_are_one():
    task = tasks.make("RPSContinuous")
    once = trained(HPIClip, task, 5, anneal=False)
    twice = HPIClip(task, **SMALL, anneal=False).learn(2 * 64, progress=False).learn(3 * 64, progress=False)
    assert same_parameters(once, twice)


def test_a_callback_that_returns_false_stops():
    agent, seen = HPIClip(tasks.make("RPSContinuous"), **SMALL), []

    def stop(agent, progress):
        seen.append(progress.iteration)
        return len(seen) < 3

    assert agent.learn(10 * 64, progress=False, callback=stop) is agent
    assert seen == [1, 2, 3]
    assert agent.num_timesteps == 3 * 64
    agent.learn(64, progress=False, callback=lambda agent, progress: None)  # None goes on
    assert agent.num_timesteps == 4 * 64


@pytest.mark.parametrize("kind", [HPIClip, HPI, PPO])
def test_discrete_actions_train_through_the_same_calls(kind):
    agent = trained(kind, mdc.Task("CartPole-v1", upright))
    assert is_finite(agent)
    action, _ = agent.predict(np.zeros(4))
    assert action in (0, 1)
    actions, _ = agent.predict(np.zeros((6, 4)))
    assert actions.shape == (6,)
    assert set(actions.tolist()) <= {0, 1}


@pytest.mark.parametrize("returned", ["mixture", "cloned"])
def test_dict_observations_train_through_the_same_calls(returned):
    agent = trained(HPIClip, mdc.Task(Kitchen, kitchen), returned=returned, cloning_epochs=1)
    assert is_finite(agent)
    one = {"place": np.zeros(2, np.float32), "room": 2}
    action, state = agent.predict(one)
    assert Kitchen.action_space.contains(action)
    assert state is None if returned == "cloned" else state.shape == (1,)
    many = {"place": np.zeros((5, 2), np.float32), "room": np.array([1, 2, 3, 1, 2])}
    actions, _ = agent.predict(many, deterministic=returned == "cloned")
    assert actions.shape == (5, 2)
    if returned == "cloned":  # the same observation, the same action
        np.testing.assert_array_equal(actions[0], actions[3])
        np.testing.assert_array_equal(actions[1], agent.predict(one, deterministic=True)[0])


@pytest.mark.parametrize("kind", [HPIClip, SPPO])
def test_several_environments_make_one_batch(kind):
    agent = trained(kind, tasks.make("RPSContinuous"), num_envs=3)
    assert agent.num_timesteps == 2 * 3 * 64
    assert is_finite(agent)
    assert len({float(place) for place in agent.learner.collector.obs[:, 0]}) == 3


OPTIONS = {
    "opponents": ("batch", "queue"),
    "termination": ("ended", "paper"),
    "truncation": ("bootstrap", "zero"),
    "critic": ("discounted", "average"),
    "hedge": ("corrected", "printed"),
    "returned": ("last", "mixture", "cloned"),
}
EVERY = list(itertools.product(*OPTIONS.values()))
# Eight of them hold every pair of values of any two settings.
PAIRS = [
    ("batch", "paper", "zero", "average", "printed", "mixture"),
    ("queue", "ended", "bootstrap", "discounted", "corrected", "last"),
    ("queue", "paper", "zero", "discounted", "printed", "cloned"),
    ("batch", "ended", "bootstrap", "average", "corrected", "cloned"),
    ("queue", "paper", "bootstrap", "discounted", "corrected", "mixture"),
    ("batch", "ended", "zero", "average", "printed", "last"),
    ("queue", "paper", "zero", "average", "corrected", "last"),
    ("batch", "ended", "bootstrap", "discounted", "printed", "mixture"),
]


def test_the_reduced_combinations_hold_every_pair():
    for i, j in itertools.combinations(range(len(OPTIONS)), 2):
        assert len({(one[i], one[j]) for one in PAIRS}) == len({(one[i], one[j]) for one in EVERY})


@pytest.mark.parametrize("values", PAIRS if count_of(0, 1) == 0 else EVERY, ids="-".join)
def test_every_combination_of_settings_runs(values):
    chosen = dict(zip(OPTIONS, values, strict=True))
    agent = trained(HPI, tasks.make("RPSContinuous"), horizon=9, first_iterate=3, cloning_epochs=1, **chosen)
    assert {name: getattr(agent.settings, name) for name in chosen} == chosen
    assert is_finite(agent)
    action, state = agent.predict(np.array([0.5]))
    assert agent.task.make_env().action_space.contains(action)
    assert (state is not None) == (chosen["returned"] == "mixture")
    assert (agent.learner.cloned is not None) == (chosen["returned"] == "cloned")


# --- which settings an agent takes ------------------------------------------------------------------------


def test_auto_returns_a_mixture_where_preferences_may_be_intransitive():
    found = {
        (kind.algorithm.name, name): kind(tasks.make(name)).settings.returned
        for kind in (PPO, HPI, HPIClip, SPPO)
        for name in ("InvertedPendulum-v5", "RPSContinuous")
    }
    expected = {key: "mixture" if key[1] == "RPSContinuous" and key[0] != "ppo" else "last" for key in found}
    assert found == expected


def test_presets_recommendations_and_own_settings_in_order():
    corridor = tasks.make("RPSCorridor")
    assert HPIClip(corridor).settings.clip == 0.05  # the task recommends it
    assert HPIClip(corridor, clip=0.3).settings.clip == 0.3
    paper = HPIClip(corridor, preset="paper").settings
    assert (paper.clip, paper.opponents, paper.horizon) == (0.2, "queue", 2048)
    reacher = HPI(tasks.make("Reacher-NT"), preset="paper", queue_size=7).settings
    assert (reacher.queue_size, reacher.returned, reacher.hedge) == (7, "cloned", "printed")
    assert SPPO(corridor).settings.comparison_horizon == 0


ERRORS = {
    "no task": (lambda: HPIClip("Hopper-v5"), "task must be a Task, got str; tasks.make"),
    "preset": (lambda: HPIClip(tasks.make("RPSCorridor"), preset="papr"), "no preset 'papr'"),
    "seed": (lambda: HPIClip(tasks.make("RPSCorridor"), seed=-1), "seed must .*not .*negative, got -1"),
    "setting": (lambda: HPIClip(tasks.make("RPSCorridor"), learning=1), "no setting 'learning'"),
    "no steps": (lambda: HPIClip(tasks.make("RPSCorridor")).learn(0), "total_timesteps must be .*at least 1, got 0"),
    "NaN steps": (lambda: HPIClip(tasks.make("RPSCorridor")).learn(float("nan")), "at least 1, got nan"),
    "endless": (lambda: HPIClip(tasks.make("RPSCorridor")).learn(float("inf")), "total_timesteps"),
    "nothing to resume": (lambda: HPIClip(tasks.make("RPSCorridor")).resume(), "not loaded from a run's folder"),
    "no model": (lambda: HPIClip(tasks.make("RPSContinuous")).decision_rule(), "RPSContinuous has no finite model"),
    "observation": (lambda: rps_agent().predict(np.zeros(2)), r"shape \(2,\)"),
    "state of another size": (
        lambda: rps_agent().predict(np.zeros((2, 1)), np.zeros(3, int)),
        "what predict returned for 2 observations",
    ),
    "state of no iterate": (lambda: rps_agent().predict(np.zeros(1), np.array([12])), "what predict returned for 1"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_name_the_culprit(case):
    make, message = ERRORS[case]
    with pytest.raises(mdc.InputError, match=message):
        make()


# --- predicting -------------------------------------------------------------------------------------------


def test_one_observation_gives_one_action_and_a_batch_a_batch():
    agent = trained(PPO, tasks.make("Reacher-v5"))
    space = agent.task.make_env().action_space
    action, state = agent.predict(np.zeros(10))
    assert state is None
    assert space.contains(action)
    actions, state = agent.predict(np.zeros((4, 10)))
    assert actions.shape == (4, 2)
    assert actions.dtype == np.float32
    assert all(space.contains(one) for one in actions)
    assert len(np.unique(actions, axis=0)) == 4  # drawn each for itself
    same, _ = agent.predict(np.zeros((4, 10)), deterministic=True)
    np.testing.assert_array_equal(same, same[[0, 0, 0, 0]])


def test_deterministic_actions_are_the_means_clipped_into_the_box():
    agent = trained(PPO, tasks.make("RPSContinuous"))
    seen = np.linspace(-1, 1, 9)[:, None]
    policy = agent.learner.policy
    found, _ = agent.predict(seen, deterministic=True)
    np.testing.assert_array_equal(found, np.clip(policy.act(policy.moments.normalise(seen), None), -1, 1))
    np.testing.assert_array_equal(agent.predict(seen, deterministic=True)[0], found)


def test_predictions_repeat_from_a_seed():
    agent, seen = rps_agent(), np.zeros((50, 1))
    agent.seed_predictions(3)
    actions, state = agent.predict(seen)
    agent.seed_predictions(3)
    again, state_again = agent.predict(seen)
    np.testing.assert_array_equal(actions, again)
    np.testing.assert_array_equal(state, state_again)
    assert not np.array_equal(agent.predict(seen)[0], actions)


def test_a_mixture_plays_one_iterate_an_episode():
    agent, seen = rps_agent(), np.zeros((600, 1))
    agent.seed_predictions(0)
    _, state = agent.predict(seen)
    assert set(state.tolist()) == set(range(12))
    for episode_start in (None, False, np.zeros(600, bool)):
        _, kept = agent.predict(seen, state, episode_start)
        np.testing.assert_array_equal(kept, state)
    starts = np.arange(600) % 2 == 0
    before = state.copy()
    _, drawn = agent.predict(seen, state, starts)
    np.testing.assert_array_equal(state, before)  # the caller's own
    np.testing.assert_array_equal(drawn[~starts], state[~starts])
    # 300 drawn anew from 12: about one in twelve is the same by chance.
    assert 0 < (drawn[starts] == state[starts]).mean() < 0.25
    _, drawn = agent.predict(seen, state, True)
    assert (drawn == state).mean() < 0.25


def test_a_mixture_plays_the_iterate_of_its_state():
    agent = rps_agent()
    seen = np.linspace(-1, 1, 36)[:, None]
    state = np.arange(36) % 12
    found, _ = agent.predict(seen, state, deterministic=True)
    np.testing.assert_array_equal(agent.predict(seen, state, deterministic=True)[0], found)
    for i in range(36):
        policy = agent.learner.iterates.policy(int(state[i]))
        expected = np.clip(policy.act(policy.moments.normalise(seen[i : i + 1]), None), -1, 1)[0]
        np.testing.assert_allclose(found[i], expected, atol=1e-6)


def test_an_agent_predicts_before_it_has_learned():
    for kind in (PPO, HPIClip):
        action, state = kind(tasks.make("RPSContinuous"), **SMALL).predict(np.zeros(1))
        assert action.shape == (1,)
        assert state is None


def test_the_last_policy_and_the_cloned_one_are_returned_where_asked():
    agent = trained(HPIClip, tasks.make("RPSContinuous"), returned="cloned", cloning_epochs=1)
    x = np.ones((1, 1), np.float32)
    assert not np.array_equal(agent.policy.head(x.copy()), agent.learner.policy.head(x.copy()))
    last = trained(HPIClip, tasks.make("RPSContinuous"), returned="last")
    assert last.policy is last.learner.policy
    assert same_parameters(agent, last)  # cloning comes after, and draws from a stream of its own


TOO_FEW = SMALL | {"num_steps": 8, "returned": "cloned", "cloning_epochs": 1, "cloning_minibatches": 32}


def test_too_few_outcomes_to_clone_are_refused_before_training():
    agent = HPIClip(tasks.make("RPSContinuous"), **TOO_FEW)
    with pytest.raises(mdc.InputError, match="cloning_minibatches = 32 is more than the 8 outcomes"):
        agent.learn(8, progress=False)
    assert agent.num_timesteps == 0


def test_a_refused_call_leaves_nothing_to_finish():
    agent = HPIClip(tasks.make("RPSContinuous"), **TOO_FEW)
    with pytest.raises(mdc.InputError):
        agent.learn(8, progress=False)
    assert agent.call == (0, 0)


def test_stopping_with_too_few_outcomes_to_clone_does_not_pass_the_last_policy_for_a_cloned_one():
    agent = HPIClip(tasks.make("RPSContinuous"), **TOO_FEW)
    agent.learn(80, progress=False, callback=lambda agent, progress: False)
    last = agent.learner.params["actor"]
    assert agent.learner.cloned is None or any(not np.array_equal(agent.learner.cloned[k], last[k]) for k in last)


# --- the exact corridor -----------------------------------------------------------------------------------


def test_the_rule_of_a_mixture_has_the_average_occupancy():
    task = tasks.make("RPSCorridor")
    agent = trained(HPIClip, task, 8, learning_rate=0.05, clip=0.2)
    contest, iterates = task.contest(), agent.learner.iterates
    rules = [iterates.policy(k).probabilities(np.eye(3)) for k in range(8)]
    assert np.ptp([rule[0] for rule in rules], axis=0).max() > 0.2  # iterates that differ
    average = sum(mdc.occupancy(contest, rule) for rule in rules) / 8
    np.testing.assert_allclose(mdc.occupancy(contest, agent.decision_rule()), average, atol=1e-9)
    assert np.abs(agent.decision_rule() - np.mean(rules, axis=0)).max() > 1e-3  # which the average rule has not


def test_the_rule_of_the_last_policy_is_its_own():
    agent = trained(HPIClip, tasks.make("RPSCorridor"), returned="last")
    np.testing.assert_allclose(agent.decision_rule(), agent.policy.probabilities(np.eye(3)))
    np.testing.assert_allclose(agent.decision_rule().sum(axis=1), 1)


def gaps_of(kind, seed, steps, at):
    """The exact optimality gap of the returned policy after these many steps, and at the end."""
    task, found = tasks.make("RPSCorridor"), []

    def note(agent, progress):
        if progress.steps // 2048 in [wanted // 2048 for wanted in at]:
            found.append(mdc.optimality_gap(task.contest(), agent.decision_rule()))

    agent = kind(task, seed).learn(steps, progress=False, callback=note)
    return [*found, mdc.optimality_gap(task.contest(), agent.decision_rule())]


def test_hpi_clip_approaches_the_solution_of_the_corridor():
    # Walking at random has a gap of 0.23; measured 0.112, 0.034 and 0.007.
    early, middle, late = gaps_of(HPIClip, 0, 122_880, (20_480, 61_440))
    assert middle < 0.06
    assert late < 0.03
    assert late < middle < early


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kind", [HPIClip, HPI])
def test_the_average_of_hedge_converges_in_the_corridor(kind, seed, count):
    if not count(0, 1):
        pytest.skip("250,000 steps six times: only with full counts")
    # Measured after 40,960 steps 0.020 to 0.044 (HPI-Clip) and 0.126 to 0.128 (HPI), at the end 0.003 to 0.022.
    early, late = gaps_of(kind, seed, 250_000, (40_960,))
    assert late < 0.05
    assert late < early


def test_a_comparison_horizon_as_long_as_the_episodes_is_sppo():
    """Episodes end after 20 steps at the latest, so windows of 20 steps from their start are the episodes."""
    task = tasks.make("RPSContinuous")
    windows = trained(HPIClip, task, horizon=20, comparison_horizon=20)
    assert same_parameters(windows, trained(SPPO, task, horizon=20))
    assert not same_parameters(windows, trained(HPIClip, task, horizon=20))
