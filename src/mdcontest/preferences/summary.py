"""What is in a dataset: trajectories and comparisons of which kind, and whether people agree with themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from mdcontest.preferences.asking import count_labels
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.labels import FIRST, INCOMPARABLE, SECOND, Label
from mdcontest.preferences.references import Comparison


def summarise(dataset: Dataset) -> dict[str, Any]:
    """Counts and shares as plain values, as `mdcontest comparisons --json` prints them."""
    infos, entries = dataset.index().values(), dataset.entries()
    people: dict[str, list[Comparison]] = {}
    for entry in entries:
        people.setdefault(entry.annotator, []).append(entry)
    return {
        "task": dataset.task_name,
        "horizon": dataset.horizon,
        "trajectories": len(infos),
        "steps": sum(info.length for info in infos),
        "terminated": sum(info.terminated for info in infos),
        "trajectory_sources": dict(sorted(Counter(info.source for info in infos).items())),
        "comparisons": len(entries),
        "labels": count_labels([entry.label for entry in entries]),
        "lengths": dict(sorted(Counter(entry.first.length for entry in entries).items())),
        "sources": dict(sorted(Counter(entry.source for entry in entries).items())),
        "annotators": {name: _about_person(given) for name, given in sorted(people.items())},
        "agreement_between": agreement(entries, within=False),
    }


def _about_person(entries: Sequence[Comparison]) -> dict[str, Any]:
    return {
        "comparisons": len(entries),
        "labels": count_labels([entry.label for entry in entries]),
        "agreement": agreement(entries, within=True),
    }


def agreement(entries: Sequence[Comparison], within: bool) -> dict[str, Any]:
    """Of the pairs of answers about the same two segments, whichever came first, the share that says the same.

    `within`: answers of one person with each other, which is consistency; otherwise of different people. `share` is
    None where nothing was asked twice. Incomparable is no answer.
    """
    answers: dict[frozenset[Any], list[tuple[str, int]]] = {}
    for entry in entries:
        if entry.label != INCOMPARABLE and entry.first != entry.second:
            turned = _key(entry.first) > _key(entry.second)
            answers.setdefault(frozenset((entry.first, entry.second)), []).append(
                (entry.annotator, -_sign(entry.label) if turned else _sign(entry.label))
            )
    same = [
        said == other
        for given in answers.values()
        for (who, said), (whom, other) in combinations(given, 2)
        if (who == whom) == within
    ]
    return {"compared": len(same), "share": sum(same) / len(same) if same else None}


def _key(segment: Any) -> tuple[str, int, int]:
    return segment.trajectory, segment.start, segment.length


def _sign(label: Label) -> int:
    if isinstance(label, str):
        return {FIRST: 1, SECOND: -1}.get(label, 0)
    return (label > 0) - (label < 0)
