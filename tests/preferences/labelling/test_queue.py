"""Who gets which pair: never the same to two people at once, leases that run out, repetitions, goals."""

import collections

import numpy as np
import pytest

from mdcontest.errors import InputError
from mdcontest.preferences.labelling.queue import HOLD, REPEAT_AFTER, SWAPPED, Queue
from mdcontest.preferences.labels import LABELS
from preferences.labelling.sessions import pair


def queue_of(count, **options):
    queue = Queue(**{"repeat": 0.0, **options})
    for number in range(count):
        assert queue.offer(pair(number))
    return queue


def test_people_at_once_have_different_pairs():
    queue = queue_of(40)
    held = [given for i in range(10) for given in queue.hold(f"person {i}", now=0.0)[0]]
    assert len(held) == 10 * HOLD
    assert len({given.pair.key for given in held}) == len(held)


def test_whoever_comes_back_has_the_same_pairs_in_the_same_order():
    queue = queue_of(10)
    first, fresh = queue.hold("Ada", 0.0)
    again, none = queue.hold("Ada", 50.0)
    assert [given.id for given in first] == [given.id for given in again]
    assert (len(fresh), none) == (HOLD, [])


def test_a_pair_that_is_not_answered_goes_to_others_after_its_lease():
    queue = queue_of(HOLD, lease=100.0)
    mine, _ = queue.hold("Ada", 0.0)
    assert queue.hold("Bob", 99.0)[0] == []
    theirs, _ = queue.hold("Bob", 101.0)
    assert {given.pair.key for given in theirs} == {given.pair.key for given in mine}
    assert queue.hold("Ada", 102.0)[0] == []  # they are Bob's now


def test_a_clock_that_is_set_back_keeps_nobody_waiting_longer_than_a_lease():
    """A pair in Ada's hands is waited for until 10 100 by a clock that then shows 6 400 again."""
    queue = queue_of(HOLD, lease=100.0, goal=HOLD)
    queue.hold("Ada", 10_000.0)
    assert queue.hold("Bob", 6_400.0)[0] == []
    assert len(queue.hold("Bob", 6_501.0)[0]) == HOLD


def test_a_lease_that_ran_out_is_extended_while_nobody_else_wants_the_pair():
    queue = queue_of(HOLD, lease=100.0)
    mine, _ = queue.hold("Ada", 0.0)
    assert queue.hold("Ada", 500.0)[0] == mine
    assert queue.hold("Bob", 550.0)[0] == []


def test_an_answer_after_the_lease_counts_and_closes_the_pair():
    queue = queue_of(1, lease=100.0)
    (given,), _ = queue.hold("Ada", 0.0)
    queue.answer(given, "first", 200.0)
    assert queue.answers == 1
    assert queue.hold("Bob", 300.0)[0] == []


@pytest.mark.parametrize("overlap", [1, 2, 3])
def test_every_pair_is_answered_by_as_many_people_as_wanted(overlap):
    rng, queue, answers = np.random.default_rng(overlap), queue_of(15, overlap=overlap), collections.defaultdict(set)
    people = [f"person {i}" for i in range(5)]
    now = 0.0
    for _ in range(400):
        now += 1.0
        name = people[rng.integers(5)]
        given, _ = queue.hold(name, now)
        running = collections.Counter(g.pair.key for g in queue._given.values() if g.runs(now))
        assert all(len(answers[key]) + n <= overlap for key, n in running.items())
        if given:
            assert name not in answers[given[0].pair.key]
            answers[given[0].pair.key].add(name)
            queue.answer(given[0], "equal", now)
    assert [len(names) for names in answers.values()] == [overlap] * 15


def test_sides_are_random():
    queue, left = queue_of(400), 0
    for i in range(200):
        for given in queue.hold(f"person {i}", 0.0)[0]:
            left += given.left == given.pair.one and given.left.trajectory.startswith("a")
    assert 150 < left < 250  # 400 fair coins: five standard deviations


def test_the_goal_counts_pairs_in_hand():
    queue = queue_of(20, goal=5, lease=100.0)
    held = [given for i in range(10) for given in queue.hold(f"person {i}", 0.0)[0]]
    assert len(held) == 5
    for given in held[:-1]:
        queue.answer(given, "first", 1.0)
    assert not queue.reached
    assert queue.hold("new", 50.0)[0] == []
    (late,), _ = queue.hold("new", 101.0)
    queue.answer(late, "first", 102.0)
    assert queue.reached


def answer_all(queue, name, count, label):
    """Answer `count` pairs by `label(given)`; what was given."""
    done = []
    for step in range(count):
        given = queue.hold(name, float(step))[0][0]
        queue.answer(given, label(given), float(step))
        done.append(given)
    return done


def test_repetitions_come_later_swapped_and_once_to_the_same_person():
    queue = queue_of(300, repeat=0.3, seed=1)
    done = answer_all(queue, "Ada", 250, lambda given: "first")
    place = {given.id: number for number, given in enumerate(done)}
    again = [given for given in done if given.repeat_of is not None]
    assert 50 <= len(again) <= 100  # of 250 fair draws with 0.3
    assert len({given.repeat_of for given in again}) == len(again)
    for given in again:
        first = done[place[given.repeat_of]]
        assert first.repeat_of is None
        assert (first.left, first.right) == (given.right, given.left)
        assert place[given.id] - place[first.id] > REPEAT_AFTER - HOLD
    assert queue.hold("Bob", 0.0)[0][0].repeat_of is None
    assert queue.answers == 250 - len(again)


def looked_at(queue, name, times):
    """What somebody is shown who only looks."""
    for now in range(times):
        held = queue.hold(name, float(now))[0]
    return held


def test_repetitions_are_drawn_once_a_question_and_not_once_a_look():
    """The page looks every two seconds where there are no new pairs: within minutes everything would come again."""
    queue = queue_of(60, repeat=0.1, seed=3)
    answered = 0
    for _ in range(200):
        if held := looked_at(queue, "Ada", 30):
            queue.answer(held[0], "first", 30.0)
            answered += 1
    again = queue.progress("Ada")["repeated"]
    assert (answered - again, queue.answers) == (60, 60)
    assert 1 <= again <= 18  # of about 67 questions a tenth: five standard deviations
    assert looked_at(queue, "Ada", 500) == []
    queue.offer(pair(1000))
    assert len(looked_at(queue, "Ada", 30)) == 1, "the question that was to be a new one is one"


def test_nothing_is_asked_again_once_the_goal_is_reached():
    queue = queue_of(60, repeat=0.05, goal=20, seed=1)
    while not queue.reached:
        queue.answer(looked_at(queue, "Ada", 1)[0], "first", 2.0)
    assert looked_at(queue, "Ada", 500) == []


def test_a_repetition_in_hand_is_not_asked_once_others_reach_the_goal():
    queue = queue_of(60, repeat=0.999, goal=12, seed=1)
    answer_all(queue, "Ada", REPEAT_AFTER + HOLD, lambda given: "first")
    (mine, *_), _ = queue.hold("Ada", 50.0)
    assert mine.repeat_of is not None
    while not queue.reached:
        queue.answer(queue.hold("Bob", 51.0)[0][0], "first", 51.0)
    assert all(given.repeat_of is None for given in queue.hold("Ada", 52.0)[0])


def test_pairs_of_another_length_are_only_for_those_who_have_them_in_hand():
    queue = queue_of(4, overlap=2)
    first, second = queue.hold("Ada", 0.0)[0]
    queue.answer(first, "first", 1.0)
    other = Queue(repeat=0.0, overlap=2, length=20)
    other.restore([first, second])
    other.offer(pair(9, length=20))
    assert [given.left.length for given in other.hold("Bob", 2.0)[0]] == [20]
    assert [given.left.length for given in other.hold("Ada", 2.0)[0]] == [10, 20]
    other.undo(first, 3.0)
    assert [given.left.length for given in other.hold("Cleo", 500.0)[0]] == [20]
    near = Queue(repeat=0.0, goal=2, length=20)
    near.restore([second])
    near.offer(pair(9, length=20))
    near.offer(pair(10, length=20))
    assert len(near.hold("Bob", 2.0)[0]) == 1, "the one that Ada has in hand is under way to the goal"
    same = Queue(repeat=0.0, overlap=2, length=10)
    same.restore([first, second])
    assert len(same.hold("Bob", 2.0)[0]) == 2


def test_consistency():
    steady = queue_of(100, repeat=0.3)
    answer_all(steady, "Ada", 80, lambda given: "first" if given.left.trajectory < given.right.trajectory else "second")
    numbers = steady.progress("Ada")
    assert numbers["repeated"] == numbers["agreed"] > 0
    always_left = queue_of(100, repeat=0.3)
    answer_all(always_left, "Ada", 80, lambda given: "first")
    numbers = always_left.progress("Ada")
    assert numbers["repeated"] > 0 == numbers["agreed"]
    assert all(SWAPPED[SWAPPED[label]] == label for label in LABELS)


def test_undo_brings_the_pair_back_first():
    queue = queue_of(10)
    done = answer_all(queue, "Ada", 3, lambda given: "first")
    queue.undo(done[-1], 10.0)
    assert queue.answers == 2
    assert queue.hold("Ada", 10.0)[0][0] is done[-1]
    assert done[-1].pair.key not in {given.pair.key for given in queue.hold("Bob", 10.0)[0]}
    assert queue.progress("Ada")["last"] == done[-2].id


def test_a_restored_queue_goes_on_where_the_other_was():
    queue = queue_of(60, repeat=0.3)
    done = answer_all(queue, "Ada", 40, lambda given: "first")
    open_pairs, _ = queue.hold("Ada", 50.0)
    kept = [*done, *open_pairs]
    other = queue_of(0, repeat=0.3)
    other.restore(kept)
    assert (other.answers, other.progress("Ada")) == (queue.answers, queue.progress("Ada"))
    assert [given.id for given in other.hold("Ada", 51.0)[0]] == [given.id for given in open_pairs]
    assert not other.offer(open_pairs[0].pair)
    assert other.hold("Bob", 52.0)[0] == []  # everything known is answered or in hand


def test_what_could_not_be_handed_out_is_free_again():
    queue = queue_of(HOLD)
    _, fresh = queue.hold("Ada", 0.0)
    for given in fresh:
        queue.release(given)
    assert len(queue.hold("Bob", 1.0)[0]) == HOLD


def test_a_dropped_pair_is_never_given():
    queue = queue_of(3)
    queue.drop(pair(0))
    queue.drop(pair(7))
    assert not queue.offer(pair(7))
    given = queue.hold("Ada", 0.0)[0]
    assert pair(0).key not in {g.pair.key for g in given}


def test_who_has_a_dropped_pair_in_hand_gets_another():
    queue = queue_of(HOLD + 1)
    first, second = queue.hold("Ada", 0.0)[0]
    queue.drop(first.pair)
    left, (fresh,) = queue.hold("Ada", 1.0)
    assert left == [second, fresh]
    queue.answer(first, "first", 2.0)  # one who has seen it before may still answer
    assert queue.answers == 1


def test_a_repetition_that_is_dropped_is_not_asked_again():
    queue = queue_of(40, repeat=0.999)
    answer_all(queue, "Ada", REPEAT_AFTER + HOLD, lambda given: "first")
    again = queue.hold("Ada", 50.0)[0][-1]
    assert again.repeat_of is not None
    queue.drop(again.pair)
    later = answer_all(queue, "Ada", 20, lambda given: "first")
    assert again.pair.key not in {given.pair.key for given in later}


def test_an_answered_pair_that_is_dropped_is_not_asked_again():
    queue = queue_of(40, repeat=0.999)
    first = answer_all(queue, "Ada", 1, lambda given: "first")[0]
    queue.drop(first.pair)
    later = answer_all(queue, "Ada", 30, lambda given: "first")
    assert any(given.repeat_of is not None for given in later)
    assert first.id not in {given.repeat_of for given in later}


def test_clips_are_needed_of_pairs_in_hand_and_of_those_with_places_left():
    queue = queue_of(40, repeat=0.999, lease=100.0)
    answer_all(queue, "Ada", REPEAT_AFTER + HOLD, lambda given: "first")
    in_hand, _ = queue.hold("Ada", 10.0)
    repeated = {given.pair.key for given in in_hand if given.repeat_of is not None}
    assert repeated
    needed, later = ([pair.key for pair in queue.needed(now)] for now in (11.0, 500.0))
    assert needed[:HOLD] == [given.pair.key for given in in_hand]  # somebody waits for these
    assert len(set(needed)) == len(needed)
    assert set(needed) - set(later) == repeated  # Ada went away: her repetitions wait until she is back


@pytest.mark.parametrize("wrong", [{"overlap": 0}, {"repeat": 1.0}, {"repeat": -0.1}, {"goal": 0}])
def test_settings_that_make_no_sense(wrong):
    with pytest.raises(InputError):
        Queue(**wrong)
