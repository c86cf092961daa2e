"""Playing a policy: episodes as raw outcomes, how they went, and pictures of them."""

from __future__ import annotations

import contextlib
import functools
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdcontest.arrays import Array, is_number
from mdcontest.errors import InputError
from mdcontest.learn.agent import Agent
from mdcontest.learn.play import Played, play_episode, require_counts, seed_player
from mdcontest.outcomes import concatenate
from mdcontest.tasks.faults import RAISED, guarded_margin, told

MOST_RATE = 1000
"""Pictures a second of a film."""


@dataclass(frozen=True)
class Evaluation:
    """How a policy did over several episodes."""

    returns: Array
    lengths: Array
    margin_vs_first: float | None
    """Mean margin of a step against samples of the first policy; None for an agent that has not learned yet."""

    def record(self) -> dict[str, Any]:
        """As plain values, with means and the standard deviation over episodes."""
        return {
            "episodes": len(self.returns),
            "return_mean": float(self.returns.mean()),
            "return_std": float(self.returns.std()),
            "length_mean": float(self.lengths.mean()),
            "margin_vs_first": self.margin_vs_first,
            "returns": self.returns.tolist(),
            "lengths": self.lengths.astype(int).tolist(),
        }


def play_episodes(agent: Agent, episodes: int, seed: int = 0, deterministic: bool = False) -> list[Played]:
    """Several episodes with seeds seed, seed + 1, …; the draws of the policy start from the same seed."""
    episodes, seed = require_counts(episodes, seed)
    seed_player(agent, seed)
    with agent.task.closing(agent.task.make_env(agent.settings.horizon)) as env:
        return [play_episode(agent.task, agent, env, seed + i, deterministic) for i in range(episodes)]


def evaluate(agent: Agent, episodes: int = 10, seed: int = 0, deterministic: bool = False) -> Evaluation:
    """Returns, lengths, and the margin against the first policy, of the returned policy."""
    played = play_episodes(agent, episodes, seed, deterministic)
    first, margin = agent.learner.opponents.first, None
    if first is not None:
        true, outcomes = agent.task.true, concatenate([episode.outcomes for episode in played])
        with guarded_margin(true.name):
            margin = float(true.cumulant(outcomes, first).mean())
    return Evaluation(
        np.array([episode.total_reward for episode in played]),
        np.array([float(episode.length) for episode in played]),
        margin,
    )


def record_video(
    agent: Agent,
    path: str | Path,
    episodes: int = 1,
    seed: int = 0,
    deterministic: bool = False,
    max_frames: int = 3000,
) -> int:
    """Write an H.264 video of the returned policy, without a display; returns the number of frames."""
    try:
        import imageio.v2 as imageio
    except ImportError:
        raise InputError("video needs imageio and imageio-ffmpeg: pip install 'mdcontest[learn]'") from None
    episodes, seed = require_counts(episodes, seed)
    target = Path(path)
    if target.suffix.lower() != ".mp4":
        raise InputError(f"{target}: the video must be named *.mp4")
    if target.is_dir():
        raise InputError(f"{target} is a folder; name a file")
    if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        raise InputError(f"cannot write {target}: {target.parent} is no folder that can be written to")
    seed_player(agent, seed)
    env = agent.task.make_env(agent.settings.horizon, render_mode="rgb_array")
    frames, temporary = 0, target.with_name(f".{target.stem[:40]}.{os.getpid()}.mp4")
    try:
        with agent.task.closing(env), _encoder(imageio, temporary, env) as writer:
            show = functools.partial(_append_frame, writer, env, [])
            for episode in range(episodes):
                left = max_frames - frames
                if left > 0:
                    frames += play_episode(
                        agent.task, agent, env, seed + episode, deterministic, show, max_steps=left
                    ).length
        if not temporary.is_file():
            raise InputError(f"{agent.task.name}: the video encoder made nothing of {frames} pictures")
        os.replace(temporary, target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)
    return frames


@contextlib.contextmanager
def _encoder(imageio: Any, path: Path, env: Any) -> Iterator[Any]:
    rate = env.metadata.get("render_fps") or 30
    if not (is_number(rate) and 1 <= rate <= MOST_RATE):
        raise InputError(
            f"the environment's metadata has render_fps = {rate!r}; that is a number from 1 to {MOST_RATE}"
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # of the encoder, which never runs JAX
        # Its own context leaves the encoder writing where something was raised in it.
        with contextlib.closing(imageio.get_writer(path, fps=int(rate), codec="libx264", macro_block_size=1)) as writer:
            yield writer


def _append_frame(writer: Any, env: Any, shapes: list[tuple[int, ...]]) -> None:
    """Draw what is to be seen; `shapes` are those of the pictures before, which a film cannot change."""
    try:
        picture = np.asarray(env.render())
    except RAISED as error:
        raise InputError(f"the environment cannot be drawn: {told(error)}") from error
    shape = picture.shape
    if picture.ndim != 3 or picture.dtype != np.uint8 or shape[2] not in (1, 3, 4) or min(shape[:2]) < 2:
        raise InputError(
            f"render gave {picture.dtype} of shape {shape} instead of a picture: uint8, at least 2 × 2, of 1, 3 or 4 "
            "channels"
        )
    if shapes and shape != shapes[0]:
        raise InputError(f"render gave a picture of shape {shape} after ones of shape {shapes[0]}; a film has one size")
    shapes[:] = [shape]
    writer.append_data(_even(picture))


def _even(picture: Any) -> Any:
    """Cut to even sides, which the codec needs."""
    return picture[: picture.shape[0] // 2 * 2, : picture.shape[1] // 2 * 2]
