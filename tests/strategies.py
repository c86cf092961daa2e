"""Hypothesis strategies: contests of every shape and margin, rules from nearly deterministic to uniform."""

from __future__ import annotations

import os

import numpy as np
from hypothesis import strategies as st

import mdcontest as mdc
from random_contests import MARGINS, SHAPES, random_contest, random_rule

seeds = st.integers(0, 2**32 - 1)


def count_of(reduced: int, full: int) -> int:
    """The number of cases for the counts asked for."""
    return full if os.environ.get("MDCONTEST_COUNTS") == "full" else reduced


@st.composite
def contests(draw, *, max_states=8, max_actions=4, max_policies=None, shapes=SHAPES, margins=MARGINS):
    """A unichain contest."""
    actions = draw(st.integers(1, max_actions), label="actions")
    most = max_states
    if max_policies is not None and actions > 1:
        most = min(most, int(np.log(max_policies) / np.log(actions) + 1e-9))
    states = draw(st.integers(2, most), label="states")
    shape = draw(st.sampled_from(shapes), label="shape")
    margin = draw(st.sampled_from(margins), label="margin")
    return random_contest(draw(seeds), states=states, actions=actions, shape=shape, margin=margin)


@st.composite
def contests_with_rules(draw, rules=1, **options):
    """A contest and some of its rules; concentration 0.02 is nearly deterministic."""
    contest = draw(contests(**options))
    rng = np.random.default_rng(draw(seeds))
    drawn = [random_rule(rng, contest, draw(st.sampled_from([0.02, 0.5, 5.0]))) for _ in range(rules)]
    return contest, *drawn


def dense_transitions(contest: mdc.Contest) -> np.ndarray:
    """P as an array [S, A, S], whatever the contest holds."""
    P = contest.transitions
    return P if isinstance(P, np.ndarray) else P.toarray().reshape(contest.num_states, contest.num_actions, -1)


def chain_of(contest: mdc.Contest, rule: np.ndarray) -> np.ndarray:
    """P_π[s, s'] by its definition."""
    return np.einsum("sa,sat->st", rule, dense_transitions(contest))


def deterministic_rules(contest: mdc.Contest):
    """All |A|^|S| deterministic rules, one by one."""
    import itertools

    for actions in itertools.product(range(contest.num_actions), repeat=contest.num_states):
        yield np.eye(contest.num_actions)[list(actions)]
