"""Methods that solve finite contests, one a file. All are frozen dataclasses of their settings."""

from mdcontest.solvers.base import Progress, Solver
from mdcontest.solvers.choose import choose_solver
from mdcontest.solvers.extragradient import Extragradient
from mdcontest.solvers.hpi import HPI
from mdcontest.solvers.hpi_pg import HPIPG
from mdcontest.solvers.interior_point import InteriorPoint
from mdcontest.solvers.linear_program import LinearProgram
from mdcontest.solvers.mirror_descent import MirrorDescent
from mdcontest.solvers.optimistic import OptimisticHPI
from mdcontest.solvers.policy_game import PolicyGame
from mdcontest.solvers.policy_generation import PolicyGeneration
from mdcontest.solvers.solve import solve

__all__ = [
    "HPI",
    "HPIPG",
    "Extragradient",
    "InteriorPoint",
    "LinearProgram",
    "MirrorDescent",
    "OptimisticHPI",
    "PolicyGame",
    "PolicyGeneration",
    "Progress",
    "Solver",
    "choose_solver",
    "solve",
]
