"""Episodes of Minari datasets, written here and read without a network."""

import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from mdcontest import tasks
from mdcontest.cli import main
from mdcontest.errors import InputError
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.minari_source import minari_trajectories
from mdcontest.tasks import Task

minari = pytest.importorskip("minari")
ID = "test/corridor-v0"


def episode(seed, length, terminated, size=1):
    rng = np.random.default_rng(seed)
    ends = [i == length - 1 for i in range(length)]
    return minari.data_collector.EpisodeBuffer(
        seed=seed,
        observations=rng.uniform(-1, 1, (length + 1, size)),
        actions=rng.uniform(-1, 1, (length, 1)),
        rewards=rng.normal(size=length).tolist(),
        terminations=[end and terminated for end in ends],
        truncations=[end and not terminated for end in ends],
        infos={"height": rng.normal(size=length + 1)},
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A local dataset of two episodes, one of which ended by itself."""
    episodes, box = [episode(5, 4, True), episode(6, 3, False)], spaces.Box(-1.0, 1.0, (1,), np.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(tmp_path_factory.mktemp("minari")))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of author, code and such, which a dataset for a test has not
            minari.create_dataset_from_buffers(ID, episodes, action_space=box, observation_space=box)
        yield episodes


def test_episodes_become_trajectories(stored):
    found = list(minari_trajectories(ID, tasks.make("RPSContinuous")))
    assert [(len(t), t.terminated, t.seed, t.source) for t in found] == [
        (4, True, 5, f"minari:{ID}"),
        (3, False, 6, f"minari:{ID}"),
    ]
    for one, expected in zip(found, stored, strict=True):
        z = one.outcomes
        np.testing.assert_array_equal(z.obs, expected.observations[:-1])
        np.testing.assert_array_equal(z.next_obs, expected.observations[1:])
        np.testing.assert_array_equal(z.action, expected.actions)
        np.testing.assert_array_equal(z.reward, expected.rewards)


class Plain(gymnasium.Env):
    """Only its spaces are looked at."""

    def __init__(self, observations=1, actions=1):
        self.observation_space = spaces.Box(-1.0, 1.0, (observations,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (actions,), np.float32)


def test_types_and_info_are_the_tasks(stored):
    task = Task(Plain, lambda z, w: z.info["height"] - w.info["height"], info_keys=["height"])
    (one, _) = minari_trajectories(ID, task)
    assert (one.outcomes.obs.dtype, one.outcomes.action.dtype) == (np.float32, np.float32)
    np.testing.assert_array_equal(one.outcomes.info["height"], stored[0].infos["height"][1:])


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Task(lambda: Plain(observations=2), lambda z, w: 0), "episode 0 .* does not fit .*has shape"),
        (Task(lambda: Plain(actions=3), lambda z, w: 0), r"actions have shape \(4, 1\) .* expected \(4, 3\)"),
        (Task(Plain, lambda z, w: 0, info_keys=["speed"]), "its info has no entry 'speed'"),
    ],
)
def test_episodes_that_do_not_fit(stored, task, message):
    with pytest.raises(InputError, match=message):
        list(minari_trajectories(ID, task))


def test_a_dataset_that_is_not_here(stored):
    with pytest.raises(InputError, match=rf"cannot read the Minari dataset test/none-v0: .*on this machine: {ID}"):
        list(minari_trajectories("test/none-v0", tasks.make("RPSContinuous")))


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(InputError, match=r"need minari, not installed here: pip install 'mdcontest\[minari\]'"):
        list(minari_trajectories(ID, tasks.make("RPSContinuous")))


def test_from_the_command_line(stored, tmp_path, capsys):
    arguments = ["collect", "--minari", ID, "--task", "RPSContinuous", "--out", str(tmp_path / "d")]
    assert main([*arguments, "--trajectories", "1"]) == 0
    assert capsys.readouterr().out.startswith("1 new trajectories; ")
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith("1 new trajectories (1 were there already); ")
    assert len(Dataset.open(tmp_path / "d").index()) == 2
    for wrong, message in (
        (["collect", "--minari", ID, "--out", "d"], "--minari needs --task"),
        ([*arguments, "run"], "leave out the runs"),
        ([*arguments[:2], "test/none-v0", *arguments[3:]], "cannot read the Minari dataset"),
    ):
        assert main(wrong) == 2
        err = capsys.readouterr().err
        assert message in err
        assert len(err.splitlines()) == 1
