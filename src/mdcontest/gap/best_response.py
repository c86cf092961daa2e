"""From below: a policy trained to beat a fixed one. Against fixed outcomes the contest is a decision process.

Its reward is c(z) = mean_j M(z, z_j), so PPO solves it. The quantity to maximise is the average a step of the
environment that starts anew when an episode ends, whose policy gradient is PPO's with the reward c − ρ, ρ the current
average: then an episode that ends forgoes nothing. HPI-Clip on the margin c(z) − c(z') against its own batch is just
that, so there is nothing to write twice.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np

from mdcontest.arrays import Array
from mdcontest.learn.agent import Agent
from mdcontest.learn.algorithms import HPIClip
from mdcontest.learn.logs import Progress
from mdcontest.learn.play import Trajectories
from mdcontest.learn.policy import Moments, Policy
from mdcontest.margins import RewardDifference
from mdcontest.outcomes import Outcomes
from mdcontest.tasks import Task

SETTINGS = {"opponents": "batch", "termination": "paper", "returned": "last"}
"""What makes HPI-Clip PPO with the reward c − ρ."""
CLOSE = 0.005
"""Training stops early where the average is this near the ceiling, as a share of it: there is nothing left to find."""
RECENT = 5
"""Iterations over which that average is taken."""


def challenge(task: Task, opponents: Trajectories) -> Task:
    """The decision process of beating those outcomes."""
    margin: Any = task.margin
    theirs = margin.rows(opponents.outcomes)
    uniform = np.full(len(opponents.outcomes), 1 / len(opponents.outcomes))

    def against_them(z: Outcomes) -> Array:
        return margin.kernel_against(margin.rows(z), theirs, uniform)

    return replace(
        task,
        margin=RewardDifference(against_them),
        ended=None,
        name=f"{task.name} best response",
        settings=None,
        recommended={},
        model=None,
        original=None,  # it is judged by this margin, whichever the task has of its own
    )


def train_best_response(
    process: Task,
    steps: int,
    seed: int,
    settings: dict[str, Any],
    start: Policy | None = None,
    ceiling: float = np.inf,
    progress: bool = False,
) -> Agent:
    """PPO on the challenge, from a new policy or from `start`; stops where it has reached the ceiling."""
    agent = HPIClip(process, seed, **({**settings, **SETTINGS}))
    if start is not None:
        _continue_from(agent, start)
    levels: deque[float] = deque(maxlen=RECENT)
    near = ceiling * (1 - CLOSE * np.sign(ceiling))  # a product: of an infinite ceiling no share can be subtracted

    def unless_done(agent: Agent, report: Progress) -> bool:
        levels.append(report.margin_vs_first + _first_level(process, agent))
        return len(levels) < RECENT or float(np.mean(levels)) < near

    return agent.learn(steps, progress, unless_done)


def _first_level(process: Task, agent: Agent) -> float:
    """The average of c under the first policy, which the reported margin is measured from."""
    margin: Any = process.margin
    return float(margin.rows(agent.learner.opponents.first).mean())


def _continue_from(agent: Agent, start: Policy) -> None:
    """Begin with another policy's weights and statistics; the critic is new."""
    learner = agent.learner
    learner.params = {**learner.params, "actor": {name: value.copy() for name, value in start.weights.items()}}
    moments = learner.policy.moments
    if type(moments) is Moments and len(moments.mean) == len(start.moments.mean):
        moments.count, moments.mean = max(start.moments.count, 1000.0), start.moments.mean.copy()
        moments.square = start.moments.variance * moments.count
    learner.policy.update(learner.params["actor"])


def can_continue_from(policy: Policy, settings: dict[str, Any]) -> bool:
    """Whether a policy's network is one that the best response could have."""
    sizes = [value.shape[1] for name, value in sorted(policy.weights.items()) if name.startswith("w")][:-1]
    normalises = type(policy.moments) is Moments and settings.get("normalise_observations", True)
    return tuple(sizes) == tuple(settings.get("hidden", (64, 64))) and normalises
