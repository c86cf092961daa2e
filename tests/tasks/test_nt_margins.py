"""The margins of Reacher-NT and Walker2d-NT: values by hand, and what they read of the environment."""

import mujoco
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from mdcontest import tasks
from mdcontest.tasks import walker2d_nt
from mdcontest.tasks.reacher_nt import fingertip, radius_and_angle
from shipped_tasks import random_outcomes
from strategies import seeds

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
