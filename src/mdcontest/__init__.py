"""Learning and solving decision problems from pairwise preferences: Markov decision contests.

>>> import mdcontest as mdc
>>> contest = mdc.examples.make("rock-paper-scissors")
>>> solution = mdc.solve(contest)
>>> bool(mdc.verify(contest, solution))
True
"""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from mdcontest import examples, margins, solvers
from mdcontest.conditions import Conditions, check_conditions
from mdcontest.contest import Contest
from mdcontest.contest_files import load_contest
from mdcontest.errors import FileFormatError, InputError, NotUnichainError, RunError, SizeError
from mdcontest.margins import Margin
from mdcontest.occupancy import decision_rule, occupancy
from mdcontest.outcomes import Outcomes
from mdcontest.solution import Certificate, History, Solution, Status, load_solution
from mdcontest.solvers import solve
from mdcontest.values import average_margin, best_response, cumulant, marginal_values, optimality_gap
from mdcontest.verification import Verification, verify

if _TYPE_CHECKING:
    from mdcontest import learn, preferences, tasks
    from mdcontest.gap import estimate_gap
    from mdcontest.learn import HPI, PPO, SPPO, HPIClip, load_agent
    from mdcontest.tasks import Task

__version__ = _version("mdcontest")

_LEARNING = {
    "tasks": "mdcontest.tasks",
    "learn": "mdcontest.learn",
    "Task": "mdcontest.tasks",
    "HPI": "mdcontest.learn",
    "HPIClip": "mdcontest.learn",
    "PPO": "mdcontest.learn",
    "SPPO": "mdcontest.learn",
    "load_agent": "mdcontest.learn",
    "estimate_gap": "mdcontest.gap",
    "preferences": "mdcontest.preferences",
}
"""Names of the second floor: JAX and Gymnasium are imported when one of them is first used."""


def __getattr__(name: str) -> _Any:
    if name not in _LEARNING:
        raise AttributeError(f"module 'mdcontest' has no attribute {name!r}")
    from mdcontest.extras import require_learning

    require_learning()
    module = _import_module(_LEARNING[name])
    return module if module.__name__ == f"mdcontest.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LEARNING])


__all__ = [
    "HPI",
    "PPO",
    "SPPO",
    "Certificate",
    "Conditions",
    "Contest",
    "FileFormatError",
    "HPIClip",
    "History",
    "InputError",
    "Margin",
    "NotUnichainError",
    "Outcomes",
    "RunError",
    "SizeError",
    "Solution",
    "Status",
    "Task",
    "Verification",
    "average_margin",
    "best_response",
    "check_conditions",
    "cumulant",
    "decision_rule",
    "estimate_gap",
    "examples",
    "learn",
    "load_agent",
    "load_contest",
    "load_solution",
    "marginal_values",
    "margins",
    "occupancy",
    "optimality_gap",
    "preferences",
    "solve",
    "solvers",
    "tasks",
    "verify",
]
