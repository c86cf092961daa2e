"""The four algorithms, each a pair of a cumulant and a surrogate over one loop."""

from __future__ import annotations

from mdcontest.learn.agent import Agent
from mdcontest.learn.learner import Algorithm
from mdcontest.settings import WHOLE


class PPO(Agent):
    """Proximal Policy Optimization: learns from the environment's reward; the margin is only reported."""

    algorithm = Algorithm("ppo", cumulant="reward", surrogate="clip")


class HPIClip(Agent):
    """HPI-Clip (Algorithm 4): margins against the opponents, clipped surrogate. With a reward difference it is PPO."""

    algorithm = Algorithm("hpi-clip", cumulant="margin", surrogate="clip")


class HPI(Agent):
    """Hedged Policy Iteration (Algorithm 3): margins against the opponents, hedge surrogate with learning rate η."""

    algorithm = Algorithm("hpi", cumulant="margin", surrogate="hedge")


class SPPO(Agent):
    """Self-Play Preference Optimization, the SPO of Swamy et al. 2024: margins averaged over whole trajectories.

    (Another algorithm of that name is used to train language models.)
    """

    algorithm = Algorithm("sppo", cumulant="margin", surrogate="clip")
    defaults = {"comparison_horizon": WHOLE}  # noqa: RUF012


ALGORITHMS: dict[str, type[Agent]] = {kind.algorithm.name: kind for kind in (PPO, HPI, HPIClip, SPPO)}
"""By the names that files and the command line use."""
