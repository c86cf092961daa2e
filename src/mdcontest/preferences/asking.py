"""Asking teachers about pairs of a dataset, and storing what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdcontest.errors import InputError
from mdcontest.preferences.dataset import Dataset, segments_of
from mdcontest.preferences.labels import LABELS, Label
from mdcontest.preferences.references import Comparison, Segment
from mdcontest.preferences.sampling import sample_pairs
from mdcontest.preferences.segment_margins import SegmentMargin
from mdcontest.preferences.teacher_text import read_teacher
from mdcontest.preferences.teachers import Answers, Question, Teacher

MOST_CHARACTERS = 200
"""Of an annotator's name."""


@dataclass(frozen=True)
class Asked:
    """What `compare` did."""

    asked: int
    new: int
    """How many of the answers were not stored yet."""
    counts: dict[str, int]
    """How often each label was given; numbers count as `number`."""


def compare(
    dataset: Dataset,
    teacher: str | Teacher,
    pairs: int,
    *,
    length: int = 1,
    seed: int = 0,
    annotator: str = "",
    time: float = 0.0,
) -> Asked:
    """Draw pairs of segments, ask a teacher about them, and store the answers.

    A teacher given as a text, such as `noisy:0.1+sign`, judges by the margin of the dataset's task. `annotator` is the
    name under which the answers are stored, by default the teacher's own. The same call again adds nothing.
    """
    if len(annotator) > MOST_CHARACTERS:
        raise InputError(f"an annotator's name has at most {MOST_CHARACTERS} characters, this has {len(annotator)}")
    if isinstance(teacher, str):
        teacher = read_teacher(teacher, SegmentMargin.of_task(dataset.task()))
    drawn = sample_pairs(dataset.index(), pairs, length, seed)
    said = ask(dataset, teacher, drawn, seed)
    names = [annotator] * len(drawn) if annotator else said.names
    source = f"compare length={length} seed={seed}"
    new = dataset.add_comparisons(
        Comparison(first, second, label, name, source, time)
        for (first, second), label, name in zip(drawn, said.labels, names, strict=True)
    )
    return Asked(len(drawn), new, count_labels(said.labels))


def ask(dataset: Dataset, teacher: Teacher, pairs: Sequence[tuple[Segment, Segment]], seed: int = 0) -> Answers:
    """What a teacher says about pairs of segments; nothing is stored."""
    infos = dataset.index()
    outcomes, rows = dataset.table(dict.fromkeys(segment.trajectory for pair in pairs for segment in pair))
    first, second = (segments_of([pair[side] for pair in pairs], rows, infos) for side in (0, 1))
    # The second stream of the seed: the first one drew the pairs.
    return teacher.answer(Question(outcomes, first, second), np.random.default_rng([seed, 1]))


def count_labels(labels: Sequence[Label]) -> dict[str, int]:
    """How often each label is there, in the order of the labels; numbers together."""
    words = [label if isinstance(label, str) else "number" for label in labels]
    return {word: words.count(word) for word in (*LABELS, "number") if word in words}
