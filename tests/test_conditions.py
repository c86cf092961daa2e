"""Verdicts on unichain and aperiodic: exact against enumeration where small, sound everywhere, with true witnesses."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from mdcontest import unichain
from strategies import chain_of, deterministic_rules, seeds


def any_contest(seed, S, A, sparse, spread):
    """No condition on the chain: each pair has one to `spread` successors."""
    rng = np.random.default_rng(seed)
    P = np.zeros((S, A, S))
    for s, a in np.ndindex(S, A):
        later = rng.choice(S, size=rng.integers(1, min(S, spread) + 1), replace=False)
        P[s, a, later] = rng.dirichlet(np.ones(len(later)))
    given_ = sp.csr_array(P.reshape(S * A, S)) if sparse else P
    return mdc.Contest(given_, rng.dirichlet(np.ones(S)), np.zeros((S * A, S * A)))


def recurrent_classes(P):
    """By reachability: s is recurrent if everything it reaches reaches it back."""
    reach = np.linalg.matrix_power((P > 0) + np.eye(len(P)), len(P)) > 0
    recurrent = [s for s in range(len(P)) if all(reach[t, s] for t in np.flatnonzero(reach[s]))]
    return {frozenset(np.flatnonzero(reach[s])) for s in recurrent}


def is_periodic(P, members):
    """Whether the number of eigenvalues of modulus one exceeds one."""
    inside = P[np.ix_(sorted(members), sorted(members))]
    return (np.abs(np.abs(np.linalg.eigvals(inside)) - 1) < 1e-9).sum() > 1


def by_enumeration(contest):
    """(unichain, aperiodic) from all |A|^|S| deterministic policies."""
    is_unichain = is_aperiodic = True
    for rule in deterministic_rules(contest):
        P = chain_of(contest, rule)
        classes = recurrent_classes(P)
        is_unichain &= len(classes) == 1
        is_aperiodic &= not any(is_periodic(P, members) for members in classes)
    return is_unichain, is_aperiodic


small = st.tuples(seeds, st.integers(1, 5), st.integers(1, 3), st.booleans(), st.integers(1, 3))


@given(small)
def test_exact_on_small_contests(shape):
    contest = any_contest(*shape)
    conditions = mdc.check_conditions(contest)
    is_unichain, is_aperiodic = by_enumeration(contest)
    assert conditions.unichain == ("yes" if is_unichain else "no")
    assert conditions.aperiodic == ("yes" if is_aperiodic else "no")
    for verdict in (conditions.unichain, conditions.aperiodic):
        assert verdict.witness.holds(contest), verdict.witness
    assert (conditions.tau < np.inf) <= is_unichain


@given(small)
def test_exact_search_alone(shape):
    """The branching search by itself, without the cheap proofs that come before it."""
    from mdcontest.graph import ContestGraph

    contest = any_contest(*shape)
    verdict = unichain._by_search(ContestGraph(contest.dynamics))
    assert verdict == ("yes" if by_enumeration(contest)[0] else "no")
    assert verdict.witness.holds(contest)


@given(st.tuples(seeds, st.integers(6, 14), st.integers(2, 3), st.booleans(), st.integers(2, 3)))
def test_sound_on_larger_contests(shape):
    """Whatever the verdict, its witness holds; and no random policy contradicts a yes."""
    contest = any_contest(*shape)
    conditions = mdc.check_conditions(contest)
    rng = np.random.default_rng(shape[0])
    for verdict in (conditions.unichain, conditions.aperiodic):
        assert verdict in ("yes", "no", "unknown")
        assert verdict == "unknown" or verdict.witness.holds(contest)
    for _ in range(20):
        P = chain_of(contest, np.eye(contest.num_actions)[rng.integers(contest.num_actions, size=contest.num_states)])
        classes = recurrent_classes(P)
        assert conditions.unichain != "yes" or len(classes) == 1
        assert conditions.aperiodic != "yes" or not any(is_periodic(P, members) for members in classes)


@given(st.tuples(seeds, st.integers(2, 6), st.integers(1, 3), st.booleans(), st.integers(2, 3)), seeds)
def test_tau_bounds_random_policies(shape, seed):
    """‖H_π‖_∞ ≤ τ for randomised rules, periodic chains included."""
    contest = any_contest(*shape)
    tau = mdc.check_conditions(contest).tau
    if tau == np.inf:
        return
    rng = np.random.default_rng(seed)
    for concentration in (0.02, 1.0):
        rule = rng.dirichlet(np.full(contest.num_actions, concentration), size=contest.num_states)
        P, nu = chain_of(contest, rule), mdc.occupancy(contest, rule).sum(axis=1)
        limit = np.tile(nu, (len(P), 1))
        H = np.linalg.solve(np.eye(len(P)) - P + limit, np.eye(len(P)) - limit)
        assert np.abs(H).sum(axis=1).max() <= tau * (1 + 1e-7)


@given(seeds, st.floats(2, 14))
def test_tau_bounds_slow_chains(seed, digits):
    """Exits as rare as 1e-14: whatever is reported is above ‖H‖_∞, computed here in rationals."""
    from fractions import Fraction

    rng = np.random.default_rng(seed)
    S = 3
    P = np.zeros((S, 2, S))
    for s, a in np.ndindex(S, 2):
        leave = 10.0 ** -rng.uniform(0, digits)
        P[s, a, s], P[s, a, (s + 1 + a * (s > 0)) % S] = 1 - leave, leave
    contest = mdc.Contest(P, np.ones(S) / S, np.zeros((2 * S, 2 * S)))
    tau = mdc.check_conditions(contest).tau
    if tau == np.inf:
        return
    for rule in deterministic_rules(contest):
        chain = [[Fraction(float(p)) for p in row] for row in chain_of(contest, rule)]
        chain = [[p / sum(row) for p in row] for row in chain]
        if len(recurrent_classes(np.array(chain, float))) > 1:
            continue
        assert float(norm_of_deviation(chain)) <= tau * (1 + 1e-9)


def norm_of_deviation(chain):
    """‖H‖_∞ exactly: H = (I − P + P*)⁻¹ (I − P*) by Gauss–Jordan elimination over the rationals."""
    from fractions import Fraction

    S = len(chain)
    one = [[Fraction(int(i == j)) for j in range(S)] for i in range(S)]

    def solve(A, B):
        rows = [list(a) + list(b) for a, b in zip(A, B, strict=True)]
        for k in range(S):
            pivot = next(i for i in range(k, S) if rows[i][k] != 0)
            rows[k], rows[pivot] = rows[pivot], rows[k]
            rows[k] = [v / rows[k][k] for v in rows[k]]
            for i in range(S):
                if i != k and rows[i][k] != 0:
                    rows[i] = [v - rows[i][k] * w for v, w in zip(rows[i], rows[k], strict=True)]
        return [row[S:] for row in rows]

    balance = [[one[s][t] - chain[s][t] for s in range(S)] for t in range(S - 1)] + [[Fraction(1)] * S]
    nu = [row[0] for row in solve(balance, [[Fraction(0)]] * (S - 1) + [[Fraction(1)]])]
    left = [[one[i][j] - chain[i][j] + nu[j] for j in range(S)] for i in range(S)]
    H = solve(left, [[one[i][j] - nu[j] for j in range(S)] for i in range(S)])
    return max(sum(abs(v) for v in row) for row in H)


def two_rooms():
    """States 0, 1 and 2, 3: action 0 changes sides within a room, action 1 goes to the other room."""
    P = np.zeros((4, 2, 4))
    for s in range(4):
        P[s, 0, s ^ 1] = 1
        P[s, 1, s ^ 2] = 1
    return mdc.Contest(P, np.full(4, 0.25), np.zeros((8, 8)), state_names=["a", "b", "c", "d"])


def test_refusal_names_the_classes_and_offers_a_restart():
    contest = two_rooms()
    with pytest.raises(mdc.NotUnichainError, match=r"not unichain.*with_restart") as caught:
        mdc.solve(contest)
    assert not set(caught.value.first) & set(caught.value.second)
    for members in (caught.value.first, caught.value.second):
        for s in members:
            assert str(["a", "b", "c", "d"][s]) in str(caught.value)
    assert mdc.solve(contest.with_restart(0.1)).status == "solved"


@pytest.mark.parametrize(
    "solver", [mdc.solvers.LinearProgram(), mdc.solvers.HPI(), mdc.solvers.HPIPG(), mdc.solvers.PolicyGame()]
)
def test_every_solver_refuses(solver):
    with pytest.raises(mdc.NotUnichainError):
        mdc.solve(two_rooms(), solver)


@pytest.mark.parametrize("quantity", [mdc.marginal_values, mdc.best_response, mdc.optimality_gap])
def test_quantities_refuse_rules_with_two_classes(quantity):
    contest = two_rooms()
    stay = np.tile([1.0, 0.0], (4, 1))
    with pytest.raises(mdc.NotUnichainError, match=r"\[a, b\] and in \[c, d\]"):
        quantity(contest, stay)


def test_occupancy_of_a_rule_with_two_classes_depends_on_the_start():
    """From (0.7, 0.1, 0.1, 0.1) room one is stayed in with probability 0.8, half of the time in each of its states."""
    contest = mdc.Contest(two_rooms().transitions, [0.7, 0.1, 0.1, 0.1], np.zeros((8, 8)))
    x = mdc.occupancy(contest, np.tile([1.0, 0.0], (4, 1)))
    np.testing.assert_allclose(x.sum(axis=1), [0.4, 0.4, 0.1, 0.1])


def test_unknown_is_solved_but_the_rules_chain_is_checked(monkeypatch):
    """With the search switched off an undecided contest is solved; a rule with two classes is still refused."""
    from mdcontest import conditions as module

    monkeypatch.setattr(module, "unichain_verdict", lambda graph: mdc.conditions.Verdict("unknown"))
    P = np.zeros((3, 2, 3))
    for s in range(3):
        for a, later in enumerate(t for t in range(3) if t != s):
            P[s, a, later] = 1
    fine = mdc.Contest(P, np.ones(3) / 3, mdc.margins.RewardDifference(np.arange(6.0)))
    assert mdc.check_conditions(fine).unichain == "unknown"
    solution = mdc.solve(fine)
    assert solution.status == "solved"
    np.testing.assert_allclose(mdc.occupancy(fine, solution.rule), solution.occupancy, atol=1e-12)
    # Staying apart is best here: the linear program's rule has two classes, which is then an error.
    bad = mdc.Contest(two_rooms().transitions, np.full(4, 0.25), mdc.margins.RewardDifference(np.tile([1.0, 0.0], 4)))
    with pytest.raises(mdc.NotUnichainError):
        mdc.solve(bad)


def test_witnesses_of_false_claims_do_not_hold():
    from mdcontest.graph import ClosedSet
    from mdcontest.witnesses import (
        DisjointClasses,
        ExhaustiveSearch,
        MeetingPoint,
        Minorisation,
        PeriodicClass,
        UnavoidableState,
    )

    contest = two_rooms()
    assert not DisjointClasses(ClosedSet((0, 1), (0, 0)), ClosedSet((1, 0), (0, 0))).holds(contest)
    assert not DisjointClasses(ClosedSet((0,), (0,)), ClosedSet((2, 3), (0, 0))).holds(contest)
    assert not UnavoidableState(0, (0, 1, 1, 1)).holds(contest)
    assert not UnavoidableState(0, (0, 0, 0, 0)).holds(contest)
    assert not Minorisation(0.5, (1.0, 0.0, 0.0, 0.0)).holds(contest)
    assert not Minorisation(1e-13, (1.0, 0.0, 0.0, 0.0)).holds(contest)
    assert not UnavoidableState(7, (0, 1, 1, 1)).holds(contest)
    assert not ExhaustiveSearch(1, "nodes", "unichain").holds(contest)
    assert not ExhaustiveSearch(1, "policies", "aperiodic").holds(contest)
    assert not MeetingPoint(0, 4).holds(contest)
    assert not PeriodicClass(ClosedSet((0, 1), (0, 0)), 3, (0, 1)).holds(contest)
    assert PeriodicClass(ClosedSet((0, 1), (0, 0)), 2, (0, 1)).holds(contest)


def test_verdicts_compare_with_text_and_print():
    conditions = mdc.check_conditions(mdc.examples.make("machine-repair"))
    assert conditions.unichain == "yes"
    assert "no policy can avoid state 0" in str(conditions)
    assert conditions.unichain.witness.state == 0
    np.testing.assert_allclose(conditions.tau, 20, rtol=1e-5)  # 2 · 4 wears of 1/0.4 days each


def test_a_large_contest_is_checked_quickly_enough_to_finish():
    """A ring of 30 000 states, walked one to three steps at a time: nobody can jump over three states in a row."""
    S = 30_000
    rows = np.arange(2 * S)
    later = np.where(rows % 2 == 0, (rows // 2 + 1) % S, (rows // 2 + 2) % S)
    P = sp.csr_array((np.ones(2 * S), (rows, later)), shape=(2 * S, S))
    P = sp.csr_array(0.5 * P + 0.5 * sp.csr_array((np.ones(2 * S), (rows, (later + 1) % S)), shape=(2 * S, S)))
    contest = mdc.Contest(P, np.eye(1, S)[0], mdc.margins.RewardDifference(np.zeros(2 * S)))
    conditions = mdc.check_conditions(contest)
    assert conditions.unichain == "yes"
    assert conditions.aperiodic == "unknown"
