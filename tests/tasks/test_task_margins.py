"""Margins of the tasks: structure against O(B²), values by hand, ended episodes, the registry, the exact corridor."""

import functools
from importlib.metadata import EntryPoint

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from mdcontest import tasks
from mdcontest.learn.networks import initial_params
from mdcontest.learn.policy import Policy, Unchanged
from mdcontest.learn.rollout import Collector
from mdcontest.settings import Settings
from mdcontest.tasks import registry, walker2d_nt
from mdcontest.tasks.reacher_nt import fingertip, radius_and_angle
from strategies import dense_transitions, seeds

SHIPPED = tasks.names()


@functools.cache
def random_outcomes(name, steps=300, seed=0):
    """Outcomes of uniformly random actions in a shipped task, episodes one after the other."""
    task = tasks.make(name)
    reader, _ = task.spaces
    env = task.make_env()
    env.action_space.seed(seed)
    obs, _ = env.reset(seed=seed)
    rows = []
    for _ in range(steps):
        action = env.action_space.sample()
        after, reward, terminated, truncated, _ = env.step(action)
        rows.append(
            (np.array(reader.flatten(obs), float), action, float(reward), np.array(reader.flatten(after), float))
        )
        obs = env.reset()[0] if terminated or truncated else after
    env.close()
    before, action, reward, after = (np.array(column) for column in zip(*rows, strict=True))
    return task, mdc.Outcomes(reader.raw(before), action, reward, reader.raw(after))


def collected(task, num_steps=40, num_envs=1):
    """Outcomes as a learner gets them, from an untrained policy."""
    observations, actions = task.spaces
    settings = Settings(num_steps=num_steps, num_envs=num_envs, minibatches=1)
    params = initial_params(observations.size, actions.size, (8,), actions.discrete, 0)
    policy = Policy(params["actor"], Unchanged(observations.size))
    collector = Collector(task, settings, np.random.SeedSequence(0))
    collector.start(policy.moments)
    rollout = collector.collect(policy, np.random.default_rng(0), 0)
    collector.close()
    return rollout.outcomes(task)


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


# --- Reacher-NT -------------------------------------------------------------------------------------------


def reacher(*poses):
    """Outcomes with the arm at these angles of shoulder and elbow, in degrees; all else is zero."""
    shoulder, elbow = np.deg2rad(np.array(poses, float)).T
    obs = np.zeros((len(poses), 10))
    obs[:, :4] = np.stack([np.cos(shoulder), np.cos(elbow), np.sin(shoulder), np.sin(elbow)], axis=1)
    return mdc.Outcomes(obs)


# z, w, M(z, w) with θ = π: 0.7 for the shoulder ahead counter-clockwise, 0.3 for the fingertip farther out.
HALF_TURN = {
    "ahead": ((90, 0), (0, 0), 0.7),
    "behind": ((0, 0), (90, 0), -0.7),
    "ahead by nearly half a turn": ((179, 0), (0, 0), 0.7),
    "more than half a turn ahead is behind": ((181, 0), (0, 0), -0.7),
    "half a turn": ((180, 0), (0, 0), 0.0),
    "half a turn across the wrap": ((90, 0), (-90, 0), 0.0),
    "ahead across the wrap": ((-170, 0), (170, 0), 0.7),
    "farther out": ((30, 0), (30, 60), 0.3),
    "nearer": ((30, 90), (30, -60), -0.3),
    "both": ((40, 10), (30, 60), 1.0),
    "ahead but nearer": ((40, 60), (30, 10), 0.4),
    "behind but farther out": ((30, 10), (40, 60), -0.4),
    "the same": ((30, 20), (30, 20), 0.0),
    "elbow to the other side": ((30, 20), (30, -20), 0.0),
    "a turn more is the same": ((390, 20), (30, 20), 0.0),
}


@pytest.mark.parametrize("case", HALF_TURN)
def test_reacher_nt_by_hand(case):
    z, w, expected = HALF_TURN[case]
    margin = tasks.make("Reacher-NT").margin
    np.testing.assert_allclose(margin.matrix(reacher(z), reacher(w)), [[expected]], atol=1e-15)
    np.testing.assert_allclose(margin.matrix(reacher(w), reacher(z)), [[-expected]], atol=1e-15)


def test_reacher_nt_counts_no_lead_of_theta_or_more():
    margin = tasks.make("Reacher-NT", theta=np.pi / 3).margin
    leads = [0, 10, 59, 60, 61, 179, 180, 181, 299, 300, 301, 350]
    expected = [0, 0.7, 0.7, 0, 0, 0, 0, 0, 0, 0, -0.7, -0.7]
    found = margin.matrix(reacher(*[(lead, 0) for lead in leads]), reacher((0, 0)))[:, 0]
    np.testing.assert_allclose(found, expected, atol=1e-15)


def test_reacher_nt_clockwise_flips_the_angle_only():
    z, w = reacher((40, 10), (35, 60), (200, 3)), reacher((30, 60), (100, 5))
    forth = tasks.make("Reacher-NT", radius_weight=0).margin.matrix(z, w)
    radius = tasks.make("Reacher-NT", angle_weight=0).margin.matrix(z, w)
    clockwise = tasks.make("Reacher-NT", direction="clockwise").margin.matrix(z, w)
    assert np.abs(forth).min() == 0.7
    np.testing.assert_allclose(clockwise, radius - forth, atol=1e-15)


def scalar_reacher_margin(z, w, theta):
    """The margin of two poses (shoulder, elbow) in radians, straight from its text: by where the fingertip is."""

    def distance(pose):
        x = 0.1 * np.cos(pose[0]) + 0.11 * np.cos(pose[0] + pose[1])
        y = 0.1 * np.sin(pose[0]) + 0.11 * np.sin(pose[0] + pose[1])
        return (x * x + y * y) ** 0.5

    total = 0.3 if distance(z) > distance(w) else -0.3
    lead = (z[0] - w[0]) % (2 * np.pi)
    if 0 < lead < theta:
        total += 0.7
    elif lead > 2 * np.pi - theta:
        total -= 0.7
    return total


@given(seeds, st.sampled_from([np.pi, 2.0, np.pi / 2, 0.3, 0.01]))
def test_reacher_nt_is_the_scalar_margin(seed, theta):
    poses = np.random.default_rng(seed).uniform(-np.pi, np.pi, size=(25, 2))
    z = reacher(*np.rad2deg(poses))
    task = tasks.make("Reacher-NT", theta=theta)
    expected = np.array([[0.0 if i == j else scalar_reacher_margin(a, b, theta) for j, b in enumerate(poses)]
                         for i, a in enumerate(poses)])  # fmt: skip
    np.testing.assert_allclose(task.margin.matrix(z, z), expected, atol=1e-12)
    np.testing.assert_allclose(task.cumulant(z, z), expected.mean(axis=1), atol=1e-12)


def test_reacher_nt_reads_the_fingertip_of_the_environment():
    """ρ is the distance of MuJoCo's own fingertip, α the angle of its first arm, counter-clockwise from the x axis."""
    env = tasks.make("Reacher-NT").make_env()
    env.reset(seed=3)
    env.action_space.seed(3)
    for _ in range(40):
        obs = env.step(env.action_space.sample())[0]
    # MuJoCo's positions of bodies are one substep older than its joints, until they are computed again.
    mujoco.mj_kinematics(env.unwrapped.model, env.unwrapped.data)
    mujoco.mj_comPos(env.unwrapped.model, env.unwrapped.data)
    elbow, hand = (env.unwrapped.get_body_com(name)[:2] for name in ("body1", "fingertip"))
    radius, angle = radius_and_angle(mdc.Outcomes(obs[None]))[0]
    np.testing.assert_allclose(radius, np.linalg.norm(hand), atol=1e-9)
    np.testing.assert_allclose(angle, np.arctan2(elbow[1], elbow[0]), atol=1e-9)
    env.close()


def test_reacher_nt_fingertip_is_the_target_plus_the_way_from_it():
    # The observation's own way from the target is a substep old: at most 0.01 s at a few turns a second.
    _, z = random_outcomes("Reacher-NT")
    np.testing.assert_allclose(np.linalg.norm(fingertip(z.obs), axis=1), radius_and_angle(z)[:, 0], atol=0.01)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"theta": 0.0}, r"theta must lie in \(0, π\], got 0"),
        ({"theta": 3.2}, "theta"),
        ({"theta": float("nan")}, "theta"),
        ({"direction": "left"}, "direction must be counter-clockwise or clockwise, got 'left'"),
    ],
)
def test_reacher_nt_refuses(settings, message):
    with pytest.raises(mdc.InputError, match=message):
        tasks.make("Reacher-NT", **settings)


# --- Walker2d-NT ------------------------------------------------------------------------------------------


def walker(*poses):
    """Outcomes of these heights, angles and speeds; all else is zero."""
    obs = np.zeros((len(poses), 17))
    obs[:, [0, 1, 8]] = poses
    return mdc.Outcomes(obs)


# Height counts from 1 to 1.3, speed from 0 to 2, the angle from 0.5 down to 0; each is cut to [0, 1].
POSES = {
    "high": ((1.3, 0.5, 0.0), [1, 0, 0], 0),
    "higher": ((1.6, 0.25, 1.0), [1, 0.5, 0.5], 0),
    "fast": ((1.0, -0.5, 2.0), [0, 1, 0], 1),
    "rather fast": ((1.15, 0.4, 1.2), [0.5, 0.6, 0.2], 1),
    "stable": ((1.0, 0.0, 0.0), [0, 0, 1], 2),
    "stable, leaning back": ((1.15, -0.1, 1.2), [0.5, 0.6, 0.8], 2),
    "lying still": ((0.8, 1.0, -1.0), [0, 0, 0], 0),
    "tie of all": ((1.3, 0.0, 2.0), [1, 1, 1], 0),
}


def test_walker2d_nt_classes_by_hand():
    z = walker(*(pose for pose, _, _ in POSES.values()))
    np.testing.assert_allclose(walker2d_nt.scores(z.obs), [scores for _, scores, _ in POSES.values()], atol=1e-12)
    np.testing.assert_array_equal(walker2d_nt.dominant_class(z), [label for _, _, label in POSES.values()])


def test_walker2d_nt_margins_by_hand():
    # High beats fast, fast beats stable, stable beats high; one lying still counts as high.
    high, fast, stable, lying = (POSES[name][0] for name in ("high", "fast", "stable", "lying still"))
    z = walker(high, fast, stable, lying)
    expected = np.array([[0, 1, -1, 0], [-1, 0, 1, -1], [1, -1, 0, 1], [0, 1, -1, 0]])
    np.testing.assert_array_equal(tasks.make("Walker2d-NT").margin.matrix(z, z), expected)
    reverse = tasks.make("Walker2d-NT", direction="stable-fast-high")
    np.testing.assert_array_equal(reverse.margin.matrix(z, z), -expected)
    np.testing.assert_allclose(tasks.make("Walker2d-NT").cumulant(z, z), [0.0, -0.25, 0.25, 0.0], atol=1e-15)


def test_walker2d_nt_weights_multiply_the_scores():
    # (0.5, 0.6, 0.8): times (2, 1, 1) the height of 1.0 is largest.
    z = walker(POSES["stable, leaning back"][0])
    assert walker2d_nt.dominant_class(z, (2.0, 1.0, 1.0)) == [0]
    fast = walker(POSES["fast"][0])
    assert tasks.make("Walker2d-NT", weights=(2, 1, 1)).margin.matrix(z, fast) == [[1.0]]
    assert tasks.make("Walker2d-NT").margin.matrix(z, fast) == [[-1.0]]
    for weights in [(1, 1), (1, 0, 1), (1, float("nan"), 1)]:
        with pytest.raises(mdc.InputError, match="three positive numbers"):
            tasks.make("Walker2d-NT", weights=weights)
    with pytest.raises(mdc.InputError, match="'fast-high-stable'"):
        tasks.make("Walker2d-NT", direction="fast-high-stable")


def test_walker2d_nt_reads_height_angle_and_speed_of_the_environment():
    env = tasks.make("Walker2d-NT").make_env()
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(10):
        obs = env.step(env.action_space.sample())[0]
    data = env.unwrapped.data
    np.testing.assert_allclose(obs[[0, 1, 8]], [data.qpos[1], data.qpos[2], data.qvel[0]])
    env.close()


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


# --- what a margin sees -----------------------------------------------------------------------------------


class Kitchen(gymnasium.Env):
    """A Dict observation and an info beside it; the clock counts the steps, the place is the last action."""

    observation_space = spaces.Dict({"place": spaces.Box(-1.0, 1.0, (2,), np.float32), "room": spaces.Discrete(3)})
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock = 0
        return {"place": np.zeros(2, np.float32), "room": 0}, {}

    def step(self, action):
        self.clock += 1
        obs = {"place": np.asarray(action, np.float32), "room": self.clock % 3}
        return obs, 0.0, self.clock == 7, False, {"clock": self.clock, "pose": np.array([self.clock, 2.0])}


def test_dict_observations_reach_the_margin_as_a_mapping():
    seen = []

    def margin(z, w):
        seen.append(z)
        return (z.obs["room"] - w.obs["room"]) + (z.next_obs["place"][:, 0] - w.next_obs["place"][:, 0])

    task = mdc.Task(Kitchen, margin)
    z = collected(task)
    np.testing.assert_array_equal(z.obs["room"], np.arange(40) % 7 % 3)
    np.testing.assert_array_equal(z.next_obs["place"], z.action)
    assert z.obs["place"].shape == (40, 2)
    assert len(z) == 40
    value = z.obs["room"] + z.next_obs["place"][:, 0].astype(float)
    np.testing.assert_allclose(task.cumulant(z, z), value - value.mean(), atol=1e-6)
    assert set(seen[0].obs) == {"place", "room"}


def test_info_keys_reach_the_margin():
    task = mdc.Task(Kitchen, lambda z, w: z.info["clock"] - w.info["clock"], info_keys=["clock", "pose"])
    z = collected(task, num_steps=21, num_envs=2)
    clock = np.repeat(np.arange(21) % 7 + 1, 2)
    np.testing.assert_array_equal(z.info["clock"], clock)
    np.testing.assert_array_equal(z.info["pose"], np.stack([clock, np.full(42, 2.0)], axis=1))
    np.testing.assert_allclose(task.cumulant(z, z), clock - 4.0, atol=1e-12)
    assert mdc.Task(Kitchen, task.margin, info_keys="clock").info_keys == ("clock",)


def test_an_info_that_is_not_there_is_named():
    with pytest.raises(
        mdc.RunError, match=r"Kitchen: the info of step 1 has no entry 'watch', it has \['clock', 'pose'\]"
    ):
        collected(mdc.Task(Kitchen, lambda z, w: z.reward - w.reward, info_keys=["watch"]))


# --- the registry -----------------------------------------------------------------------------------------


def kitchen_task(rooms: int = 3):
    return mdc.Task(Kitchen, lambda z, w: (z.obs["room"] - w.obs["room"]) / rooms)


@pytest.fixture
def own_registry(monkeypatch):
    """A registry whose changes are forgotten after the test."""
    monkeypatch.setattr(registry, "_makers", dict(registry._makers))
    return registry


def test_an_unknown_task_lists_the_known_ones():
    with pytest.raises(mdc.InputError, match=r"no task 'Hopper'; did you mean Hopper-v5"):
        tasks.make("Hopper")


def test_an_unknown_setting_of_a_task_is_named():
    with pytest.raises(mdc.InputError, match=r"Hopper-v5 does not take these settings: .*'theta'"):
        tasks.make("Hopper-v5", theta=1.0)


def test_settings_of_a_made_task_are_kept_with_it():
    task = tasks.make("Reacher-NT", theta=1.0)
    assert task.settings == {"theta": 1.0}
    assert task.name == "Reacher-NT"
    assert tasks.make("Hopper-v5").settings == {}
    assert mdc.Task("Hopper-v5", tasks.reward_difference()).settings is None


def test_a_registered_task_is_made_by_name(own_registry):
    tasks.register("Kitchen-v0", kitchen_task)
    assert "Kitchen-v0" in tasks.names()
    task = tasks.make("Kitchen-v0", rooms=2)
    assert (task.name, task.settings) == ("Kitchen-v0", {"rooms": 2})
    for taken in ("Kitchen-v0", "Hopper-v5"):
        with pytest.raises(mdc.InputError, match=f"already a task '{taken}'"):
            tasks.register(taken, kitchen_task)
    tasks.register("No-Task", lambda: 3)
    with pytest.raises(mdc.InputError, match="registered as No-Task makes a int, not a Task"):
        tasks.make("No-Task")


def test_tasks_of_other_packages_come_through_entry_points(monkeypatch):
    points = [
        EntryPoint("Their-Corridor", "mdcontest.tasks.corridor:rps_corridor", registry.GROUP),
        EntryPoint("Hopper-v5", "nowhere:nothing", registry.GROUP),  # ours goes first
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == registry.GROUP else [])
    assert tasks.names() == [*SHIPPED, "Their-Corridor"]
    task = tasks.make("Their-Corridor", slip=0.25)
    assert (task.name, task.settings) == ("Their-Corridor", {"slip": 0.25})
    assert tasks.make("Hopper-v5").env == "Hopper-v5"
    with pytest.raises(mdc.InputError, match="already a task 'Their-Corridor'"):
        tasks.register("Their-Corridor", kitchen_task)


TASK_ERRORS = {
    "no environment": (lambda: mdc.Task(3, tasks.reward_difference()), "Gymnasium id or a function.*got int"),
    "no margin": (lambda: mdc.Task("Hopper-v5", 3), "fn must be a function"),
    "horizon of nothing": (lambda: tasks.make("Hopper-v5", horizon=0), "horizon must be .* at least 1.* got 0"),
    "unknown id": (lambda: mdc.Task("Hoper-v5", lambda z, w: 0).make_env(), "cannot make the environment Hoper-v5"),
    "unknown option": (
        lambda: mdc.Task("Hopper-v5", lambda z, w: 0, env_settings={"legs": 3}).make_env(),
        "Hopper-v5 does not take these settings: .*legs",
    ),
    "maker of something else": (lambda: mdc.Task(dict, lambda z, w: 0).make_env(), "dict must make a gymnasium.Env"),
    "no model": (lambda: tasks.make("Hopper-v5").contest(), "Hopper-v5 has no finite model"),
    "slip": (lambda: tasks.make("RPSCorridor", slip=1.5), "slip is a probability below 1, got 1.5"),
    "end": (lambda: tasks.make("RPSContinuous", end=-0.1), "end is a probability below 1, got -0.1"),
}


@pytest.mark.parametrize("case", TASK_ERRORS)
def test_errors_name_the_culprit(case):
    make, message = TASK_ERRORS[case]
    with pytest.raises(mdc.InputError, match=message):
        make()


def test_the_horizon_of_a_call_goes_before_the_tasks_and_that_before_the_registered():
    def length(task, horizon=None):
        env = task.make_env(horizon)
        env.reset(seed=0)
        steps, ended = 0, False
        while not ended:
            _, _, terminated, truncated, _ = env.step(np.zeros(env.action_space.shape, np.float32))
            steps, ended = steps + 1, terminated or truncated
        env.close()
        return steps

    assert length(tasks.make("Reacher-NT")) == 50
    assert length(tasks.make("Reacher-NT", horizon=70)) == 70
    assert length(tasks.make("Reacher-NT", horizon=70), 30) == 30
    assert length(tasks.make("RPSContinuous", end=0.0), 12) == 12


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
