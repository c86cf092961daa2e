"""`mdcontest play` and `evaluate`: the policies of runs at work."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from mdcontest.commands.finite import BAD_INPUT
from mdcontest.commands.training import DONE, prepare
from mdcontest.errors import InputError


def add_commands(command: Any) -> None:
    """Add the parsers; `command(name, run, help, reads)` makes one."""
    play = command("play", run_play, "Show or film the policy of a run.", reads=False)
    _policy_arguments(play, episodes=1)
    play.add_argument("--video", metavar="FILE.mp4", help="film it; needs no display")

    evaluate = command("evaluate", run_evaluate, "Play the policies of runs and report how they did.", reads=False)
    _policy_arguments(evaluate, episodes=10)
    evaluate.add_argument("--json", action="store_true", help="print the result as JSON, a line for each run")


def _policy_arguments(parser: argparse.ArgumentParser, episodes: int) -> None:
    parser.add_argument("run_folders", metavar="RUN", nargs="+", help="the folder of a run")
    parser.add_argument("--episodes", type=int, default=episodes, metavar="N", help=f"default {episodes}")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the first episode (default 0)")
    parser.add_argument("--deterministic", action="store_true", help="the most likely action instead of a drawn one")


def run_play(options: argparse.Namespace) -> int:
    """Film a policy, or show it in a window."""
    if len(options.run_folders) > 1:
        raise InputError(f"play shows one run, got {len(options.run_folders)}: {', '.join(options.run_folders)}")
    if not options.video and not os.environ.get("DISPLAY") and sys.platform == "linux":
        raise InputError("there is no display to show it on; --video out.mp4 films it instead")
    prepare()
    from mdcontest.learn.evaluate import record_video
    from mdcontest.learn.loading import load_agent
    from mdcontest.learn.play import play_episode

    agent = load_agent(options.run_folders[0])
    if options.video:
        frames = record_video(agent, options.video, options.episodes, options.seed, options.deterministic)
        print(f"{frames} frames written to {options.video}")
        return DONE
    with agent.task.closing(agent.task.make_env(agent.settings.horizon, render_mode="human")) as env:
        for episode in range(options.episodes):
            played = play_episode(agent.task, agent, env, options.seed + episode, options.deterministic)
            print(f"episode {episode}: return {played.total_reward:.4g} in {played.length} steps")
    return DONE


def run_evaluate(options: argparse.Namespace) -> int:
    """Returns, lengths, and margin against the first policy."""
    prepare()
    code = DONE
    for number, folder in enumerate(options.run_folders):
        print("\n" if number and not options.json else "", end="")
        try:
            _evaluate(folder, options)
        except InputError as error:  # the others are worth knowing all the same
            print(f"mdcontest: error: {error}", file=sys.stderr)
            code = BAD_INPUT
    return code


def _evaluate(folder: str, options: argparse.Namespace) -> None:
    from mdcontest.learn.evaluate import evaluate
    from mdcontest.learn.loading import load_agent

    agent = load_agent(folder)
    try:
        found = evaluate(agent, options.episodes, options.seed, options.deterministic).record()
    finally:
        agent.close()
    if options.json:
        which = {"run": folder} if len(options.run_folders) > 1 else {}
        print(json.dumps(which | found))
        return
    print(f"{agent}, returned policy: {agent.settings.returned}")
    print(f"return   {found['return_mean']:.4g} ± {found['return_std']:.4g} over {found['episodes']} episodes")
    print(f"length   {found['length_mean']:.4g}")
    if found["margin_vs_first"] is not None:
        print(f"margin   {found['margin_vs_first']:+.4f} a step against the first policy")
