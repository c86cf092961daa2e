"""`estimate_gap`: policies and tasks of every kind, and a policy's random numbers are its own."""

import gymnasium
import numpy as np
import pytest

import mdcontest as mdc
from mdcontest import tasks
from mdcontest.errors import InputError
from mdcontest.gap import estimate_gap
from mdcontest.learn import HPIClip
from mdcontest.learn.play import sample_trajectories
from mdcontest.learn.tabular import TabularPolicy
from mdcontest.margins import Classes, RewardDifference, Signs
from mdcontest.tasks.task import reward_difference
from small_games import FAST, RPS, TINY, Always, corridor

# --- policies and tasks of every kind ---------------------------------------------------------------------


class Line(gymnasium.Env):
    """A position that one moves by the action; episodes end after `length` steps, or never."""

    def __init__(self, length=None, observes="box", broken_at=None):
        self.length, self.observes, self.broken_at = length, observes, broken_at
        box = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)
        parts = {"place": box, "parity": gymnasium.spaces.Discrete(2)}
        self.observation_space = box if observes == "box" else gymnasium.spaces.Dict(parts)

    def observe(self):
        place = np.array([np.nan if self.steps == self.broken_at else self.place])
        return place if self.observes == "box" else {"place": place, "parity": self.steps % 2}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.place = 0, float(self.np_random.normal())
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        self.place = 0.9 * self.place + float(action[0])
        return self.observe(), -abs(self.place), self.steps == self.length, False, {}


def place_of(z):
    return z.obs["place"] if isinstance(z.obs, dict) else z.obs


def line(margin=None, **options):
    return mdc.Task(lambda: Line(**options), margin or Signs(place_of, [1.0]), name="line")


def test_a_deterministic_policy():
    # Staying where one starts, in the rock room: paper, one step away, wins all of its steps.
    task = corridor()
    found = estimate_gap(task, TabularPolicy(task, np.eye(3)[[1, 1, 1]]), **{**FAST, "steps": 2048})
    np.testing.assert_allclose([found.ceiling.low, found.ceiling.value, found.ceiling.high], 1)
    assert found.lower <= found.exact <= found.upper


def test_episodes_of_one_step():
    # The place is drawn before the only action of an episode: nobody can be ahead on average, and the gap is 0.
    found = estimate_gap(line(length=1), Always(np.zeros(1)), seed=1, **{**FAST, "trajectories": 300})
    assert found.best_response.low <= 0 <= found.best_response.high
    assert found.upper == pytest.approx(1)


def test_episodes_that_never_end_are_cut_off():
    found = estimate_gap(line(), Always(np.zeros(1)), horizon=40, **FAST)
    assert (found.details["policy_steps"], found.details["policy_episodes"]) == (5 * 40 * 2, 10)
    assert found.upper == pytest.approx(1)


@pytest.mark.parametrize("horizon", [1, 3])
def test_no_exact_gap_where_episodes_are_cut_off(horizon):
    """The model knows no limit. After one step, say, everybody has only ever been in the first room."""
    task = corridor()
    player = TabularPolicy(task, np.full((3, 3), 1 / 3))
    assert estimate_gap(task, player, horizon=horizon, **FAST).exact is None
    assert estimate_gap(task, player, horizon=2048, **FAST).exact == estimate_gap(task, player, **FAST).exact
    limited = mdc.Task(task.env, task.margin, model=task.model, horizon=horizon)
    assert estimate_gap(limited, player, **FAST).exact is None


def test_observations_in_parts():
    task = line(length=8, observes="dict")
    agent = HPIClip(task, 0, **TINY).learn(128, progress=False)
    for player in (agent, Always(np.zeros(1))):
        found = estimate_gap(task, player, **{**FAST, "restarts": 2})
        assert 0 <= found.lower <= found.upper == pytest.approx(1)


def test_a_reward_difference():
    task = mdc.Task(lambda: Line(8), reward_difference(), name="line", largest_reward=0.0)
    found = estimate_gap(task, Always(np.ones(1)), **FAST)
    assert 0 <= found.lower <= found.upper
    unknown = mdc.Task(lambda: Line(8), RewardDifference(lambda z: z.reward), name="line")
    assert estimate_gap(unknown, Always(np.ones(1)), **FAST).upper is None


@pytest.mark.parametrize("broken_at", [0, 2, 8])
@pytest.mark.parametrize("own", [True, False])
def test_an_observation_that_is_no_number(broken_at, own):
    """At the start, under way, and after the last step, for every kind of policy."""
    player = HPIClip(line(length=8), 0, **TINY) if own else Always(np.zeros(1))
    with pytest.raises(InputError, match=f"line: entry 0 of the observation is nan at step {broken_at}"):
        estimate_gap(line(length=8, broken_at=broken_at), player, **FAST)


def test_a_rule_over_other_states():
    with pytest.raises(InputError, match=r"rule must have shape \(3, 3\)"):
        TabularPolicy(corridor(), np.full((2, 3), 1 / 3))
    with pytest.raises(InputError, match="no finite model"):
        TabularPolicy(tasks.make("RPSContinuous"), np.ones((1, 1)))


# --- the policy's random numbers are its own --------------------------------------------------------------


class Noise(gymnasium.Env):
    """Observes a random number; an episode is one step."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float64)
    action_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random(1), {}

    def step(self, action):
        return self.np_random.random(1), 0.0, True, False, {}


class Draws:
    """A policy whose action is a random number."""

    def seed_predictions(self, seed):
        self.rng = np.random.default_rng(seed)

    def predict(self, obs, state=None, episode_start=None, deterministic=False):
        return self.rng.random(1), None


def test_a_policy_does_not_draw_the_environments_numbers():
    task = mdc.Task(Noise, Classes(lambda z: np.zeros(len(z)), RPS), name="noise")
    first = [sample_trajectories(task, Draws(), 1, seed=seed).outcomes for seed in range(50)]
    seen, drawn = np.array([(z.obs[0, 0], z.action[0, 0]) for z in first]).T
    assert not np.any(seen == drawn)
    assert abs(np.corrcoef(seen, drawn)[0, 1]) < 0.4


# --- a policy that was trained on something else -----------------------------------------------------------


def trained(task, returned):
    """Some iterations with steps so large that iterates differ."""
    settings = {"num_steps": 64, "minibatches": 2, "epochs": 4, "learning_rate": 0.05, "anneal": False}
    return HPIClip(task, 0, returned=returned, **settings).learn(6 * 64, progress=False)


def test_a_policy_trained_on_another_margin_is_judged_in_the_judges_contest():
    """Its own task has no finite model: what that is of does not go with the margin."""
    task = corridor()
    agent = trained(task.with_margin(RewardDifference(lambda z: 1.0 * (z.obs == 1))), "mixture")
    found = estimate_gap(task, agent, **FAST)
    assert found.exact == mdc.optimality_gap(task.contest(), agent.decision_rule(task))


@pytest.mark.parametrize("returned", ["last", "mixture"])
def test_in_another_world_no_average_of_a_mixture_is_known_exactly(returned):
    """Iterates are drawn by how long their episodes are at home; a single policy does the same everywhere."""
    home, abroad = (tasks.make("RPSCorridor", slip=slip, end=end) for slip, end in ((0.9, 0.3), (0.0, 0.02)))
    agent = trained(home, returned)
    exact = estimate_gap(abroad, agent, **FAST).exact
    assert exact == (None if returned == "mixture" else mdc.optimality_gap(abroad.contest(), agent.decision_rule()))
    assert estimate_gap(tasks.make("RPSCorridor", slip=0.9, end=0.3), agent, **FAST).exact is not None, "made alike"
