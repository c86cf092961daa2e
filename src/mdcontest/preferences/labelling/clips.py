"""Clips of segments: the stored actions are played again in the environment, filmed, and encoded as H.264.

No picture is stored with a trajectory. Its reset seed and its actions give the same episode again, and the observations
on the way are compared with the stored ones, so that nobody judges something else than what was recorded. A clip's name
is a hash of everything it shows; it is filmed once and then lies in the folder `clips` of the dataset.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdcontest.errors import InputError
from mdcontest.files import atomic_write
from mdcontest.preferences.labelling.camera import Camera, Picture, ended_picture
from mdcontest.preferences.references import Segment
from mdcontest.preferences.trajectories import Trajectory
from mdcontest.tasks import Task
from mdcontest.tasks.state import reset

FILM = 1
"""Part of every name: raised when clips of the same segments come to look different."""
FOLDER = "clips"
RATE = 25
"""Pictures a second that are wanted."""
FEWEST = 20
"""Pictures a clip has at least, where it has so many steps: 50 steps of an environment at 125 Hz would be ten."""
WIDEST = 480
"""Wider pictures are scaled down."""
TOLERANCE = 1e-6
"""Relative difference of observations that is put down to another processor's rounding."""


@functools.lru_cache(maxsize=10_000)
def clip_name(segment: Segment) -> str:
    """32 hexadecimal digits; a trajectory's id already stands for its content."""
    shown = json.dumps([FILM, segment.trajectory, segment.start, segment.length])
    return hashlib.sha256(shown.encode()).hexdigest()[:32]


def clip_path(folder: Path, name: str) -> Path:
    """Where a dataset keeps the clip of this name."""
    return folder / FOLDER / f"{name}.mp4"


class Replayer:
    """Films segments of trajectories of one task; the environment is made once."""

    def __init__(self, task: Task, horizon: int | None) -> None:
        self._task, self._horizon = task, horizon
        self._env: Any = None
        self._camera: Camera | None = None

    def film(self, trajectory: Trajectory, segment: Segment, path: Path) -> None:
        """Write the segment's clip; errors say why it cannot be made."""
        self._open()
        stride, rate = pace(self._env.metadata, segment.length)
        path.parent.mkdir(parents=True, exist_ok=True)
        encode(self._pictures(trajectory, segment, stride), rate, path)

    def pictures(self, trajectory: Trajectory, segment: Segment) -> list[Picture]:
        """The clip's pictures, at most one a step."""
        self._open()
        stride, _ = pace(self._env.metadata, segment.length)
        return list(self._pictures(trajectory, segment, stride))

    def close(self) -> None:
        """Close the environment; it is made anew when it is needed again."""
        camera, env, self._camera, self._env = self._camera, self._env, None, None
        if camera is not None:
            camera.close()
        if env is not None:
            self._task.close_env(env)

    def _open(self) -> None:
        if self._env is None:
            self._env = self._task.make_env(self._horizon, render_mode="rgb_array")
            self._camera = Camera(self._env)

    def _pictures(self, trajectory: Trajectory, segment: Segment, stride: int) -> Iterator[Picture]:
        """One picture every `stride` steps, of the state in which the step begins."""
        last: Picture | None = None
        steps = range(segment.start, segment.start + segment.length, stride)
        length = len(trajectory.outcomes)
        for at in self._replayed(trajectory, min(steps[-1], length - 1)):
            if at in steps and self._camera is not None:
                last = self._camera.picture()
                yield last
        if last is None:  # the segment is ⊥ throughout: it looks like the episode's last picture, in grey
            last = self._camera.picture() if self._camera is not None else np.zeros((2, 2, 3), np.uint8)
        over = sum(step >= length for step in steps)
        yield from [ended_picture(last)] * over

    def _replayed(self, trajectory: Trajectory, until: int) -> Iterator[int]:
        """Step by step through the episode again: yields each step's number while the environment stands before it."""
        if trajectory.seed is None:
            raise InputError(f"the trajectory {trajectory.id} was played without a seed and cannot be played again")
        reader, actions = self._task.spaces
        stored = trajectory.outcomes
        if stored.action is None:
            raise InputError(f"the trajectory {trajectory.id} has no actions and cannot be played again")
        obs = reset(self._env, trajectory.seed)
        for at in range(until + 1):
            raw = reader.raw(np.array([np.array(reader.flatten(obs), float)]))
            if not _same(raw, stored[at : at + 1].obs):
                raise InputError(
                    f"step {at} of the trajectory {trajectory.id} looks different when it is played again: the "
                    f"environment of {self._task.name} is not reproducible, or not the one it was recorded with"
                )
            yield at
            if at < until:
                action = stored.action[at]
                obs = self._env.step(int(action) if actions.discrete else np.array(action))[0]


def _same(one: Any, other: Any) -> bool:
    """Whether two batches of raw observations are equal up to rounding."""
    if isinstance(one, Mapping):
        return set(one) == set(other) and all(_same(one[name], other[name]) for name in one)
    a, b = np.asarray(one, float), np.asarray(other, float)
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE))


def pace(metadata: Mapping[str, Any], length: int) -> tuple[int, float]:
    """Every how many steps a picture is taken, and how many are shown a second, so that time runs as in the task."""
    own = float(metadata.get("render_fps") or 30)
    stride = max(1, min(round(own / RATE), length // FEWEST))
    return stride, own / stride


def encode(pictures: Iterable[Picture], rate: float, path: Path) -> None:
    """Write pictures as an H.264 video that every browser plays; nothing is left where it fails."""
    try:
        from imageio_ffmpeg import get_ffmpeg_exe  # type: ignore[import-untyped]
    except ImportError:
        raise InputError("clips need imageio-ffmpeg: pip install 'mdcontest[learn]'") from None
    frames = list(pictures)
    height, width = frames[0].shape[0] // 2 * 2, frames[0].shape[1] // 2 * 2
    scale = min(1.0, WIDEST / width)
    size = f"{math.floor(width * scale / 2) * 2}:{math.floor(height * scale / 2) * 2}"
    given = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{rate:g}", "-i", "-"]
    wanted = ["-vf", f"scale={size}", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-preset", "veryfast", "-crf", "23"]
    with tempfile.TemporaryDirectory(prefix="mdcontest-clip-") as folder:
        target = Path(folder) / "clip.mp4"
        done = subprocess.run(
            [get_ffmpeg_exe(), "-v", "error", *given, *wanted, "-threads", "1", "-movflags", "+faststart", str(target)],
            input=b"".join(np.ascontiguousarray(frame[:height, :width]).tobytes() for frame in frames),
            capture_output=True,
            close_fds=False,  # lets Python spawn without forking
        )
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise InputError(f"the video encoder failed: {said[-1] if said else f'exit code {done.returncode}'}")
        with atomic_write(path) as file:
            file.write(target.read_bytes())
