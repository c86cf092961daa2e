"""Learning and solving decision problems from pairwise preferences: Markov decision contests.

>>> import mdcontest as mdc
>>> contest = mdc.examples.make("rock-paper-scissors")
>>> solution = mdc.solve(contest)
>>> bool(mdc.verify(contest, solution))
True
"""

from importlib.metadata import version as _version

from mdcontest import examples, margins, solvers
from mdcontest.conditions import Conditions, check_conditions
from mdcontest.contest import Contest, load_contest
from mdcontest.errors import FileFormatError, InputError, NotUnichainError, SizeError
from mdcontest.margins import Margin
from mdcontest.occupancy import decision_rule, occupancy
from mdcontest.outcomes import Outcomes
from mdcontest.solution import Certificate, History, Solution, Status, load_solution
from mdcontest.solvers import solve
from mdcontest.values import average_margin, best_response, cumulant, marginal_values, optimality_gap
from mdcontest.verification import Verification, verify

__version__ = _version("mdcontest")

__all__ = [
    "Certificate",
    "Conditions",
    "Contest",
    "FileFormatError",
    "History",
    "InputError",
    "Margin",
    "NotUnichainError",
    "Outcomes",
    "SizeError",
    "Solution",
    "Status",
    "Verification",
    "average_margin",
    "best_response",
    "check_conditions",
    "cumulant",
    "decision_rule",
    "examples",
    "load_contest",
    "load_solution",
    "marginal_values",
    "margins",
    "occupancy",
    "optimality_gap",
    "solve",
    "solvers",
    "verify",
]
