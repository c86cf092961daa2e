"""Films of policies: what an environment draws may be anything, and a film that was there stays."""

import gymnasium
import numpy as np
import pytest

import mdcontest as mdc
from mdcontest.errors import InputError
from mdcontest.learn import HPIClip
from mdcontest.learn.evaluate import record_video
from small_games import TINY


class Drawn(gymnasium.Env):
    """Five steps, drawn as `picture(step)` says."""

    observation_space = action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)
    picture = staticmethod(lambda step: np.zeros((8, 6, 3), np.uint8))

    def __init__(self, render_mode=None):
        self.render_mode, self.steps = render_mode, 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(1), 0.0, self.steps == 5, False, {}

    def render(self):
        return type(self).picture(self.steps)


def agent_that_draws(rate=30, picture=Drawn.picture):
    settings = {"metadata": {"render_modes": ["rgb_array"], "render_fps": rate}, "picture": staticmethod(picture)}
    kind = type("Drawn", (Drawn,), settings)
    task = mdc.Task(lambda render_mode=None: kind(render_mode), lambda z, w: z.reward - w.reward, name="Drawn")
    return HPIClip(task, **TINY)


def pictures(*shape):
    return lambda step: np.zeros(shape, np.uint8)


@pytest.mark.parametrize("rate", [30, np.int64(20), 24.5, None, 1, 1000])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_films(rate, channels, tmp_path):
    agent = agent_that_draws(rate, pictures(9, 7, channels))
    assert record_video(agent, tmp_path / "v.mp4") == 5
    assert [path.name for path in tmp_path.iterdir()] == ["v.mp4"]


FAULTS = {
    "growing": ({"picture": lambda step: np.zeros((8, 8 + 2 * (step > 2), 3), np.uint8)}, r"\(8, 10, 3\) after ones"),
    "five channels": ({"picture": pictures(8, 8, 5)}, r"shape \(8, 8, 5\) instead of a picture: .* 1, 3 or 4 channels"),
    "a dot": ({"picture": pictures(1, 1, 3)}, r"shape \(1, 1, 3\) instead of a picture: uint8, at least 2 × 2"),
    "floats": ({"picture": lambda step: np.zeros((8, 8, 3))}, "float64 of shape"),
    "fast": ({"rate": "fast"}, "render_fps = 'fast'; that is a number from 1 to 1000"),
    "backwards": ({"rate": -3}, "render_fps = -3"),
    "slow": ({"rate": 0.5}, "render_fps = 0.5"),
    "no number": ({"rate": float("nan")}, "render_fps = nan"),
    "endless": ({"rate": float("inf")}, "render_fps = inf"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_film_that_cannot_be_made_leaves_the_one_before(fault, tmp_path):
    drawn, message = FAULTS[fault]
    (tmp_path / "v.mp4").write_bytes(b"a film")
    with pytest.raises(InputError, match=message):
        record_video(agent_that_draws(**drawn), tmp_path / "v.mp4")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("v.mp4", b"a film")]
