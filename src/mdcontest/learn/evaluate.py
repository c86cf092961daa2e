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

from mdcontest.arrays import Array
from mdcontest.errors import InputError
from mdcontest.learn.agent import Agent
from mdcontest.learn.play import Played, play_episode, require_counts, seed_player
from mdcontest.outcomes import concatenate


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
    require_counts(episodes, seed)
    seed_player(agent, seed)
    env = agent.task.make_env(agent.settings.horizon)
    try:
        return [play_episode(agent.task, agent, env, seed + i, deterministic) for i in range(episodes)]
    finally:
        env.close()


def evaluate(agent: Agent, episodes: int = 10, seed: int = 0, deterministic: bool = False) -> Evaluation:
    """Returns, lengths, and the margin against the first policy, of the returned policy."""
    played = play_episodes(agent, episodes, seed, deterministic)
    first, margin = agent.learner.opponents.first, None
    if first is not None:
        margin = float(agent.task.true.cumulant(concatenate([episode.outcomes for episode in played]), first).mean())
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
    require_counts(episodes, seed)
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
        with _encoder(imageio, temporary, env) as writer:
            for episode in range(episodes):
                left = max_frames - frames
                if left > 0:
                    show = functools.partial(_append_frame, writer, env)
                    frames += play_episode(
                        agent.task, agent, env, seed + episode, deterministic, show, max_steps=left
                    ).length
        os.replace(temporary, target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from None
    finally:
        env.close()
        temporary.unlink(missing_ok=True)
    return frames


@contextlib.contextmanager
def _encoder(imageio: Any, path: Path, env: Any) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # of the encoder, which never runs JAX
        rate = int(env.metadata.get("render_fps") or 30)
        with imageio.get_writer(path, fps=rate, codec="libx264", macro_block_size=1) as writer:
            yield writer


def _append_frame(writer: Any, env: Any) -> None:
    try:
        picture = np.asarray(env.render())
    except Exception as error:
        raise InputError(f"the environment cannot be drawn: {type(error).__name__}: {error}") from error
    if picture.ndim != 3 or picture.dtype != np.uint8:
        raise InputError(f"render gave {picture.dtype} of shape {picture.shape} instead of a picture")
    writer.append_data(_even(picture))


def _even(picture: Any) -> Any:
    """Cut to even sides, which the codec needs."""
    return picture[: picture.shape[0] // 2 * 2, : picture.shape[1] // 2 * 2]
