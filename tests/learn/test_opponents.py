"""Whom outcomes are compared with: the very batch, or a queue of the policy before with samples of the first."""

import numpy as np
import pytest

from mdcontest.learn.opponents import FIRST_SAMPLES, Opponents
from mdcontest.outcomes import Outcomes
from mdcontest.settings import Settings


def batch(number, size=300):
    """Outcomes that name their iteration and their row."""
    rows = np.arange(size)
    return Outcomes({"row": rows, "iteration": np.full(size, number)}, reward=1000.0 * number + rows)


def opponents(**settings):
    return Opponents(Settings(**settings), np.random.default_rng(0))


def iterations(outcomes):
    return set(outcomes.obs["iteration"].tolist())


def test_in_batch_mode_the_opponents_are_the_very_batch():
    met = opponents()
    for number in range(3):
        z = batch(number)
        assert met.meet(z) is z  # a margin that knows may save half the work
    assert met.queue is None
    assert len(met.first) == FIRST_SAMPLES
    assert iterations(met.first) == {0}


def test_the_first_queue_is_drawn_from_the_first_batch():
    met = opponents(opponents="queue", queue_size=10)
    seen = met.meet(batch(0))
    assert len(seen) == 10
    assert iterations(seen) == {0}


def test_later_queues_are_samples_of_the_batch_before():
    met = opponents(opponents="queue", queue_size=25)
    met.meet(batch(0))
    for number in range(1, 5):
        waiting = met.queue
        seen = met.meet(batch(number))
        assert seen is waiting
        assert len(seen) == 25
        assert iterations(seen) == {number - 1}


def test_samples_are_whole_outcomes_drawn_without_repetition():
    met = opponents(opponents="queue", queue_size=200)
    met.meet(batch(7))
    queue = met.queue
    np.testing.assert_array_equal(queue.reward, 7000.0 + queue.obs["row"])
    assert len(set(queue.obs["row"].tolist())) == 200


def test_samples_of_the_first_iterate_stay():
    met = opponents(opponents="queue", queue_size=10, first_iterate=4)
    first = met.meet(batch(0))[10:]
    assert len(first) == 4
    for number in range(1, 4):
        seen = met.meet(batch(number))
        assert len(seen) == 14
        assert iterations(seen[:10]) == {number - 1}
        np.testing.assert_array_equal(seen[10:].reward, first.reward)


@pytest.mark.parametrize("first_iterate", [0, 150])
def test_as_many_samples_of_the_first_iterate_as_are_asked_for(first_iterate):
    met = opponents(opponents="queue", queue_size=10, first_iterate=first_iterate)
    assert len(met.meet(batch(0))) == 10 + first_iterate
    assert len(met.first) == max(FIRST_SAMPLES, first_iterate)


def test_a_batch_smaller_than_the_queue_is_taken_whole():
    met = opponents(opponents="queue", queue_size=100, first_iterate=100)
    met.meet(batch(0, size=8))
    seen = met.meet(batch(1, size=8))
    assert sorted(seen.obs["row"].tolist()) == sorted([*range(8), *range(8)])
    assert len(met.first) == 8


def test_every_outcome_is_sampled_equally_often():
    met, counts = opponents(opponents="queue", queue_size=5), np.zeros(20)
    z = batch(0, size=20)
    for _ in range(2000):
        met.meet(z)
        counts[met.queue.obs["row"]] += 1
    # 2000 draws with probability ¼ each: 500 ± 19.
    np.testing.assert_allclose(counts, 500, atol=80)
