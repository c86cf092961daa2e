"""`estimate_gap`: brackets hold the exact gap, and say what they are."""

import json

import numpy as np
import pytest

import mdcontest as mdc
from mdcontest import tasks
from mdcontest.gap import GapBracket, Measured, estimate_gap
from mdcontest.learn import HPIClip
from mdcontest.learn.tabular import TabularPolicy
from mdcontest.tasks.task import reward_difference
from small_games import FAST, TINY, Always, MayEnd, corridor
from strategies import count_of

POLICIES = 20


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
