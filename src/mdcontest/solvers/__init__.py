"""Methods that solve finite contests, one a file. All are frozen dataclasses of their settings."""

from mdcontest.solvers.base import Progress, Solver
from mdcontest.solvers.choose import choose_solver, solve
from mdcontest.solvers.hpi import HPI
from mdcontest.solvers.hpi_pg import HPIPG
from mdcontest.solvers.linear_program import LinearProgram
from mdcontest.solvers.mirror_descent import MirrorDescent
from mdcontest.solvers.policy_game import PolicyGame

__all__ = [
    "HPI",
    "HPIPG",
    "LinearProgram",
    "MirrorDescent",
    "PolicyGame",
    "Progress",
    "Solver",
    "choose_solver",
    "solve",
]
