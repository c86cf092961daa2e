"""What keeps contests of millions of pairs affordable, each on contests small enough to check the slow way."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from mdcontest import conditions, files, stationary
from mdcontest.components import members_of
from mdcontest.names import Numbers, Timed
from mdcontest.solvers.base import certify
from mdcontest.witnesses import Minorisation, overlap_of_rows
from random_contests import random_contest, random_rule
from strategies import dense_transitions, seeds


def sparse_contest(seed, **options):
    return random_contest(seed, shape="garnet", **options)  # restarts with probability 0.1


# --- construction -----------------------------------------------------------------------------------------


def test_names_nobody_gave_are_made_on_demand():
    contest = mdc.Contest(np.full((3, 2, 3), 1 / 3), np.ones(3) / 3, np.zeros((6, 6)))
    names = contest.state_names
    assert isinstance(names, Numbers)
    assert names == ["0", "1", "2"]
    assert names != ["0", "1", "3"]
    assert names != "012"
    assert (names[-1], names[1:], len(names), "2" in names, names.index("1")) == ("2", ["1", "2"], 3, True, 1)
    with pytest.raises(IndexError):
        names[3]
    timed = contest.finite_horizon(2).state_names
    assert isinstance(timed, Timed)
    assert timed == ["0 at 0", "1 at 0", "2 at 0", "0 at 1", "1 at 1", "2 at 1"]
    assert repr(timed[4:]) == "['1 at 1', '2 at 1']"
    for kept in (names, timed):
        assert copy.deepcopy(kept) == kept
    assert contest.to_record()["state_names"] is None
    assert contest.finite_horizon(2).to_record()["state_names"] == list(timed)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_transitions_are_copied_once_and_stay_narrow(index):
    """Entries may come twice, as zero, unsorted and with wide indices; the caller's arrays stay as they are."""
    data = np.array([0.25, 0.25, 0.5, 0.0, 1.0])
    columns, rows = np.array([1, 0, 1, 0, 1], index), np.array([0, 4, 5], index)
    given_ = sp.csr_array((data, columns, rows), shape=(2, 2))
    before = data.copy(), columns.copy(), rows.copy()
    contest = mdc.Contest(given_, [0.5, 0.5], np.zeros((2, 2)))
    np.testing.assert_array_equal(dense_transitions(contest).reshape(2, 2), [[0.25, 0.75], [0, 1]])
    P = contest.dynamics.matrix
    assert P.indices.dtype == P.indptr.dtype == np.int32
    data[:] = 7
    np.testing.assert_array_equal(P.data, [0.25, 0.75, 1.0])
    for array, kept in zip((columns, rows), before[1:], strict=True):
        np.testing.assert_array_equal(array, kept)
    restarted = contest.with_restart(0.5)
    assert np.shares_memory(restarted.dynamics.matrix.indices, P.indices)
    np.testing.assert_array_equal(P.data, [0.25, 0.75, 1.0])
    np.testing.assert_array_equal(restarted.dynamics.matrix.data, [0.125, 0.375, 0.5])


def test_a_restart_is_not_written_in_where_that_would_be_large():
    """20 000 pairs that each may return to 10 000 states are 200 million entries; P h and Pᵀ x need none."""
    S, n = 10_000, 20_000
    P = sp.csr_array((np.ones(n), np.arange(n) % S, np.arange(n + 1)), shape=(n, S))
    contest = mdc.Contest.from_mdp(P, np.full(S, 1 / S), np.zeros(n)).with_restart(0.5)
    with pytest.raises(mdc.SizeError, match=r"2e\+08 entries more, 10000 in each of 20000 rows.*dynamics\.expect\(h\)"):
        _ = contest.transitions
    np.testing.assert_allclose(contest.dynamics.expect(np.ones(S)), 1)
    assert contest.dynamics.flow(np.full(n, 1 / n)).sum() == pytest.approx(1)


# --- conditions -------------------------------------------------------------------------------------------


@given(seeds)
def test_the_common_part_of_sparse_rows_is_that_of_dense_ones(seed):
    """ε = Σ_s' min_sa P(s'|s, a), with columns that are full now and then."""
    rng = np.random.default_rng(seed)
    S, A = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    P = rng.dirichlet(np.ones(S), size=(S, A)) * (rng.random((S, A, S)) < 0.9)
    P[:, :, 0] += 1e-3
    P /= P.sum(axis=2, keepdims=True)
    sparse = mdc.Contest(sp.csr_array(P.reshape(S * A, S)), np.ones(S) / S, np.zeros((S * A, S * A)))
    epsilon, measure = overlap_of_rows(sparse.dynamics)
    np.testing.assert_allclose(epsilon, P.min(axis=(0, 1)).sum())
    np.testing.assert_allclose(epsilon * measure, P.min(axis=(0, 1)), atol=1e-15)
    assert mdc.check_conditions(sparse).unichain.witness.holds(sparse)


def test_a_restart_settles_the_conditions_of_a_large_contest_at_once(monkeypatch):
    """No graph is built: the restart is a common part of all rows. The witness checks itself from that part alone."""
    contest = sparse_contest(1, states=40, actions=2)
    small = mdc.check_conditions(contest)
    monkeypatch.setattr(conditions, "SHARPENED_STATES", 39)
    monkeypatch.setattr(conditions, "ContestGraph", None)
    again = contest.with_restart(1e-9)
    large = mdc.check_conditions(again)
    assert (large.unichain, large.aperiodic) == (small.unichain, small.aperiodic) == ("yes", "yes")
    assert large.tau == pytest.approx(2 / (0.1 + 0.9e-9))
    assert large.unichain.witness.holds(again)


def test_a_common_part_must_be_a_distribution_and_common():
    contest = sparse_contest(2, states=5, actions=2)
    start = contest.start
    assert Minorisation(0.1, start).holds(contest)
    assert Minorisation(0.05, tuple(start)).holds(contest)
    assert not Minorisation(0.5, start).holds(contest)
    assert not Minorisation(0.05, 2 * start).holds(contest)
    assert not Minorisation(0.05, start + np.array([-1, 1, 0, 0, 0])).holds(contest)
    assert not Minorisation(0.0, start).holds(contest)


@given(seeds, st.integers(1, 30))
def test_members_of_labels(seed, n):
    rng = np.random.default_rng(seed)
    label = rng.integers(6, size=n)
    wanted = np.flatnonzero(rng.random(6) < 0.5)
    for k, found in zip(wanted, members_of(label, wanted), strict=True):
        np.testing.assert_array_equal(found, np.flatnonzero(label == k))


# --- verification -----------------------------------------------------------------------------------------


@given(seeds, st.floats(1e-12, 1.0))
def test_the_flow_residual_bounds_the_distance_to_the_occupancy(seed, wanted):
    """‖x − x^d‖₁ ≤ ‖r‖₁/ε, from wherever the sweeps begin and wherever they end, against elimination."""
    contest = sparse_contest(seed)
    rng = np.random.default_rng(seed)
    rule, near = random_rule(rng, contest), rng.dirichlet(np.ones(contest.num_pairs))
    near = near.reshape(contest.num_states, contest.num_actions)
    x, within = stationary._by_restarts(contest, contest.dynamics.restart, rule, near, wanted)
    assert within <= wanted
    assert np.abs(x - stationary.solved_within(contest, rule)[0]).sum() <= within + 1e-14


@pytest.mark.parametrize("sweeps", [0, 1, 300])
@pytest.mark.parametrize("seed", range(6))
def test_verdicts_are_the_same_with_and_without_equations(seed, sweeps, monkeypatch):
    """Honest claims hold, false ones do not, and the gap found is the same, whether sweeps suffice or LU takes over."""
    contest = sparse_contest(seed, states=12, actions=3)
    rule = random_rule(np.random.default_rng(seed), contest)
    proof = certify(contest, rule)
    honest = mdc.Solution(rule, proof.x, max(0.0, -proof.kappa), proof, mdc.Status.SOLVED, "test", "test", 1.0)
    other = certify(contest, rule[:, ::-1])
    swapped = mdc.Solution(rule, other.x, max(0.0, -other.kappa), other, mdc.Status.SOLVED, "test", "test", 1.0)
    usual = mdc.verify(contest, honest).gap
    monkeypatch.setattr(stationary, "ELIMINATION_STATES", 1)
    monkeypatch.setattr(stationary, "SWEEPS", sweeps)
    found = mdc.verify(contest, honest)
    assert found, found
    assert found.gap == pytest.approx(usual, abs=1e-9 * contest.margin.bound)
    assert not mdc.verify(contest, swapped)


def test_a_restart_of_no_pair_or_hardly_any_needs_the_equations():
    """A horizon restarts from its last layer only: ε = 0, and the residual bounds nothing."""
    contest = sparse_contest(4, states=5, actions=2).finite_horizon(3)
    x = np.full((15, 2), 1 / 30)
    rule = np.full((15, 2), 0.5)
    assert stationary._by_restarts(contest, contest.dynamics.restart, rule, x, 1.0) is None
    rare = mdc.Contest(np.full((2, 1, 2), 0.5), [0.5, 0.5], np.zeros((2, 2)))
    assert stationary._by_restarts(rare, np.full(2, 1e-12), np.ones((2, 1)), np.full((2, 1), 0.5), 1.0) is None


def test_what_is_no_occupancy_to_begin_with_does_no_harm(monkeypatch):
    """NaN, zeros or negative masses as the place to begin: the sweeps begin at the start distribution instead."""
    contest = sparse_contest(5, states=8, actions=2)
    rule = random_rule(np.random.default_rng(5), contest)
    expected = stationary.solved_within(contest, rule)[0]
    for near in (np.full((8, 2), np.nan), np.zeros((8, 2)), np.full((8, 2), -1.0), np.full((8, 2), np.inf)):
        x, within = stationary._by_restarts(contest, contest.dynamics.restart, rule, near, 1e-9)
        assert np.abs(x - expected).sum() <= within <= 1e-9


# --- files ------------------------------------------------------------------------------------------------


def test_large_files_are_stored_plain_and_read_back(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PACKED_BYTES", 0)
    contest, path = sparse_contest(6, margin="low rank"), tmp_path / "c.npz"
    contest.save(path)
    again = mdc.load_contest(path)
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(again.dynamics.matrix, part), getattr(contest.dynamics.matrix, part))
    np.testing.assert_array_equal(again.margin.features, contest.margin.features)
    assert again.state_names == contest.state_names
    content = path.read_bytes()
    for cut in range(0, len(content), 97):
        path.write_bytes(content[:cut])
        with pytest.raises(mdc.InputError, match=r"c\.npz"):
            mdc.load_contest(path)
