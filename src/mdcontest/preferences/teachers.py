"""Teachers: simulated people who say which of two segments they prefer, because a margin tells them.

    sign                     first, second or equal, by the sign of M
    probabilistic:tau=0.5    first with probability σ(M/τ), else second
    probabilistic:relative=0.5    the same with τ half the root mean square of M over the pairs asked about
    number:scale=2           M/scale, clipped to [−1, 1]

Layers before them, joined by +, change what is said; the leftmost has the last word:

    noisy:0.1                with this probability a random answer instead
    skipping:0.05            with this probability incomparable
    skipping:lowest=0.2      incomparable for the share of the pairs asked about that have the least |M|
    indifferent:0.3          equal where |M| is below this
    myopic:0.9               step t of L counts γ^(L−1−t), the last ones most, for the whole teacher
    aggregated:3             three such people, named apart, one of whom answers; majority=true: what most of them say

So `aggregated:5+noisy:0.1+sign` is five people of whom each errs in a tenth of the cases.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdcontest.arrays import Array
from mdcontest.errors import InputError
from mdcontest.preferences.comparisons import Segments
from mdcontest.preferences.labels import EQUAL, FIRST, INCOMPARABLE, SECOND, Label
from mdcontest.preferences.segment_margins import SegmentMargin


@dataclass(frozen=True, eq=False)
class Question:
    """n pairs of segments over one table of outcomes; margins that several layers need are computed once."""

    outcomes: Any
    first: Segments
    second: Segments
    _known: dict[SegmentMargin, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.first)

    def margins(self, margin: SegmentMargin) -> Array:
        """M of each pair, shape [n]."""
        if margin not in self._known:
            self._known[margin] = margin.between(self.outcomes, self.first, self.second)
        return self._known[margin]


@dataclass(frozen=True)
class Answers:
    """What was said about each pair, and by whom."""

    labels: list[Label]
    names: list[str]


class Teacher(ABC):
    """Somebody who answers; its answers depend on the pairs and on the generator only."""

    name: str
    says_numbers = False
    """Whether its answers are numbers rather than words."""

    @abstractmethod
    def labels(self, question: Question, rng: np.random.Generator) -> list[Label]:
        """A label for each pair."""

    def answer(self, question: Question, rng: np.random.Generator) -> Answers:
        """A label for each pair, and the name of who said it."""
        return Answers(self.labels(question, rng), [self.name] * len(question))


class Sign(Teacher):
    """Says first, second or equal by the sign of M."""

    def __init__(self, margin: SegmentMargin, name: str = "sign") -> None:
        self.margin, self.name = margin, name

    def labels(self, question: Question, rng: np.random.Generator) -> list[Label]:
        words = np.array([EQUAL, FIRST, SECOND], dtype=object)
        return words[np.sign(question.margins(self.margin)).astype(int)].tolist()  # −1 is the last word


class Probabilistic(Teacher):
    """Says first with probability σ(M/τ), else second; τ is given, or relative to the spread of what is asked."""

    def __init__(
        self,
        margin: SegmentMargin,
        tau: float | None = None,
        relative: float | None = None,
        name: str = "probabilistic",
    ) -> None:
        if tau is not None and relative is not None:
            raise InputError("probabilistic: tau and relative both say how sure it is; give one of them")
        for what, value in (("tau", tau), ("relative", relative)):
            if value is not None and not (np.isfinite(value) and value > 0):
                raise InputError(f"probabilistic: {what} must be a positive number, got {value}")
        self.margin, self.relative, self.name = margin, relative, name
        self.tau = 1.0 if tau is None else tau

    def labels(self, question: Question, rng: np.random.Generator) -> list[Label]:
        margins, tau = question.margins(self.margin), self.tau
        if self.relative is not None:
            tau = self.relative * float(np.sqrt((margins**2).mean())) or 1.0
        # σ(x) = (1 + tanh(x/2))/2 does not overflow where M/τ is large.
        chance = (1 + np.tanh(margins / tau / 2)) / 2
        return np.where(rng.random(len(question)) < chance, FIRST, SECOND).tolist()


class Number(Teacher):
    """Says M divided by a scale; without one by the margin's bound, or by the largest |M| met where it has none."""

    says_numbers = True

    def __init__(self, margin: SegmentMargin, scale: float | None = None, name: str = "number") -> None:
        if scale is not None and not (np.isfinite(scale) and scale > 0):
            raise InputError(f"number: scale must be a positive number, got {scale}")
        self.margin, self.scale, self.name = margin, scale, name

    def labels(self, question: Question, rng: np.random.Generator) -> list[Label]:
        margins = question.margins(self.margin)
        scale = self.scale or self.margin.scale(question.outcomes, margins) or 1.0
        return np.clip(margins / scale, -1, 1).tolist()


class Layer(Teacher):
    """A teacher who passes on another's answers, some of them changed."""

    def __init__(self, inner: Teacher, name: str = "") -> None:
        self.inner, self.says_numbers, self.name = inner, inner.says_numbers, name or inner.name

    @abstractmethod
    def changes(self, question: Question, rng: np.random.Generator) -> dict[int, Label]:
        """The pairs about which something else is said."""

    def answer(self, question: Question, rng: np.random.Generator) -> Answers:
        said = self.inner.answer(question, rng)
        labels = list(said.labels)
        for place, label in self.changes(question, rng).items():
            labels[place] = label
        return Answers(labels, [self.name if name == self.inner.name else name for name in said.names])

    def labels(self, question: Question, rng: np.random.Generator) -> list[Label]:
        return self.answer(question, rng).labels


class Noisy(Layer):
    """With probability ε answers at random: first or second, or a number from −1 to 1 where the other says numbers."""

    def __init__(self, inner: Teacher, epsilon: float, name: str = "") -> None:
        super().__init__(inner, name)
        self.epsilon = _share(epsilon, "noisy: the probability of a random answer")

    def changes(self, question: Question, rng: np.random.Generator) -> dict[int, Label]:
        where, draws = np.flatnonzero(rng.random(len(question)) < self.epsilon), rng.uniform(-1, 1, len(question))
        said: list[Any] = (draws if self.says_numbers else np.where(draws > 0, FIRST, SECOND))[where].tolist()
        return dict(zip(where.tolist(), said, strict=True))


class Skipping(Layer):
    """Cannot say, with a probability, or about the share of the pairs whose |M| is least."""

    def __init__(
        self, inner: Teacher, margin: SegmentMargin, probability: float = 0.0, lowest: float = 0.0, name: str = ""
    ) -> None:
        super().__init__(inner, name)
        self.margin, self.probability = margin, _share(probability, "skipping: the probability")
        self.lowest = _share(lowest, "skipping: the lowest share")

    def changes(self, question: Question, rng: np.random.Generator) -> dict[int, Label]:
        skipped = rng.random(len(question)) < self.probability
        if self.lowest > 0 and len(question):
            strength = np.abs(question.margins(self.margin))
            order = np.argsort(strength, kind="stable")
            skipped[order[: round(self.lowest * len(question))]] = True
        return dict.fromkeys(np.flatnonzero(skipped).tolist(), INCOMPARABLE)


class Indifferent(Layer):
    """Says equal where |M| is below a threshold."""

    def __init__(self, inner: Teacher, margin: SegmentMargin, threshold: float, name: str = "") -> None:
        super().__init__(inner, name)
        if not (np.isfinite(threshold) and threshold >= 0):
            raise InputError(f"indifferent: the threshold must be a number from 0 on, got {threshold}")
        self.margin, self.threshold = margin, threshold

    def changes(self, question: Question, rng: np.random.Generator) -> dict[int, Label]:
        equal: Label = 0.0 if self.says_numbers else EQUAL
        close = np.abs(question.margins(self.margin)) < self.threshold
        return dict.fromkeys(np.flatnonzero(close).tolist(), equal)


class Aggregated(Teacher):
    """Several individuals: one of them answers at random, pair by pair, or the majority's answer is given.

    A majority is the label most of them say; where two are said equally often it is equal. Numbers are averaged.
    """

    def __init__(self, individuals: Sequence[Teacher], majority: bool = False, name: str = "aggregated") -> None:
        if not individuals:
            raise InputError("aggregated: at least one individual has to answer")
        if len({person.name for person in individuals}) < len(individuals):
            raise InputError(f"aggregated: individuals need names of their own, got {[p.name for p in individuals]}")
        if len({person.says_numbers for person in individuals}) > 1:
            raise InputError("aggregated: some individuals say numbers and some words; let all say the same")
        self.individuals, self.majority, self.name = list(individuals), majority, name
        self.says_numbers = individuals[0].says_numbers

    def answer(self, question: Question, rng: np.random.Generator) -> Answers:
        if self.majority:
            return super().answer(question, rng)
        said = [person.answer(question, rng) for person in self.individuals]
        chosen = rng.integers(0, len(said), len(question)).tolist()
        labels = [said[who].labels[i] for i, who in enumerate(chosen)]
        return Answers(labels, [said[who].names[i] for i, who in enumerate(chosen)])

    def labels(self, question: Question, rng: np.random.Generator) -> list[Label]:
        if not self.majority:
            return self.answer(question, rng).labels
        said = [person.answer(question, rng).labels for person in self.individuals]
        return [_majority(labels) for labels in zip(*said, strict=True)]


def _majority(labels: Sequence[Label]) -> Label:
    numbers = [label for label in labels if not isinstance(label, str)]
    if numbers:  # whoever said incomparable has no say
        return float(np.mean(numbers))
    ranked = Counter(labels).most_common(2)
    return EQUAL if len(ranked) == 2 and ranked[0][1] == ranked[1][1] else ranked[0][0]


def _share(value: float, what: str) -> float:
    if not 0 <= value <= 1:
        raise InputError(f"{what} must lie between 0 and 1, got {value}")
    return float(value)
