"""Collecting: evenly over training, every episode can be replayed, and nothing is played twice."""

import shutil

import numpy as np
import pytest

from mdcontest import tasks
from mdcontest.errors import InputError, RunError
from mdcontest.learn import HPIClip, load_agent
from mdcontest.learn import collect as module
from mdcontest.learn.collect import collect, plan
from mdcontest.learn.past import past_policy
from mdcontest.learn.play import play_episode, seed_player
from mdcontest.preferences.dataset import Dataset
from small_games import TINY

ITERATIONS = 8


def trained(folder, name, seed=0, **settings):
    agent = HPIClip(tasks.make(name), seed, **{**TINY, **settings})
    agent.learn(ITERATIONS * 64, progress=False, folder=folder)
    agent.close()
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs on the two corridors and on a robot, and a second one on the first."""
    out = tmp_path_factory.mktemp("runs")
    return {
        "discrete": trained(out / "discrete", "RPSCorridor"),
        "again": trained(out / "again", "RPSCorridor", 1),
        "continuous": trained(out / "continuous", "RPSContinuous", horizon=30),
        "robot": trained(out / "robot", "Reacher-NT", horizon=20),
    }


@pytest.mark.parametrize("kind", ["discrete", "continuous", "robot"])
def test_stored_actions_replay_the_episode(runs, kind, tmp_path):
    dataset = collect(runs[kind], tmp_path / "d", 5, seed=3, progress=False).dataset
    dataset = Dataset.open(dataset.path)
    task = dataset.task()
    env = task.make_env(dataset.horizon)
    for id in dataset.index():
        stored = dataset.trajectory(id)
        z = stored.outcomes
        obs = [env.reset(seed=stored.seed)[0]]
        for t, action in enumerate(z.action):
            found, reward, terminated, truncated, _ = env.step(int(action) if kind == "discrete" else action)
            obs.append(np.array(found))
            assert reward == z.reward[t]
            assert (terminated or truncated) == (t == len(stored) - 1)
        assert terminated == stored.terminated
        np.testing.assert_array_equal(np.array(obs[:-1]), z.obs)
        np.testing.assert_array_equal(np.array(obs[1:]), z.next_obs)
    env.close()


def test_evenly_over_training_from_the_last_iterates(runs, tmp_path):
    dataset = collect(runs["continuous"], tmp_path / "d", 5, seed=1, progress=False).dataset
    infos = list(dataset.index().values())
    assert [info.steps for info in infos] == [0, 128, 256, 384, 512]
    assert {info.source for info in infos} == {"continuous"}
    assert len({info.seed for info in infos}) == 5
    agent = load_agent(runs["continuous"])
    env = agent.task.make_env(30)
    for info in infos:
        policy = past_policy(agent, info.steps, "last")
        seed_player(policy, info.seed)
        played = play_episode(agent.task, policy, env, info.seed)
        np.testing.assert_array_equal(played.outcomes.action, dataset.trajectory(info.id).outcomes.action)
    env.close()
    # Up to some step: iterations that were complete by then, many episodes of each where there are few.
    steps = [episode.steps for episode in plan(agent, "run", 9, 0, max_steps=200)]
    assert steps == [0, 0, 64, 64, 128, 128, 128, 192, 192]
    assert [e.steps for e in plan(agent, "run", 1, 0)] == [512]
    assert [e.steps for e in plan(agent, "run", 2, 0, max_steps=10)] == [0, 0]
    agent.close()


def test_again_adds_nothing_and_more_adds_the_rest(runs, tmp_path):
    both = [runs["discrete"], runs["again"]]
    first = collect(both, tmp_path / "d", 7, progress=False)
    assert (first.new, first.known) == (7, 0)
    again = collect(both, tmp_path / "d", 7, progress=False)
    assert (again.new, again.known) == (0, 7)
    sources = [info.source for info in again.dataset.index().values()]
    assert (sources.count("discrete"), sources.count("again")) == (4, 3)
    assert collect(both, tmp_path / "d", 7, seed=1, progress=False).new == 7
    assert len(again.dataset.index()) == 14
    assert len({info.seed for info in again.dataset.index().values()}) == 14


@pytest.mark.parametrize("error", [KeyboardInterrupt, InputError, ZeroDivisionError])
def test_interrupted_and_gone_on(runs, tmp_path, monkeypatch, error):
    """What was played before is kept, and in the end there is what there would have been."""
    whole = collect(runs["discrete"], tmp_path / "whole", 6, progress=False).dataset
    played = []

    def breaking(*arguments, **options):
        if len(played) == 4:
            raise error("it broke")
        played.append(play_episode(*arguments, **options))
        return played[-1]

    with monkeypatch.context() as patch:
        patch.setattr(module, "play_episode", breaking)
        patch.setattr(module, "PART_STEPS", 2)
        with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else RunError, match="it broke"):
            collect(runs["discrete"], tmp_path / "d", 6, progress=False)
    assert len(Dataset.open(tmp_path / "d").index()) == 4
    rest = collect(runs["discrete"], tmp_path / "d", 6, progress=False)
    assert (rest.new, rest.known) == (2, 4)
    assert set(rest.dataset.index()) == set(whole.index())


def test_runs_that_do_not_go_together(runs, tmp_path):
    with pytest.raises(InputError, match="a dataset of another task"):
        collect([runs["discrete"], runs["continuous"]], tmp_path / "d", 2, progress=False)
    with pytest.raises(InputError, match="two of the runs have the same name"):
        collect([runs["discrete"], runs["discrete"]], tmp_path / "d", 2, progress=False)
    other, moved = (tmp_path / place / "continuous" for place in ("elsewhere", "moved"))
    trained(other, "RPSContinuous", 1, horizon=30)
    shutil.copytree(runs["continuous"], moved)
    collect(runs["continuous"], tmp_path / "c", 4, progress=False)
    with pytest.raises(InputError, match=r"holds episodes of another run called continuous, not of .*elsewhere"):
        collect(other, tmp_path / "c", 4, progress=False)
    assert collect(moved, tmp_path / "c", 4, progress=False).known == 4, "the same run"
    with pytest.raises(InputError, match="there are no runs"):
        collect([], tmp_path / "d", 2)
    with pytest.raises(InputError, match="holds no run"):
        collect(tmp_path, tmp_path / "d", 2)
    with pytest.raises(InputError, match="episodes must be at least 1"):
        collect(runs["discrete"], tmp_path / "d", 0)
    with pytest.raises(InputError, match="max_steps must be at least 1"):
        collect(runs["discrete"], tmp_path / "d", 1, max_steps=0)
