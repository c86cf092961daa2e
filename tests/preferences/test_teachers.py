"""Teachers: what they say is what their margin says, as often as they should; and the texts that describe them."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

from mdcontest.errors import InputError
from mdcontest.margins import LowRank, Pairwise, RewardDifference
from mdcontest.outcomes import Outcomes
from mdcontest.preferences.comparisons import Segments
from mdcontest.preferences.segment_margins import SegmentMargin
from mdcontest.preferences.teacher_text import read_teacher
from mdcontest.preferences.teachers import Aggregated, Noisy, Number, Probabilistic, Question, Sign

CIRCLE = SegmentMargin.of_margin(LowRank(lambda z: z.obs, [[0, 1], [-1, 0]]))
REWARD = SegmentMargin.of_margin(RewardDifference(lambda z: z.reward))


def question(count, seed=0):
    """Pairs of single outcomes; every seventh pair is an outcome with itself."""
    rng = np.random.default_rng(seed)
    table = Outcomes(rng.normal(size=(50, 2)), reward=rng.normal(size=50))
    one, other = rng.integers(0, 50, (2, count))
    other[::7] = one[::7]
    return Question(table, Segments.of_single(one), Segments.of_single(other))


def same(M, copies=20_000):
    """One pair with this difference of rewards, many times."""
    rows = np.zeros(copies, int)
    return Question(Outcomes(np.zeros(2), reward=np.array([M, 0.0])), *map(Segments.of_single, (rows, rows + 1)))


def said(teacher, asked, seed=0):
    return teacher.answer(asked, np.random.default_rng(seed)).labels


def assert_frequency(found, n, p):
    """Within what a binomial exceeds once in 10⁶ times, on either side."""
    assert binom.ppf(5e-7, n, p) <= found <= binom.isf(5e-7, n, p), (found, n, p)


def test_sign():
    asked = question(300)
    margins = asked.margins(CIRCLE)
    words = {1: "first", -1: "second", 0: "equal"}
    assert said(Sign(CIRCLE), asked) == [words[s] for s in np.sign(margins)]
    assert Counter(said(Sign(CIRCLE), asked))["equal"] >= 300 // 7


@pytest.mark.parametrize(("M", "tau"), [(0.0, 1.0), (1.0, 1.0), (1.0, 0.5), (-2.0, 1.5), (1e6, 1e-3), (-1e6, 1e-3)])
def test_probabilistic_frequencies(M, tau):
    labels = said(Probabilistic(REWARD, tau), same(M))
    with np.errstate(over="ignore"):
        chance = 1 / (1 + np.exp(-M / tau))
    assert set(labels) <= {"first", "second"}
    assert_frequency(labels.count("first"), len(labels), chance)


def test_noisy_frequencies():
    labels = said(read_teacher("noisy:0.3+sign", REWARD), same(1.0))
    assert_frequency(labels.count("second"), len(labels), 0.15)
    assert labels.count("first") + labels.count("second") == len(labels)
    assert said(read_teacher("noisy:0+sign", REWARD), same(1.0)) == ["first"] * 20_000
    numbers = said(read_teacher("noisy:0.3+number:2", REWARD), same(1.0))
    changed = [number for number in numbers if number != 0.5]
    assert_frequency(len(changed), len(numbers), 0.3)
    assert_frequency(sum(number > 0 for number in changed), len(changed), 0.5)


def test_skipping():
    labels = said(read_teacher("skipping:0.2+sign", REWARD), same(-1.0))
    assert_frequency(labels.count("incomparable"), len(labels), 0.2)
    asked = question(200)
    labels = said(read_teacher("skipping:lowest=0.25+sign", CIRCLE), asked)
    strength = np.abs(asked.margins(CIRCLE))
    skipped = np.array([label == "incomparable" for label in labels])
    assert skipped.sum() == 50
    assert strength[skipped].max() <= strength[~skipped].min()


def test_indifferent():
    asked = question(200)
    labels = said(read_teacher("indifferent:0.4+sign", CIRCLE), asked)
    margins = asked.margins(CIRCLE)
    expected = np.where(np.abs(margins) < 0.4, "equal", np.where(margins > 0, "first", "second"))
    assert labels == expected.tolist()
    assert said(read_teacher("indifferent:0.4+number:9", REWARD), same(0.3, 3)) == [0.0] * 3


def test_number():
    asked = question(100)
    margins = asked.margins(CIRCLE)
    np.testing.assert_allclose(said(Number(CIRCLE, 0.5), asked), np.clip(margins / 0.5, -1, 1))
    rows = asked.outcomes.obs
    largest = np.abs(rows[:, :1] * rows[:, 1] - rows[:, 1:] * rows[:, 0]).max()
    np.testing.assert_allclose(said(Number(CIRCLE), asked), margins / largest)


def test_myopic_counts_the_last_steps_most():
    table = Outcomes(np.zeros(6), reward=np.array([1.0, 0, 0, 0, 0, 0.9]))
    asked = Question(table, *(Segments(np.array([start]), np.array([3]), np.array([0])) for start in (0, 3)))
    assert said(read_teacher("sign", REWARD), asked) == ["first"]
    assert said(read_teacher("myopic:0.5+sign", REWARD), asked) == ["second"]


def test_aggregated_people_answer_in_turn():
    """One of three answers at random, and is named; the majority is what two of them say."""
    against = SegmentMargin.of_margin(RewardDifference(lambda z: -z.reward))
    people = [Sign(REWARD, "ann"), Sign(REWARD, "bob"), Sign(against, "eve")]
    answers = Aggregated(people).answer(same(1.0), np.random.default_rng(0))
    assert set(zip(answers.names, answers.labels, strict=True)) == {
        ("ann", "first"),
        ("bob", "first"),
        ("eve", "second"),
    }
    for name in ("ann", "bob", "eve"):
        assert_frequency(answers.names.count(name), len(answers.names), 1 / 3)
    majority = Aggregated(people, majority=True).answer(same(1.0, 5), np.random.default_rng(0))
    assert (majority.labels, set(majority.names)) == (["first"] * 5, {"aggregated"})
    assert said(Aggregated(people[1:], majority=True), same(1.0, 2)) == ["equal"] * 2
    numbers = [Number(REWARD, 2.0, "ann"), Number(against, 8.0, "eve")]
    assert said(Aggregated(numbers, majority=True), same(1.0, 1)) == [(0.5 - 0.125) / 2]


def test_a_majority_errs_less_than_one_of_them():
    labels = said(read_teacher("aggregated:3,majority=true+noisy:0.4+sign", REWARD), same(1.0))
    assert_frequency(labels.count("second"), len(labels), 3 * 0.2**2 * 0.8 + 0.2**3)


def test_individuals_have_names_and_speak_alike():
    with pytest.raises(InputError, match="names of their own"):
        Aggregated([Sign(REWARD), Sign(REWARD)])
    with pytest.raises(InputError, match="some individuals say numbers"):
        Aggregated([Sign(REWARD), Number(REWARD)])
    with pytest.raises(InputError, match="at least one"):
        Aggregated([])


def test_answers_depend_on_the_seed_only():
    text = "aggregated:3+skipping:0.1+noisy:0.2+probabilistic:0.7"
    one, again, other = (
        read_teacher(text, CIRCLE).answer(question(500), np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert one == again
    assert one != other
    assert set(one.names) == {f"{text}#{i}" for i in (1, 2, 3)}
    assert read_teacher("noisy:0.1+sign", CIRCLE).name == "noisy:0.1+sign"
    assert set(Noisy(Aggregated([Sign(REWARD, "ann")]), 0.5).answer(same(1.0, 9), np.random.default_rng(0)).names) == {
        "ann"
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sing", "has 'sing'; did you mean sign"),
        ("", "has ''; the teachers are sign, "),
        (
            "noisy:0.1",
            "ends with noisy, which changes the answers of another: add one of sign, .* such as noisy:0.1.sign",
        ),
        ("sign+number", "has sign before the end"),
        ("noisy+sign", "noisy needs epsilon, such as noisy:0.1"),
        ("noisy:2+sign", "must lie between 0 and 1, got 2.0"),
        ("noisy:x+sign", "epsilon of noisy must be a number, got 'x'"),
        ("noisy:nan+sign", "must lie between 0 and 1, got nan"),
        ("probabilistic:tua=1", "no setting 'tua=1'; did you mean tau"),
        ("probabilistic:0", "tau must be a positive number"),
        ("sign:3", "sign takes none"),
        ("indifferent:-1+sign", "threshold must be a number from 0 on"),
        ("number:inf", "scale must be a positive number"),
        ("myopic:1.5+sign", r"must lie in \(0, 1\], got 1.5"),
        ("aggregated:0+sign", "people of aggregated must be a whole number from 1 to 1000, got '0'"),
        ("aggregated:2.5+sign", "whole number"),
        ("aggregated:majority=true+sign", "how many people"),
        ("aggregated:1000+aggregated:2+sign", "is 2000 people; at most 1000"),
        ("noisy:0.1,0.2+sign", "epsilon of noisy is given twice"),
        ("noisy:0.5+" * 3000 + "sign", "has 3001 parts; at most 20"),
        ("myopic:0.5+noisy:0.1+myopic:0.9+sign", "is myopic twice"),
        ("aggregated:3,majority=maybe+sign", "majority of aggregated must be true or false"),
    ],
)
def test_texts_that_describe_no_teacher(text, message):
    with pytest.raises(InputError, match=message):
        read_teacher(text, CIRCLE)


def test_probabilistic_relative_to_what_is_asked():
    """τ = 0.5 · rms(M) = 0.5 · 3 for margins that are all ±3, so the first is preferred with σ(2) where M = 3."""
    labels = said(read_teacher("probabilistic:relative=0.5", REWARD), same(3.0))
    assert_frequency(labels.count("first"), len(labels), 1 / (1 + np.exp(-2)))
    assert_frequency(said(Probabilistic(REWARD, relative=2.0), same(0.0)).count("first"), 20_000, 0.5)
    with pytest.raises(InputError, match="give one of them"):
        read_teacher("probabilistic:tau=1,relative=0.5", REWARD)


def stretches(length, count, rows, seed=0):
    rng = np.random.default_rng(seed)
    return [Segments(rng.integers(0, rows - length, count), np.full(count, length), np.zeros(count, int)) for _ in "ab"]


@pytest.mark.parametrize("length", [2, 3, 7, 10, 50])
def test_a_tie_of_several_steps_is_one(length):
    """Rock, paper, scissors in whole numbers has ties; thirds and tenths of them are rounded."""
    kinds = np.random.default_rng(1).integers(0, 3, 500)
    table = Outcomes(np.eye(3)[kinds])
    margin = SegmentMargin.of_margin(LowRank(lambda z: z.obs, [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]))
    first, second = stretches(length, 1000, 500)
    counts = [np.stack([(kinds[s.rows()] == k).sum(axis=1) for k in range(3)], axis=1) for s in (first, second)]
    exact = np.einsum("na,ab,nb->n", counts[0], np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]), counts[1])
    words = {1: "first", -1: "second", 0: "equal"}
    assert (exact == 0).sum() > 10
    assert said(Sign(margin), Question(table, first, second)) == [words[s] for s in np.sign(exact)]


def test_ties_with_ends_are_ties():
    """Means of .1, .2 and −.3 against ⊥; and M(z, ⊥) of a third of a million on both sides, which leaves 1e-11."""
    cases = [
        ([0.1, 0.2, -0.3], 0.0, (0, 3, 0), (0, 0, 3)),
        ([0.1, 0.2, 0.3, 0.2, 0.2, 0.2], 1e6 / 3, (0, 3, 1), (3, 3, 1)),
    ]
    for rewards, ended, *sides in cases:
        table = Outcomes(np.zeros(len(rewards)), reward=np.array(rewards))
        margin = SegmentMargin(REWARD.margin, lambda z, ended=ended: z.reward + ended)
        segments = [Segments(*(np.array([number]) for number in side)) for side in sides]
        assert said(Sign(margin), Question(table, *segments)) == ["equal"]


@pytest.mark.parametrize("level", [0.0, 1.0, 1e4])
@pytest.mark.parametrize("length", [4, 50])
def test_the_same_steps_in_another_order_tie(length, level):
    """Whatever step comes first, be it the same in both, and whatever the rewards' level is."""
    rng = np.random.default_rng(0)
    for k in range(40):
        one = level + rng.normal(size=length)
        other = np.concatenate([one[: k % 2], rng.permutation(one[k % 2 :])])
        table = Outcomes(np.zeros(2 * length), reward=np.concatenate([one, other]))
        sides = (Segments(np.array([start]), np.array([length]), np.array([0])) for start in (0, length))
        assert REWARD.between(table, *sides).tolist() == [0]


@pytest.mark.parametrize("length", [2, 50])
def test_other_pairs_do_not_make_a_tie(length):
    """A preference of 0.2 is one, beside rewards of 1e14 too."""
    rewards = np.repeat([0.4, 0.2, 1e14, 0.0], length)
    table, lengths = Outcomes(np.zeros(4 * length), reward=rewards), np.full(2, length)
    first, second = (Segments(np.array(start) * length, lengths, np.zeros(2, int)) for start in ([0, 2], [1, 3]))
    np.testing.assert_allclose(REWARD.between(table, first, second), [0.2, 1e14])


@pytest.mark.parametrize("block", [1, 7])
def test_rounding_is_looked_for_in_blocks(block, monkeypatch):
    """A function on large outcomes is not given all pairs at once."""
    sizes, margin = [], Pairwise(lambda z, w: sizes.append(len(z)) or z.obs[:, 0] - w.obs[:, 0])
    monkeypatch.setattr(type(margin), "block_pairs", lambda self, f: block)
    table, (first, second) = Outcomes(np.random.default_rng(0).normal(size=(50, 1))), stretches(2, 20, 50)
    SegmentMargin.of_margin(margin).between(table, first, second)
    assert max(sizes) <= max(block, 4)


def test_numbers_about_ends_are_not_all_one():
    """M(z, ⊥) may be far larger than any M(z, z'): rewards near 5 that hardly differ."""
    reward = 5 + np.random.default_rng(0).uniform(-0.1, 0.1, 200)
    table, (first, second) = Outcomes(np.zeros(200), reward=reward), stretches(10, 300, 200)
    ended = np.random.default_rng(1).integers(0, 11, 300)
    asked = Question(table, Segments(first.start, 10 - ended, ended), second)
    labels = np.array(said(Number(REWARD), asked))
    assert np.abs(labels).max() == 1
    assert np.corrcoef(labels, ended)[0, 1] < -0.99
