"""`estimate_gap`: brackets hold the exact gap, wrong arguments are errors, and policies and tasks are of every kind."""

import json

import gymnasium
import numpy as np
import pytest

import mdcontest as mdc
from mdcontest import tasks
from mdcontest.errors import InputError
from mdcontest.gap import GapBracket, Measured, estimate_gap
from mdcontest.gap.estimate import GapSettings
from mdcontest.learn import HPIClip
from mdcontest.learn.play import sample_trajectories
from mdcontest.learn.tabular import TabularPolicy
from mdcontest.margins import Classes, RewardDifference, Signs
from mdcontest.tasks.task import reward_difference
from small_games import RPS, TINY, Always, MayEnd
from strategies import count_of

FAST = {"trajectories": 5, "steps": 128, "restarts": 1, "evaluation_steps": 100, "settings": TINY, "progress": False}
"""For tests in which the best response has nothing to learn."""
POLICIES = 20


def corridor():
    return tasks.make("RPSCorridor")


def policy_number(task, number):
    """From any rule, number 0, to the solution, the last number."""
    weight, rng = number / (POLICIES - 1), np.random.default_rng(number)
    solution = mdc.solve(task.contest()).rule
    return TabularPolicy(task, (1 - weight) * rng.dirichlet(np.full(3, 0.5), size=3) + weight * solution)


def test_the_bracket_holds_the_exact_gap():
    """For policies from any to optimal; what training and samples leave out is small against margins of ±1."""
    task, left_out = corridor(), []
    for number in np.linspace(0, POLICIES - 1, count_of(4, POLICIES)).astype(int):
        found = estimate_gap(
            task,
            policy_number(task, int(number)),
            seed=int(number),
            steps=40_000,
            restarts=1,
            evaluation_steps=count_of(10_000, 50_000),
            progress=False,
        )
        assert found.lower <= found.exact <= found.upper, (number, str(found))
        left_out.append(found.exact - found.lower)
    assert np.mean(left_out) <= 0.05


class OnlyPredict:
    """Another library's model: it can be asked for actions and for nothing else."""

    def __init__(self, inner):
        self.inner = inner

    def predict(self, obs, state=None, episode_start=None, deterministic=False):
        return self.inner.predict(obs, state, episode_start, deterministic)


def test_agents_and_anything_else_that_predicts():
    task = corridor()
    agent = HPIClip(task, 0, num_steps=256, minibatches=4).learn(1024, progress=False)
    how = {"steps": 4096, "restarts": 2, "evaluation_steps": 5000, "settings": {"num_steps": 256, "minibatches": 4}}
    own, foreign = (estimate_gap(task, player, progress=False, **how) for player in (agent, OnlyPredict(agent)))
    assert own.exact == pytest.approx(mdc.optimality_gap(task.contest(), agent.decision_rule()))
    assert own.lower <= own.exact <= own.upper
    assert foreign.exact is None
    assert foreign.lower <= own.exact <= foreign.upper
    assert [entry["deterministic"] for entry in own.details["candidates"]] == [False, True] * 2


def test_the_same_seed_gives_the_same_answer():
    task = tasks.make("RPSContinuous")
    agent = HPIClip(task, 0, **TINY).learn(256, progress=False)
    one, other, third = (estimate_gap(task, agent, seed=seed, **FAST) for seed in (3, 3, 4))
    assert one == other
    assert one != third


def test_estimating_does_not_change_the_agent():
    one, other = (HPIClip(corridor(), 0, **TINY).learn(128, progress=False) for _ in range(2))
    estimate_gap(one.task, one, **FAST)
    for agent in (one, other):
        agent.learn(128, progress=False)
    for name, value in one.policy.weights.items():
        np.testing.assert_array_equal(value, other.policy.weights[name])


@pytest.mark.parametrize("seed", range(count_of(2, 20)))
def test_below_is_not_above(seed):
    """Of one policy whose gap is small and of one whose gap is the largest there is, and few samples."""
    task = corridor()
    for number in (POLICIES - 1, 0):
        found = estimate_gap(task, policy_number(task, number), seed=seed, **{**FAST, "trajectories": 30})
        assert 0 <= found.lower <= found.upper <= 1


# --- what it says -----------------------------------------------------------------------------------------


def test_what_is_said_of_a_bracket():
    found = GapBracket(Measured(0.2, 0.1, 0.3), Measured(0.4, 0.3, 0.5), 0.9, exact=0.25)
    assert (found.lower, found.upper) == (0.1, 0.5)
    assert (found.lower_interval, found.upper_interval) == ((0.1, 0.3), (0.3, 0.5))
    assert str(found).splitlines() == [
        "optimality gap between 0.1000 and 0.5000",
        "  from below: a trained best response wins 0.2000 [0.1000, 0.3000] (90 %)",
        "  from above: no step can win more than 0.4000 [0.3000, 0.5000] (90 %)",
        "  exact, from the finite model: 0.2500",
    ]


def test_no_gap_is_negative():
    found = GapBracket(Measured(-0.2, -0.3, -0.1), Measured(-0.02, -0.03, -0.01), 0.95)
    assert (found.lower, found.upper) == (0.0, 0.0)


def ahead(z, w):
    return np.sign(z.obs[:, 0] - w.obs[:, 0])


def test_a_function_has_no_ceiling_and_the_text_says_so():
    task = mdc.Task(tasks.make("RPSContinuous").env, ahead, name="ahead")
    found = estimate_gap(task, Always(np.zeros(1)), **FAST)
    assert (found.upper, found.upper_interval, found.ceiling, found.exact) == (None,) * 4
    assert "and ?" in str(found)
    assert "nothing is known: the values of a Pairwise margin have no known limit" in str(found)


def test_without_a_ceiling_training_goes_on_to_its_end():
    task = mdc.Task(tasks.make("RPSContinuous").env, ahead, name="ahead")
    found = estimate_gap(task, Always(np.zeros(1)), **{**FAST, "steps": 10 * 64})
    assert {entry["steps"] for entry in found.details["candidates"]} == {10 * 64}


def every_kind_of_bracket():
    task = corridor()
    yield estimate_gap(task, TabularPolicy(task, np.full((3, 3), 1 / 3)), **FAST)
    yield estimate_gap(mdc.Task(task.env, lambda z, w: np.sign(z.obs - w.obs)), Always(1), **FAST)
    yield estimate_gap(mdc.Task(lambda: MayEnd(), reward_difference(), largest_reward=1.0), Always(0), **FAST)


def test_a_record_comes_back_as_it_was():
    for found in every_kind_of_bracket():
        record = json.loads(json.dumps(found.record(), allow_nan=False))
        assert GapBracket.of_record(record) == found
        assert (record["lower"], record["upper"]) == (found.lower, found.upper)
        assert "the gap is" not in str(found)
        assert str(found).startswith("optimality gap between")


# --- wrong arguments --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"trajectories": 1}, "trajectories must be at least 2"),
        ({"trajectories": 0}, "trajectories must be a whole number, at least 1"),
        ({"steps": 0}, "steps must be a whole number, at least 1, got 0"),
        ({"steps": 1e5}, "steps must be a whole number"),
        ({"restarts": True}, "restarts must be a whole number"),
        ({"evaluation_steps": -3}, "evaluation_steps must be a whole number"),
        ({"confidence": 1.0}, "confidence must lie between 0 and 1"),
        ({"confidence": 95}, "confidence must lie between 0 and 1"),
        ({"confidence": float("nan")}, "confidence must lie between 0 and 1"),
        ({"settings": {"leraning_rate": 1}}, "there is no setting 'leraning_rate'.*learning_rate"),
        ({"settings": {"num_steps": -1}}, "num_steps"),
        ({"episodes": 5}, "takes no 'episodes'; it takes trajectories, steps"),
        ({"seed": -1}, "seed must be a whole number, at least 0, got -1"),
        ({"seed": None}, "seed must be a whole number"),
        ({"seed": 0.5}, "seed must be a whole number"),
        ({"horizon": 0}, "horizon must be a whole number, at least 1, got 0"),
        ({"horizon": 2.5}, "horizon must be a whole number"),
    ],
)
def test_wrong_settings(how, told):
    with pytest.raises(InputError, match=told):
        estimate_gap(corridor(), Always(0), **{**FAST, **how})


def test_numbers_of_numpy_are_numbers():
    settings = GapSettings(trajectories=np.int64(5), steps=np.int32(64))
    assert (type(settings.trajectories), type(settings.steps)) == (int, int)
    found = estimate_gap(corridor(), Always(0), seed=np.int64(1), **FAST)
    json.dumps(found.record())


def test_what_is_no_task_and_what_is_no_policy():
    with pytest.raises(InputError, match=r"task must be a Task, got str; tasks.make\(name\)"):
        estimate_gap("RPSCorridor", Always(0))
    with pytest.raises(InputError, match="must have a method predict, a int has none"):
        estimate_gap(corridor(), 3)


class Answers:
    """A policy whose predict gives back anything."""

    def __init__(self, answer):
        self.answer = answer

    def predict(self, obs, state=None, episode_start=None, deterministic=False):
        return self.answer


@pytest.mark.parametrize(
    ("name", "answer", "told"),
    [
        ("RPSCorridor", 1, r"must return \(action, state\)"),
        ("RPSCorridor", None, r"must return \(action, state\)"),
        ("RPSCorridor", np.array([1, 2]), r"must return \(action, state\)"),
        ("RPSCorridor", (1, None, None), r"must return \(action, state\)"),
        ("RPSCorridor", (None, None), "None is no action"),
        ("RPSCorridor", ("left", None), "'left' is no action"),
        ("RPSCorridor", (3, None), r"3 is no action of Discrete\(3\)"),
        ("RPSCorridor", (-1, None), "-1 is no action"),
        ("RPSCorridor", (0.5, None), "0.5 is no action"),
        ("RPSCorridor", (np.nan, None), "nan is no action"),
        ("RPSCorridor", (np.array([1, 1]), None), "is no action, 1 finite number"),
        ("RPSContinuous", (np.array([np.nan]), None), "is no action, 1 finite number"),
        ("RPSContinuous", (np.zeros(2), None), "is no action"),
    ],
)
def test_a_predict_that_returns_the_wrong_thing(name, answer, told):
    with pytest.raises(InputError, match=f"predict of Answers.*{told}"):
        estimate_gap(tasks.make(name), Answers(answer), **FAST)


@pytest.mark.parametrize(
    ("name", "action"), [("RPSCorridor", np.array([2])), ("RPSCorridor", np.int32(2)), ("RPSContinuous", 0.5)]
)
def test_one_number_is_an_action_in_any_form(name, action):
    plain = estimate_gap(tasks.make(name), Always(float(np.ravel(action)[0])), **FAST)
    assert estimate_gap(tasks.make(name), Always(action), **FAST).best_response == plain.best_response


def test_an_action_outside_the_box_is_clipped_as_it_is_for_every_other_policy():
    task = tasks.make("RPSContinuous")
    played = sample_trajectories(task, Always(np.array([9.0])), 3)
    assert set(played.outcomes.action.reshape(-1)) == {1.0}


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
