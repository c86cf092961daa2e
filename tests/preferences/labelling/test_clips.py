"""Clips: the same episode again, ⊥ as grey pictures, videos that decode, and a process that may die."""

import asyncio
import contextlib
import dataclasses
import itertools
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from imageio_ffmpeg import get_ffmpeg_exe

from mdcontest import tasks
from mdcontest.errors import InputError
from mdcontest.outcomes import Outcomes
from mdcontest.preferences.labelling import clips
from mdcontest.preferences.labelling.camera import ended_picture
from mdcontest.preferences.labelling.clips import Replayer, clip_name, encode, pace
from mdcontest.preferences.labelling.studio import ClipError, Studio
from mdcontest.preferences.references import Segment
from mdcontest.tasks.corridor import ContinuousCorridor
from preferences.labelling.sessions import make_dataset, play


@pytest.fixture(scope="module")
def task():
    return tasks.make("RPSContinuous", end=0.1)


@pytest.fixture
def replayer(task):
    made = Replayer(task, 30)
    yield made
    made.close()


def walker(picture):
    """Where the walker of the corridor is in a picture, from −1 to 1."""
    red = (picture == (213, 94, 0)).all(axis=2).any(axis=0)
    return np.flatnonzero(red).mean() / picture.shape[1] * 2 - 1


def decode(path):
    """The pictures of a video, and what ffmpeg says of it: codec, size, rate."""
    command = [get_ffmpeg_exe(), "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    done = subprocess.run(command, capture_output=True, check=True)
    stream = next(line for line in done.stderr.decode().splitlines() if "Video:" in line)
    width, height = map(int, re.search(r" (\d+)x(\d+)[ ,]", stream).groups())
    rate = float(re.search(r"([\d.]+) fps", stream).group(1))
    codec = "h264 yuv420p" if "h264" in stream and "yuv420p" in stream else stream
    return np.frombuffer(done.stdout, np.uint8).reshape(-1, height, width, 3), (codec, (width, height), rate)


def test_a_clip_shows_what_was_recorded(task, replayer):
    for seed in range(5):
        episode = play(task, seed, 30)
        start = min(2, len(episode) - 1)
        pictures = replayer.pictures(episode, Segment(episode.id, start, len(episode) - start))
        places = [walker(picture) for picture in pictures]
        inside = np.clip(episode.outcomes.obs[start:, 0], -0.95, 0.95)  # the walker is cut off at the walls
        np.testing.assert_allclose(places, inside, atol=0.03)


@pytest.mark.parametrize("name", ["RPSCorridor", "RPSContinuous"])
def test_replays_are_equal_to_the_last_bit(name, monkeypatch):
    monkeypatch.setattr(clips, "TOLERANCE", 0.0)
    task = tasks.make(name)
    replayer = Replayer(task, 40)
    for seed in range(5):
        episode = play(task, seed, 40)
        assert replayer.pictures(episode, Segment(episode.id, 0, len(episode)))
    replayer.close()


def test_steps_after_the_end_are_grey(task, replayer):
    episode = next(e for e in (play(task, seed, 30) for seed in range(50)) if e.terminated and 2 < len(e) < 20)
    n = len(episode)
    pictures = replayer.pictures(episode, Segment(episode.id, n - 2, 10))
    grey = ended_picture(pictures[0])
    assert [(picture == grey).all() for picture in pictures] == [False] * 2 + [True] * 8
    assert len(np.unique(grey)) > 1  # the words
    beyond = replayer.pictures(episode, Segment(episode.id, n, 4))
    assert all((picture == grey).all() for picture in beyond)


class Forgetful(ContinuousCorridor):
    """A corridor that does not begin where its seed says."""

    starts = iter(np.linspace(-0.9, 0.9, 50))

    def start(self):
        return float(next(self.starts))


class Broken(ContinuousCorridor):
    def render(self):
        raise RuntimeError("no paint left")


@pytest.mark.parametrize(("env", "words"), [(Forgetful, "not reproducible"), (Broken, "no paint left")])
def test_environments_that_cannot_be_filmed(env, words):
    task = dataclasses.replace(tasks.make("RPSContinuous"), env=lambda render_mode=None: env(0.0, render_mode))
    episode = play(task, 0, 10)
    with pytest.raises(InputError, match=words):
        Replayer(task, 10).pictures(episode, Segment(episode.id, 0, 5))


def test_trajectories_that_cannot_be_played_again(task, replayer):
    episode = play(task, 0, 30)
    with pytest.raises(InputError, match="without a seed"):
        replayer.pictures(dataclasses.replace(episode, seed=None), Segment(episode.id, 0, 1))
    bare = dataclasses.replace(episode, outcomes=Outcomes(episode.outcomes.obs))
    with pytest.raises(InputError, match="no actions"):
        replayer.pictures(bare, Segment(episode.id, 0, 1))


def test_videos_decode_to_their_pictures(task, replayer, tmp_path):
    episode = next(e for e in (play(task, seed, 30) for seed in range(50)) if len(e) >= 8)
    segment = Segment(episode.id, 1, 6)
    replayer.film(episode, segment, tmp_path / "clips" / "clip.mp4")
    frames, about = decode(tmp_path / "clips" / "clip.mp4")
    pictures = replayer.pictures(episode, segment)
    assert (len(frames), about) == (6, ("h264 yuv420p", (420, 60), 20))
    for frame, picture in zip(frames, pictures, strict=True):
        assert np.abs(frame.astype(float) - picture).mean() < 8
    content = (tmp_path / "clips" / "clip.mp4").read_bytes()
    assert content.index(b"moov") < content.index(b"mdat")  # a browser can begin before it has everything
    assert [path.name for path in (tmp_path / "clips").iterdir()] == ["clip.mp4"]


def test_odd_and_large_pictures(tmp_path):
    encode(iter([np.full((61, 1001, 3), 90, np.uint8)] * 2), 25, tmp_path / "odd.mp4")
    frames, about = decode(tmp_path / "odd.mp4")
    assert about[1] == (480, 28)
    assert abs(float(frames[0].mean()) - 90) < 5


def test_nothing_is_left_where_pictures_fail(tmp_path):
    def pictures():
        yield np.zeros((4, 4, 3), np.uint8)
        raise InputError("gone")

    with pytest.raises(InputError, match="gone"):
        encode(pictures(), 25, tmp_path / "clip.mp4")
    assert list(tmp_path.iterdir()) == []


def test_pace():
    assert pace({"render_fps": 50}, 50) == (2, 25.0)
    assert pace({"render_fps": 20}, 50) == (1, 20.0)
    assert pace({}, 100) == (1, 30.0)
    for rate in (8, 20, 50, 67, 100, 125, 500):
        for length in (1, 10, 50, 1000):
            stride, shown = pace({"render_fps": rate}, length)
            assert stride * shown == pytest.approx(rate)  # a second of the clip is a second of the task
            assert -(-length // stride) >= min(length, clips.FEWEST)


def test_names_tell_segments_apart():
    segments = [Segment(t, s, n) for t in ("a", "b") for s in range(3) for n in (5, 6)]
    names = {clip_name(segment) for segment in segments}
    assert len(names) == len(segments)
    assert all(len(name) == 32 and set(name) <= set("0123456789abcdef") for name in names)


# --- the process ------------------------------------------------------------------------------------------


def with_studio(dataset, use):
    async def run():
        studio = Studio(dataset.path)
        try:
            return await use(studio)
        finally:
            await studio.stop()

    return asyncio.run(run())


def test_the_process_films_says_no_and_is_started_again(tmp_path):
    dataset = make_dataset(tmp_path / "dataset", count=2)
    one, other = (Segment(id, 0, 12) for id in dataset.index())

    async def use(studio):
        await studio.film(one)
        assert studio.has(one)
        await studio.film(one)  # is there
        with pytest.raises(ClipError, match="no trajectory"):
            await studio.film(Segment("nothing", 0, 12))
        os.kill(studio._process.pid, signal.SIGKILL)
        await studio.film(other)
        assert studio.started == 2
        studio.path(clip_name(other)).unlink()
        studio.look_again()
        os.kill(studio._process.pid, signal.SIGSTOP)  # hangs from now on
        studio._patience = 0.3
        asked = asyncio.create_task(studio.film(other))
        with contextlib.suppress(ClipError):
            await asked  # the second attempt may take longer than the patience of this test, too
        return studio.started

    assert with_studio(dataset, use) == 3


def test_mujoco(tmp_path):
    dataset = make_dataset(tmp_path / "dataset", count=1, steps=60, name="Reacher-NT")
    segment = Segment(next(iter(dataset.index())), 7, 50)

    async def use(studio):
        try:
            await studio.film(segment)
        except ClipError as error:
            if any(word in str(error) for word in ("EGL", "OpenGL", "gladLoadGL", "GLError")):
                pytest.skip(f"MuJoCo cannot draw here: {error}")
            raise
        return decode(studio.path(clip_name(segment)))

    frames, about = with_studio(dataset, use)
    assert (len(frames), about) == (25, ("h264 yuv420p", (240, 240), 25))
    assert any(np.abs(a.astype(float) - b).max() > 60 for a, b in itertools.pairwise(frames))  # it moves


NOISY = """
import os, sys
from mdcontest.preferences.labelling import film

def noisy(*_):
    os.write(1, b"as a C library prints\\n")
    raise film.InputError("x" * 2_000_000)

film._film = noisy
film.main(sys.argv[1])
"""


def test_what_an_environment_prints_is_no_answer(tmp_path):
    dataset = make_dataset(tmp_path / "dataset", count=1)
    done = subprocess.run(
        [sys.executable, "-c", NOISY, dataset.path], input=b'{"clip": "c"}\n', capture_output=True, timeout=60
    )
    assert json.loads(done.stdout) == {"clip": "c", "error": "x" * 1000}
