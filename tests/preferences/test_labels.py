"""Labels: four words and numbers become probabilities; everything else is refused by name."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdcontest.errors import InputError
from mdcontest.preferences.labels import LABELS, read_label, targets


def test_words_and_numbers_are_probabilities():
    found = targets(["first", "second", "equal", 0.5, -1, 0, "incomparable"])
    np.testing.assert_array_equal(found[:6], [1, 0, 0.5, 0.75, 0, 0.5])
    assert np.isnan(found[6])
    np.testing.assert_array_equal(targets([True, False]), [1, 0])


@given(st.lists(st.one_of(st.sampled_from(["first", "second", "equal"]), st.floats(-1, 1)), min_size=1, max_size=15))
def test_a_pair_turned_round_has_the_opposite_target(labels):
    turned = {"first": "second", "second": "first", "equal": "equal"}
    back = [turned[label] if isinstance(label, str) else -label for label in labels]
    np.testing.assert_allclose(targets(labels) + targets(back), 1, rtol=0, atol=1e-15)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=15))
def test_an_array_is_read_as_its_entries_are(numbers):
    one_by_one = np.array([(1 + read_label(number)) / 2 for number in numbers])
    np.testing.assert_array_equal(targets(np.array(numbers)), one_by_one)
    np.testing.assert_array_equal(targets(np.array(numbers, object)), one_by_one)


@pytest.mark.parametrize("wrong", ["frist", "", "1", None, [1], 1.0001, -2, float("nan"), float("inf"), 1j, {}])
def test_what_is_no_label(wrong):
    with pytest.raises(InputError, match="is no label"):
        read_label(wrong)
    with pytest.raises(InputError):
        targets([wrong] * 3)


def test_errors_name_the_culprit_and_the_way_out():
    with pytest.raises(InputError, match="did you mean first"):
        read_label("frist")
    with pytest.raises(InputError, match=r"label\[2\] is 3; .* divide margins by their bound"):
        targets([0.1, -0.2, 3.0])
    with pytest.raises(InputError, match="one entry a pair, got shape"):
        targets(np.zeros((2, 2)))
    with pytest.raises(InputError, match=", ".join(LABELS)):
        read_label(7)


@pytest.mark.parametrize("other", [0.5, 1, "equal", None])
def test_truth_values_mean_the_same_beside_anything(other):
    """NumPy would make False a 0, which is no preference."""
    beside = [] if other is None else [other]
    np.testing.assert_array_equal(targets([True, False, np.False_, *beside])[:3], [1, 0, 0])


def test_lists_among_labels_are_refused_in_words():
    with pytest.raises(InputError, match="one entry a pair, got lists among them"):
        targets([(1, 2), 3] * 10)


def test_probabilities_in_place_of_strengths_are_noticed():
    shares = np.linspace(0, 1, 30)
    with pytest.warns(UserWarning, match="pass 2 \\* p - 1"):
        targets(shares)
    targets(2 * shares - 1)
    targets(np.zeros(30))


def test_a_word_among_probabilities_does_not_hide_them():
    with pytest.warns(UserWarning, match="pass 2 \\* p - 1"):
        targets([*[0, 1] * 15, "incomparable"])
    targets([*[0, 1] * 15, "second"])  # whoever says that means numbers as they are
    targets([-1, *[0, 1] * 15, "incomparable"])
