"""What solvers do when the report stops them: hand over what they have, with the status that says why."""

import pytest

import mdcontest as mdc
from mdcontest.solvers import HPI, HPIPG, Extragradient, LinearProgram, MirrorDescent, OptimisticHPI, PolicyGame
from mdcontest.solvers import linear_program as linear_program_module
from mdcontest.solvers.base import OutOfTime
from random_contests import random_contest

STOPPABLE = [HPI(10**6), HPIPG(10**6), OptimisticHPI(10**6), Extragradient(10**6), MirrorDescent(10**6), PolicyGame()]
REASONS = {KeyboardInterrupt: "interrupted", OutOfTime: "time_limit"}


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("solver", STOPPABLE, ids=lambda solver: solver.name)
def test_a_stopped_solver_hands_over_what_it_has(solver, reason):
    contest = random_contest(6, states=5, actions=3, shape="dense", margin="dense")
    seen = []

    def report(progress):
        seen.append(progress.iteration)
        if progress.iteration >= (1 if isinstance(solver, PolicyGame) else 20):
            raise reason

    proposal = solver.propose(contest, -1.0, report)
    assert proposal.status == REASONS[reason]
    assert isinstance(solver, PolicyGame) or seen == list(range(1, 21))  # a sign of life every iteration
    assert mdc.optimality_gap(contest, proposal.rule) < 0.5 * contest.margin.bound


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("method", ["ipm", "simplex"])
def test_a_stopped_linear_program_hands_over_its_last_attempt(method, reason, monkeypatch):
    """Stopped inside HiGHS once an attempt has ended; before that there may be nothing, and the exception goes on."""
    contest = random_contest(1, states=10, actions=3, shape="dense", margin="dense")
    certify, ended = linear_program_module.certify, []
    monkeypatch.setattr(linear_program_module, "certify", lambda *given: ended.append(1) or certify(*given))

    def report(progress):
        if ended:
            raise reason

    proposal = LinearProgram(method).propose(contest, -1.0, report)
    assert proposal.status == REASONS[reason]
    assert proposal.info["attempts"] == 2
    assert mdc.optimality_gap(contest, proposal.rule) < 1e-7 * contest.margin.bound


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("solver", [HPI(10), OptimisticHPI(10), PolicyGame()], ids=lambda solver: solver.name)
def test_stopped_before_there_is_anything(solver, reason):
    def report(progress):
        raise reason

    with pytest.raises(reason):
        solver.propose(mdc.examples.make("marriage"), 0.0, report)
