"""What the tests of the interior point share: what it proposes, and the gap of that."""

import numpy as np

import mdcontest as mdc
from mdcontest.solvers import InteriorPoint
from mdcontest.solvers.base import silent


def relative_gap(contest, proposal):
    """The bound of solvers/base.py from a proposal's own x and h."""
    bound = contest.margin.bound or 1.0
    x_rule = mdc.occupancy(contest, proposal.rule)
    gained = contest.dynamics.expect(proposal.h).reshape(x_rule.shape) - proposal.h[:, None]
    excess = (contest.margin.apply(proposal.x) + gained).max()
    return excess / bound + np.abs(x_rule - proposal.x).sum()


def proposed(contest, tol=1e-9, **settings):
    return InteriorPoint(**settings).propose(contest, tol * contest.margin.bound, silent)
