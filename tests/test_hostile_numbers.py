"""Numbers at the edges of what floats hold: single precision, cancellation, tiny probabilities, huge margins, files."""

import dataclasses
import json
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import mdcontest as mdc
from mdcontest import solvers, stationary
from mdcontest.errors import FileFormatError, InputError

CYCLE = [[0, 1, 0, -4], [-1, 0, -2, 4], [0, 2, 0, -3], [4, -4, 3, 0]]
SKEW = np.random.default_rng(0).normal(size=(6, 6))
SKEW = SKEW - SKEW.T


# --- precision ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_rounding_of_terms_that_cancel_is_no_lack_of_symmetry(seed):
    """Equal outcomes have terms of size one whose sum, zero but for rounding, is the same in both directions."""
    rng = np.random.default_rng(seed)
    features, v, A = rng.uniform(size=(6, 3)), rng.uniform(size=3), rng.normal(size=(3, 3))
    functions = (
        lambda z, w: np.tanh(0.1 * (z @ v) + z[:, 0] - 0.1 * (w @ v) - w[:, 0]),
        lambda z, w: ((z @ (A - A.T)) * w).sum(axis=1),
        lambda z, w: np.einsum("nd,de,ne->n", z, A - A.T, w),
    )
    for function in functions:
        M = mdc.margins.Pairwise(function, outcomes=features).matrix()
        assert np.array_equal(M, -M.T)


def test_a_small_pair_that_is_not_skew_does_not_hide_behind_a_large_one():
    table = {(0, 1): 1e9 + 5, (1, 0): -1e9, (2, 0): 1.0}  # the first is skew up to 5e-9, the second is not at all

    def compare(z, w):
        return np.array([table.get(pair, 0.0) for pair in zip(z.astype(int), w.astype(int), strict=True)])

    with pytest.raises(InputError, match=r"which sum to 1, for z = 0\.0 and w = 2\.0"):
        mdc.margins.Pairwise(compare, outcomes=np.arange(3.0)).matrix()


def test_single_precision_is_taken_for_what_it_is_everywhere():
    u = np.random.default_rng(0).normal(size=6).astype(np.float32)
    features = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)
    J = np.array([[0, 1, 2], [-1, 0, 0.3], [-2, -0.3, 0]], np.float32)
    uniform = np.full((2, 3, 2), 0.5)
    matrix = mdc.margins.FromPreference(1 / (1 + np.exp(u[None] - u[:, None]))).matrix()
    function = mdc.margins.FromPreference(lambda z, w: 1 / (1 + np.exp(w - z)), outcomes=u).matrix()
    assert np.allclose(matrix, function, atol=1e-6)
    mdc.Contest(uniform, [0.5, 0.5], features @ J @ features.T)
    mdc.Contest.from_mdp(np.full((3, 2, 3), 1 / 3, np.float32), np.full(3, 1 / 3, np.float32), np.arange(6))
    third = np.full((1, 3), 1 / 3, np.float32)
    assert mdc.optimality_gap(mdc.examples.make("rock-paper-scissors"), third) == pytest.approx(0, abs=1e-7)


def test_double_precision_is_held_to_its_own():
    third = np.full((1, 3), 1 / 3, np.float32).astype(float)
    with pytest.raises(InputError, match=r"it sums to 1\.0000000"):
        mdc.optimality_gap(mdc.examples.make("rock-paper-scissors"), third)
    with pytest.raises(InputError, match=r"P\[0,1\] \+ P\[1,0\] = 1, it must be 1, and is off by 1e-06"):
        mdc.margins.FromPreference([[0.5, 0.4], [0.600001, 0.5]])


@pytest.mark.parametrize("margin", [mdc.margins.Dense, lambda M: mdc.margins.FromPreference(M / 20 + 0.5)])
def test_a_matrix_of_other_states_and_actions_is_refused(margin):
    uniform = np.full((2, 3, 2), 0.5)
    mdc.Contest(uniform, [1, 0], margin(SKEW.reshape(2, 3, 2, 3)))
    mdc.Contest(uniform, [1, 0], margin(SKEW))
    with pytest.raises(InputError, match=r"\(3, 2, 3, 2\); 2 states × 3 actions"):
        mdc.Contest(uniform, [1, 0], margin(SKEW.reshape(3, 2, 3, 2)))
    with pytest.raises(InputError, match=r"\(S, A, S, A\), got \(2, 3, 3, 2\)"):
        margin(SKEW.reshape(2, 3, 3, 2))


def test_outcomes_of_one_number_each_where_there_is_one_action():
    margin = mdc.margins.Pairwise(lambda z, w: z[:, 0] - w[:, 0], outcomes=np.arange(3.0)[:, None])
    assert mdc.solve(mdc.Contest(np.full((3, 1, 3), 1 / 3), [1, 0, 0], margin)).status == "solved"


# --- probabilities ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0, 2])
@pytest.mark.parametrize("exit", [1e-6, 1e-9, 1e-12, 1e-16, 1e-20])
def test_a_transient_state_that_is_hardly_ever_left_costs_no_digits(exit, start):
    """There is one policy, so the gap is zero; state 2 never comes back, and its values are of size 1/exit."""
    P = np.array([[[0.5, 0, 0, 0.5]], [[1, 0, 0, 0]], [[0, 0, 1 - exit, exit]], [[0, 0.5, 0, 0.5]]])
    contest = mdc.Contest(P, np.eye(4)[start], CYCLE)
    found = mdc.solve(contest)
    assert found.status == "solved"
    assert found.gap < 1e-13
    assert mdc.verify(contest, found).holds
    assert mdc.optimality_gap(contest, np.ones((4, 1))) == pytest.approx(0, abs=1e-13)


def test_a_gap_is_never_above_what_the_best_pair_wins():
    """Exits of 1e-17: over the rationals the gap is 3.519; a linear solve alone had 7.04, with margins of at most 4."""
    P = [[[1.0, 1e-17, 0], [0, 1, 0]], [[0.5, 0.5, 5e-21], [1 / 3, 1 / 3, 1 / 3]], [[1e-17, 1e-20, 1], [0, 0, 1]]]
    M = [[0, -3, 4, 3, -1, -4], [3, 0, -2, 1, 3, 4], [-4, 2, 0, 1, 4, -2]]
    M += [[-3, -1, -1, 0, -1, 0], [1, -3, -4, 1, 0, 1], [4, -4, 2, 0, -1, 0]]
    gap = mdc.optimality_gap(mdc.Contest(P, [1, 0, 0], M), [[0.97, 0.03], [0.75, 0.25], [0.96, 0.04]])
    assert gap == pytest.approx(3.519, abs=1e-3)


def test_values_beyond_all_digits_are_warned_of():
    """One policy, so the gap is zero; its values are of size 1e293, and say nothing about what is earned a step."""
    P = [[[0.5, 5e-306, 5e-201, 0.5]], [[1, 0, 0, 0]], [[0, 0, 1, 1e-293]], [[0, 0.5, 0, 0.5]]]
    contest = mdc.Contest(P, [0, 0, 1, 0], CYCLE)
    with pytest.warns(RuntimeWarning, match=r"between 0 and 0\.8"):
        assert mdc.optimality_gap(contest, np.ones((4, 1))) == 0


def test_a_restart_that_leaves_almost_nothing_to_a_row_of_zeros_is_refused(tmp_path):
    path = tmp_path / "c.json"
    record = {
        "format": "mdcontest/contest",
        "version": 1,
        "states": 2,
        "actions": 1,
        "start": [1, 0],
        "transitions": {"dense": [[[0, 0]], [[0, 0]]], "restart": [1 - 1e-9, 1 - 1e-9]},
        "margin": {"kind": "reward_difference", "reward": [0, 1]},
    }
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"\(s=0, a=0\) sums to 0, it must sum to 1e-09"):
        mdc.load_contest(path)


# --- size ---------------------------------------------------------------------------------------------------


def test_rewards_whose_mean_overflows_are_refused():
    P = np.random.default_rng(1).dirichlet(np.ones(3), (3, 3))
    with pytest.raises(InputError, match="overflow; divide them by a common factor"):
        mdc.Contest.from_mdp(P, [1, 0, 0], np.arange(9.0) / 9 * 8e307)
    assert mdc.solve(mdc.Contest.from_mdp(P, [1, 0, 0], np.arange(9.0) / 9 * 1e307)).status == "solved"


@pytest.mark.parametrize("solver", [solvers.HPI(eta=1e308), solvers.HPIPG(eta=1e308)])
def test_a_learning_rate_that_overflows_is_named(solver):
    P = np.random.default_rng(1).dirichlet(np.ones(3), (3, 3))
    with pytest.raises(InputError, match=r"eta = 1e\+308 is too large"):
        mdc.solve(mdc.Contest.from_mdp(P, [1, 0, 0], np.arange(9.0)), solver=solver)


def test_an_occupancy_of_large_numbers_is_still_one():
    assert np.array_equal(mdc.decision_rule([[1e308, 1e308], [0, 1e308]]), [[0.5, 0.5], [0, 1]])


@pytest.mark.parametrize(
    ("solver", "words"),
    [
        (solvers.PolicyGame(max_policies=0), "max_policies must be a whole number, at least 1, got 0"),
        (solvers.MirrorDescent(max_policies=0), "max_policies must be a whole number"),
        (solvers.HPIPG(ascent_steps=-3), "ascent_steps must be a whole number, at least 1, got -3"),
        (solvers.HPIPG(ascent_tol=float("nan")), "ascent_tol must be a nonnegative number, got nan"),
    ],
)
def test_settings_out_of_range(solver, words):
    with pytest.raises(InputError, match=words):
        mdc.solve(mdc.examples.make("rock-paper-scissors"), solver=solver)


@pytest.mark.parametrize(
    "make",
    [
        lambda: mdc.margins.Signs([[1.0], [2.0]], period="a"),
        lambda: mdc.margins.Pairwise(lambda z, w: z - w, bound="a"),
        lambda: mdc.decision_rule("a"),
        lambda: mdc.decision_rule(np.array([["1", "0"]], dtype=object)),
        lambda: mdc.margins.RewardDifference(np.array([1, b"2"], dtype=object)),
        lambda: mdc.Contest(np.ones((1, 1, 1)), [1], [[0]], name=None),
        lambda: mdc.Contest(np.ones((1, 1, 1)), [1], [[0]], state_names=3),
    ],
)
def test_what_is_no_number_or_text_is_an_error_in_words(make):
    with pytest.raises(InputError):
        make()


# --- files --------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "solution.json"
    contest = mdc.examples.make("rock-paper-scissors")
    mdc.solve(contest, solver=solvers.HPI(iterations=64)).save(path)
    return path, json.loads(path.read_text())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r["history"]["gaps"].pop(), r"history has \d+ iterations, \d+ gaps"),
        (lambda r: r["certificate"].update(extra=1), "unknown field 'extra' in certificate, which has x, h, kappa"),
        (lambda r: r.update(extra=1), r"solution\.json: unknown field 'extra'; a solution has"),
        (lambda r: r.update(info=[]), "info must be an object"),
        (lambda r: r.update(rule=[["1", "0", "0"]]), "must be an array of numbers"),
        (lambda r: r.update(rule=[[None, 0, 1]]), "must be an array of numbers: it holds None"),
        (lambda r: r.update(rule=[[]]), r"at least one state and one action, got shape \(1, 0\)"),
        (lambda r: r["certificate"].update(h=[]), "at least one state"),
        (lambda r: r.update(tol=-1), r"solution\.json: tol must be a nonnegative number, got -1"),
        (lambda r: r["history"]["iterations"].__setitem__(0, 1.5), r"history has the iteration 1\.5; .* whole numbers"),
        (lambda r: r["history"]["iterations"].__setitem__(0, 1e300), r"the iteration 1e\+300"),
        (lambda r: r["history"]["iterations"].__setitem__(0, -1), "the iteration -1"),
    ],
)
def test_a_solution_file_that_is_not_what_it_should_be(stored, change, words):
    path, record = stored
    change(record)
    path.write_text(json.dumps(record))
    with pytest.raises(FileFormatError, match=words):
        mdc.load_solution(path)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("data", lambda r: r["transitions"].update(data=["1"] * len(r["transitions"]["data"]))),
        ("data", lambda r: r["transitions"]["data"].__setitem__(0, None)),
        ("M", lambda r: r["margin"]["M"][0].__setitem__(0, "0")),
        ("M", lambda r: r["margin"]["M"][0].__setitem__(0, None)),
    ],
)
def test_texts_and_nothing_are_no_numbers_of_a_contest_file(tmp_path, field, change):
    import scipy.sparse as sp

    path = tmp_path / "c.json"
    mdc.Contest(sp.csr_array(np.full((2, 2), 0.5)), [1, 0], [[0, 1], [-1, 0]]).save(path)
    record = json.loads(path.read_text())
    record["margin"].pop("index", None)
    change(record)
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match=rf"c\.json: {field} must be an array of numbers"):
        mdc.load_contest(path)


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_a_number_that_is_not_finite_is_not_written(tmp_path, ending):
    solution = mdc.solve(mdc.examples.make("rock-paper-scissors"))
    with pytest.raises(InputError, match="not finite"):
        dataclasses.replace(solution, gap=np.inf).save(tmp_path / f"s.{ending}")
    assert list(tmp_path.iterdir()) == []


# --- states that are hardly ever left ------------------------------------------------------------------------


def two_halves(p, states=5, seed=0, sparse=False):
    """Two halves with random transitions among themselves; from each one state leads to the other with p and 3p."""
    rng, half = np.random.default_rng(seed), states // 2
    P = np.zeros((2 * half, 2, 2 * half))
    for part in (slice(0, half), slice(half, 2 * half)):
        P[part, :, part] = rng.dirichlet(np.ones(half), (half, 2))
    P[0, :, half], P[half, :, 0] = p, [3 * p, p]
    P /= P.sum(axis=2, keepdims=True)
    matrix = sp.csr_array(P.reshape(-1, 2 * half)) if sparse else P
    rewards = np.repeat([1.0, 0.0], 2 * half)
    return mdc.Contest(matrix, np.eye(2 * half)[0], mdc.margins.RewardDifference(rewards)), P


def exact_shares(P, rule):
    """Frequencies by elimination over the rationals, of what the floats say but for diagonals."""
    Q = [
        [sum(Fraction(float(rule[s, a])) * Fraction(float(P[s, a, t])) for a in range(2)) for t in range(len(P))]
        for s in range(len(P))
    ]
    for k in range(len(Q) - 1, 0, -1):
        leaves = sum(Q[k][:k])
        for i in range(k):
            Q[i][k] /= leaves
            for j in range(k):
                Q[i][j] += Q[i][k] * Q[k][j]
    nu = [Fraction(1)]
    for k in range(1, len(Q)):
        nu.append(sum(nu[i] * Q[i][k] for i in range(k)))
    return np.array([float(share / sum(nu)) for share in nu])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("p", [1e-9, 1e-12, 1e-15, 1e-18, 1e-30])
def test_frequencies_of_halves_that_hardly_meet(p, sparse):
    contest, P = two_halves(p, states=8, sparse=sparse)
    rule = np.random.default_rng(1).dirichlet([1, 1], 8)
    np.testing.assert_allclose(mdc.occupancy(contest, rule).sum(axis=1), exact_shares(P, rule), rtol=1e-12)


def test_a_rule_that_loses_is_not_called_unbeaten():
    """Three states: balance ν0 p = ν2 p and ν1 = ν0 make it a third each; who stays in the last wins 2/3."""
    p = 1e-16
    P = np.zeros((3, 2, 3))
    P[0, 0], P[0, 1], P[1], P[2] = [0, 1, 0], [0, 0, 1], [1, 0, 0], [p, 0, 1]
    contest = mdc.Contest(P, [1, 0, 0], mdc.margins.RewardDifference([0, 0, 0, 0, 1, 1.0]))
    rule = [[1, p], [1, 0], [1, 0]]
    np.testing.assert_allclose(mdc.occupancy(contest, rule).sum(axis=1), [1 / 3] * 3)
    assert mdc.optimality_gap(contest, rule) == pytest.approx(2 / 3)


@pytest.mark.parametrize("p", [1e-9, 1e-12, 1e-14])
def test_what_is_certified_of_large_halves_is_true(p, monkeypatch):
    """With eliminations for a few states only, as if there were thousands: gaps are proved from above or not at all."""
    for module in ("mdcontest.elimination", "mdcontest.solvers.certifying"):
        monkeypatch.setattr(f"{module}.FEW_STATES", 1)
        monkeypatch.setattr(f"{module}.MOST_STATES", 1)
    monkeypatch.setattr(stationary, "ELIMINATION_STATES", 1)
    monkeypatch.setattr(stationary, "ELIMINATION_LIMIT", 1)
    for seed in range(4):
        contest, P = two_halves(p, states=40, seed=seed, sparse=True)
        half = contest.num_states // 2
        uniform = np.full((2 * half, 2), 0.5)
        good = np.zeros((2 * half, 2))
        good[:, 1] = 1  # it comes back with p only
        good[half, 0], good[half, 1] = 1, 0  # and leaves the second half with 3p
        gap = exact_shares(P, good)[:half].sum() - exact_shares(P, uniform)[:half].sum()
        solution = mdc.solve(contest, solvers.HPI(1))
        np.testing.assert_allclose(solution.rule, uniform)
        assert solution.gap >= gap - 1e-12
        x, within = stationary.solved_within(contest, uniform)
        true = exact_shares(P, uniform)[:, None] * uniform
        assert np.abs(x.reshape(true.shape) - true).sum() <= within + 1e-9


def test_an_occupancy_that_may_be_wrong_says_so(monkeypatch):
    monkeypatch.setattr("mdcontest.elimination.FEW_STATES", 1)
    monkeypatch.setattr("mdcontest.elimination.MOST_STATES", 1)
    contest, _ = two_halves(1e-14, states=40, sparse=True)
    with pytest.warns(RuntimeWarning, match=r"may be off by .* use contest\.with_restart"):
        mdc.occupancy(contest, np.full((40, 2), 0.5))
