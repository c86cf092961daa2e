"""Which runs are judged by their returns: those that say so, and older ones of which something else tells it."""

import json

import gymnasium
import pytest

import mdcontest as mdc
from mdcontest.experiments.store import Store
from mdcontest.learn import HPIClip, load_agent
from mdcontest.learn.runs import describe
from mdcontest.report import statistics as st
from mdcontest.report.study import INVERTED, RETURN, make_study
from report.stores import write_gap, write_run

OWN = {"horizon": None, "env_settings": {}, "info_keys": [], "ended": None}
PAIRWISE, REWARD = OWN | {"margin": "Pairwise"}, OWN | {"margin": "RewardDifference"}


def pole():
    return gymnasium.make("CartPole-v1")


def study_of(out, task, **how):
    """Two algorithms, five seeds, of which SPPO has the higher return."""
    for algorithm, height in (("sppo", 9.0), ("hpi-clip", 3.0)):
        for seed in range(5):
            returns = [height + 0.1 * seed] * 50
            write_run(out, task, algorithm, seed, target=50, episodes=(list(range(1, 51)), returns), **how)
    return make_study(Store(out))


@pytest.mark.parametrize(
    ("task", "how", "measure"),
    [
        ("Mine", {"parts": REWARD, "by_return": True}, RETURN),
        ("Mine", {"parts": REWARD, "by_return": False}, INVERTED),
        ("Not-Known-Here", {"by_return": True}, RETURN),
        ("Not-Known-Here", {"by_return": False}, INVERTED),
        # Older runs: the registry's own tasks, and tasks of one's own by the kind of their margin.
        ("Hopper-v5", {}, RETURN),
        ("Reacher-NT", {}, INVERTED),
        ("Mine", {"parts": PAIRWISE}, INVERTED),
        ("Hopper-v5", {"parts": PAIRWISE}, INVERTED),
        ("Mine", {"parts": REWARD}, INVERTED),
        ("Not-Known-Here", {}, RETURN),
    ],
)
def test_returns_are_compared_only_where_they_count(tmp_path, task, how, measure):
    (found,) = study_of(tmp_path, task, **how).tasks
    assert found.measure == measure
    assert found.verdicts == ({"hpi-clip": st.LOWER} if measure == RETURN else {})


def test_one_run_of_which_returns_say_nothing_is_enough(tmp_path):
    write_run(tmp_path, "Mine", "sppo", 9, target=50, episodes=([1], [1.0]), by_return=False)
    assert study_of(tmp_path, "Mine", by_return=True).tasks[0].measure == INVERTED


def test_a_reward_of_unknown_origin_is_named_with_the_way_out(tmp_path):
    found = study_of(tmp_path / "reward", "Mine", parts=REWARD).notes
    assert any("10 older runs do not say whether their margin is the environment's reward" in note for note in found)
    assert any("load_agent(FOLDER, task=…).save(FOLDER)" in note for note in found)
    known = study_of(tmp_path / "pairs", "Mine", parts=PAIRWISE).notes
    assert not any("older runs" in note for note in known)


def test_brackets_of_an_older_run_of_ones_own_task_count(tmp_path):
    run = write_run(tmp_path, "Mine", "sppo", 0, target=30, parts=REWARD)
    for step in (10, 30):
        write_gap(run, step, 0.5)
    assert make_study(Store(tmp_path)).tasks[0].grid.tolist() == [10, 30]


REWARDS = {
    "the environment's": (mdc.tasks.reward_difference(), None, True),
    "somebody's": (mdc.margins.RewardDifference(lambda z: -abs(z.obs[:, 2])), None, False),
    "the environment's, and ended episodes count for more": (mdc.tasks.reward_difference(), -5.0, False),
    "none": (mdc.margins.Signs(lambda z: z.obs), None, False),
}


@pytest.mark.parametrize("case", REWARDS)
def test_a_run_says_whether_returns_count(case):
    margin, ended, counts = REWARDS[case]
    task = mdc.Task(pole, margin, ended=ended, name="Pole")
    assert task.is_judged_by_return == counts
    agent = HPIClip(task, num_steps=64, minibatches=2, epochs=1, hidden=(8,))
    assert describe(agent, 10, False)["judged_by_return"] == counts
    agent.close()


def test_a_learned_margin_does_not_change_what_the_task_is_about():
    learned = mdc.margins.Signs(lambda z: z.obs)
    assert mdc.tasks.make("Hopper-v5").with_margin(learned).is_judged_by_return
    assert not mdc.tasks.make("Reacher-NT").with_margin(mdc.tasks.reward_difference()).is_judged_by_return


def save_and_close(agent, folder):
    agent.save(folder)
    agent.close()


def test_saving_an_older_run_again_writes_it_down(tmp_path):
    task = mdc.Task(pole, mdc.tasks.reward_difference(), name="Pole")
    save_and_close(HPIClip(task, num_steps=64, minibatches=2, epochs=1, hidden=(8,)), tmp_path / "run")
    file = tmp_path / "run" / "run.json"
    older = json.loads(file.read_text())
    assert older.pop("judged_by_return") is True
    file.write_text(json.dumps(older))
    save_and_close(load_agent(tmp_path / "run", task), tmp_path / "run")
    assert json.loads(file.read_text())["judged_by_return"] is True
