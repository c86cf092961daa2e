"""Tasks: an environment plus a margin on its raw outcomes. `make("Reacher-NT")` knows the shipped ones by name."""

from mdcontest.tasks.registry import make, names, register
from mdcontest.tasks.spaces import ActionReader, ObservationReader
from mdcontest.tasks.state import load_environment, save_environment
from mdcontest.tasks.task import FiniteModel, Task, reward_difference

__all__ = [
    "ActionReader",
    "FiniteModel",
    "ObservationReader",
    "Task",
    "load_environment",
    "make",
    "names",
    "register",
    "reward_difference",
    "save_environment",
]
