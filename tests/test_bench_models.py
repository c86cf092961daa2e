"""The models of bench/solvers.py: a benchmark that solves the wrong problem measures nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import poisson

import mdcontest as mdc
from bench_modules import MODELS, contests, models


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("pairs", [20, 90, 1000])
def test_models_are_stochastic_of_the_right_size_and_unichain(name, pairs):
    model = contests.sized(name, pairs)
    states, actions = model.reward.shape
    assert model.transitions.shape == (states * actions, states)
    assert abs(model.num_pairs - pairs) <= 0.4 * pairs
    assert model.transitions.data.min() > 0
    np.testing.assert_allclose(model.transitions.sum(axis=1), 1, atol=1e-14)
    np.testing.assert_allclose(model.start.sum(), 1, atol=1e-14)
    assert np.isfinite(model.reward).all()
    if pairs < 1000:
        contest = model.contest(contests.reward(model))
        assert contest.num_pairs == model.num_pairs
        assert mdc.check_conditions(contest).unichain == "yes"


def test_a_model_is_a_function_of_its_size_and_seed():
    first, again, other = (models.garnet(50, seed=seed) for seed in (1, 1, 2))
    assert (first.transitions != again.transitions).nnz == 0
    assert (first.transitions != other.transitions).nnz > 0


@pytest.mark.parametrize("states", [5, 20, 400])
def test_garnet_rows_have_distinct_successors(states):
    P = models.garnet(states, seed=3).transitions
    assert (np.diff(P.indptr) == 5).all()
    counts = np.bincount(P.indices, minlength=states)
    assert counts.min() > 0.3 * P.shape[0] * 5 / states  # every state is a successor about as often as any other


@pytest.mark.parametrize("side", [2, 3, 7, 12])
def test_grid_moves_as_a_walk_cell_by_cell_says(side):
    """The slow obvious form: one cell at a time, a wall across the middle of either side, doors at the quarters."""
    model = models.grid(side)
    half, wide = (side + 1) // 2, max(1, side // 10)

    def goes(row, column, direction):
        down, right = [(-1, 0), (0, 1), (1, 0), (0, -1)][direction]
        r, c = row + down, column + right
        if not (0 <= r < side and 0 <= c < side):
            return row * side + column
        if (row < half) != (r < half) or (column < half) != (c < half):
            along = column if down else row
            if min(abs(along - side // 4), abs(along - 3 * side // 4)) >= (wide + 1) / 2:
                return row * side + column
        return r * side + c

    for row, column in np.ndindex(side, side):
        s = row * side + column
        for a in range(4):
            expected = np.zeros(side**2)
            for turn, probability in ((0, 0.8), (1, 0.1), (3, 0.1)):
                expected[goes(row, column, (a + turn) % 4)] += probability
            np.testing.assert_allclose(model.transitions[[5 * s + a]].toarray()[0], expected, atol=1e-15)
        assert model.transitions[[5 * s + 4]].toarray()[0, s] == pytest.approx(1)


@pytest.mark.parametrize("side", [2, 5, 10, 31])
def test_every_cell_of_the_grid_can_be_reached(side):
    from scipy.sparse.csgraph import connected_components

    P = models.grid(side).transitions
    moves = sum(P[a::5] for a in range(4))
    assert connected_components(moves, connection="strong")[0] == 1


@pytest.mark.parametrize("fast", [0, 1])
def test_queue_that_admits_everybody_has_the_law_of_mm1k(fast):
    """ν(q) ∝ (λ/μ)^q, q = 0 … K: the balance λ ν(q) = μ ν(q + 1) of the M/M/1/K queue. λ/μ is 1.25 or 0.625."""
    model = models.queue(12, arrival=0.5, services=(0.4, 0.8))
    contest = model.contest(contests.reward(model))
    rule = np.eye(4)[np.full(13, 2 + fast)]
    law = (0.5 / (0.4, 0.8)[fast]) ** np.arange(13)
    np.testing.assert_allclose(mdc.occupancy(contest, rule).sum(axis=1), law / law.sum(), atol=1e-14)


def test_cost_of_the_queue_by_hand():
    """K = 4, λ = 0.5, μ = 0.4 and 0.8, so a step is an arrival with 5/13. Two waiting, admitted, fast: 2/4 + 0.3.

    Full and admitting, slow: 1, and the arrival is lost. Empty, turned away, fast: the server rests, so 5/13.
    """
    reward = models.queue(4, arrival=0.5, services=(0.4, 0.8)).reward
    assert reward[2, 3] == pytest.approx(-0.8)
    assert reward[4, 2] == pytest.approx(-1 - 5 / 13)
    assert reward[0, 1] == pytest.approx(-5 / 13)


def test_routing_everybody_to_one_queue_leaves_the_other_empty():
    """The second queue drains, and the first is M/M/1/K with λ/μ = 0.9/0.6."""
    model = models.routing(6, arrival=0.9, services=(0.6, 0.4))
    contest = model.contest(contests.reward(model))
    nu = mdc.occupancy(contest, np.eye(3)[np.zeros(49, int)]).sum(axis=1).reshape(7, 7)
    law = 1.5 ** np.arange(7)
    np.testing.assert_allclose(nu[:, 0], law / law.sum(), atol=1e-13)
    np.testing.assert_allclose(nu[:, 1:], 0, atol=1e-13)


def test_inventory_follows_the_demand():
    """From a full store of 60 without an order, 60 − D is left; one that never orders ends empty and earns nothing."""
    model = models.inventory(60, demand=8.0)
    left = model.transitions[[4 * 60]].toarray()[0]
    np.testing.assert_allclose(left[60 - np.arange(30)], poisson.pmf(np.arange(30), 8), atol=1e-12)
    contest = model.contest(contests.reward(model))
    nu = mdc.occupancy(contest, np.eye(4)[np.zeros(61, int)]).sum(axis=1)
    np.testing.assert_allclose(nu, np.eye(61)[0], atol=1e-12)
    assert model.reward[0, 0] == 0


def test_reward_of_the_inventory_by_enumerating_demands():
    """Stock 5, two lots of 8 ordered into a store of 40: 8 E min(21, D) − 4 − 2·16 − 21/40."""
    D = np.arange(200)
    expected = 8 * np.minimum(21, D) @ poisson.pmf(D, 8.0) - 4 - 32 - 21 / 40
    assert models.inventory(40).reward[5, 2] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: models.garnet(4), "5 successors among 4 states"),
        (lambda: models.grid(1), "no four rooms"),
        (lambda: models.queue(0), "at least one customer"),
        (lambda: models.routing(0), "at least one customer"),
        (lambda: models.inventory(0), "at least one unit"),
        (lambda: models.inventory(10, demand=50.0), "take one below 20"),
        (lambda: contests.sized("maze", 10), "no model is called 'maze'"),
        (lambda: contests.make("queue", "votes", 10), "no margin is called 'votes'"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(make, complaint):
    with pytest.raises(mdc.InputError, match=complaint):
        make()


def test_margins_are_skew_and_balanced():
    """Each of the five classes beats two and loses to two, so the uniform mixture of classes ties with everything."""
    model = models.queue(9)
    for kind, make in contests.MARGINS.items():
        M = model.contest(make(model, 1)).margin.matrix()
        np.testing.assert_allclose(M, -M.T, atol=1e-12, err_msg=kind)
    K = contests.classes(model).class_matrix
    assert (K.sum(axis=1) == 0).all()
    assert (np.abs(K).sum(axis=1) == 4).all()
