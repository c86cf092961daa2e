"""Learning from a margin with neural networks: one training loop, four algorithms."""

from mdcontest.learn.agent import Agent
from mdcontest.learn.algorithms import ALGORITHMS, HPI, PPO, SPPO, HPIClip
from mdcontest.learn.loading import load_agent
from mdcontest.learn.logs import Progress
from mdcontest.settings import Settings, paper_settings

__all__ = [
    "ALGORITHMS",
    "HPI",
    "PPO",
    "SPPO",
    "Agent",
    "HPIClip",
    "Progress",
    "Settings",
    "load_agent",
    "paper_settings",
]
