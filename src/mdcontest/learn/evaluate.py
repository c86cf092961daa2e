"""Playing a policy: episodes as raw outcomes, how they went, and pictures of them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdcontest.arrays import Array
from mdcontest.errors import InputError
from mdcontest.learn.agent import Agent
from mdcontest.outcomes import Outcomes, concatenate


@dataclass(frozen=True)
class Played:
    """One episode of a policy."""

    outcomes: Outcomes
    total_reward: float
    length: int
    terminated: bool
    """Whether it ended by itself rather than by being cut off."""


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


def play_episode(
    agent: Agent, env: Any, seed: int | None, deterministic: bool = False, watch: Callable[[], Any] | None = None
) -> Played:
    """One episode of the returned policy; `watch` is called before every step."""
    reader, _ = agent.task.spaces
    rows: list[tuple[Any, ...]] = []
    obs, state, ended = env.reset(seed=seed)[0], None, False
    while not ended:
        if watch is not None:
            watch()
        action, state = agent.predict(obs, state, deterministic=deterministic)
        next_obs, reward, terminated, truncated, info = env.step(action)
        kept = [np.asarray(info[key]) for key in agent.task.info_keys]
        rows.append(
            (
                np.array(reader.flatten(obs), float),
                action,
                float(reward),
                np.array(reader.flatten(next_obs), float),
                kept,
            )
        )
        obs, ended = next_obs, terminated or truncated
    before, actions, rewards, after, kept_rows = zip(*rows, strict=True)
    info_arrays = {key: np.array([kept[i] for kept in kept_rows]) for i, key in enumerate(agent.task.info_keys)}
    outcomes = Outcomes(
        reader.raw(np.array(before)), np.array(actions), np.array(rewards), reader.raw(np.array(after)), info_arrays
    )
    return Played(outcomes, float(np.sum(rewards)), len(rows), bool(terminated))


def play_episodes(agent: Agent, episodes: int, seed: int = 0, deterministic: bool = False) -> list[Played]:
    """Several episodes with seeds seed, seed + 1, …; the draws of the policy start from the same seed."""
    if episodes < 1:
        raise InputError(f"episodes must be at least 1, got {episodes}")
    agent.seed_predictions(seed)
    env = agent.task.make_env(agent.settings.horizon)
    try:
        return [play_episode(agent, env, seed + i, deterministic) for i in range(episodes)]
    finally:
        env.close()


def evaluate(agent: Agent, episodes: int = 10, seed: int = 0, deterministic: bool = False) -> Evaluation:
    """Returns, lengths, and the margin against the first policy, of the returned policy."""
    played = play_episodes(agent, episodes, seed, deterministic)
    first, margin = agent.learner.opponents.first, None
    if first is not None:
        margin = float(agent.task.cumulant(concatenate([episode.outcomes for episode in played]), first).mean())
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
    target = Path(path)
    if episodes < 1:
        raise InputError(f"episodes must be at least 1, got {episodes}")
    if target.suffix.lower() != ".mp4":
        raise InputError(f"{target}: the video must be named *.mp4")
    env = agent.task.make_env(agent.settings.horizon, render_mode="rgb_array")
    frames, rate = 0, int(env.metadata.get("render_fps", 30))
    agent.seed_predictions(seed)
    temporary = target.with_name(f".{target.stem}.{os.getpid()}.mp4")
    if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        raise InputError(f"cannot write {target}: {target.parent} is no folder that can be written to")

    def watch() -> None:
        nonlocal frames
        if frames < max_frames:
            writer.append_data(_even(np.asarray(env.render())))
            frames += 1

    try:
        writer: Any
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # of the encoder, which never runs JAX
            with imageio.get_writer(temporary, fps=rate, codec="libx264", macro_block_size=1) as writer:
                for i in range(episodes):
                    play_episode(agent, env, seed + i, deterministic, watch)
        os.replace(temporary, target)
    finally:
        env.close()
        temporary.unlink(missing_ok=True)
    return frames


def _even(picture: Any) -> Any:
    """Cut to even sides, which the codec needs."""
    return picture[: picture.shape[0] // 2 * 2, : picture.shape[1] // 2 * 2]
