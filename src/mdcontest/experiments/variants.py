"""Which runs may be averaged: those of one variant, which is named after all that was chosen for them."""

from __future__ import annotations

import functools
import json
from typing import Any

from mdcontest import tasks
from mdcontest.errors import InputError
from mdcontest.experiments.stored import Run
from mdcontest.settings import paper_settings

VARIED_IN_PAPER = ("comparison_horizon", "returned", "eta")


def tell_apart(runs: list[Run]) -> None:
    """Name what differs between runs of one algorithm on one task, so that only equal runs are averaged."""
    presets = {run.name: _follows_paper(run) for run in runs}
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.task, run.algorithm), []).append(run)
    for (_, algorithm), group in groups.items():
        _tell_margins_apart(group)
        mixed = len({presets[run.name] for run in group}) > 1
        for paper in {presets[run.name] for run in group}:
            alike = [run for run in group if presets[run.name] == paper]
            choices = [_choices(run) for run in alike]
            keys = dict.fromkeys(key for choice in choices for key in choice)
            varied = [key for key in keys if len({json.dumps(choice.get(key)) for choice in choices}) > 1]
            for run, choice in zip(alike, choices, strict=True):
                told = [f"{key}={_short(choice.get(key))}" for key in varied]
                run.variant = " ".join([algorithm, *(["paper"] if mixed and paper else []), *told])


def _tell_margins_apart(group: list[Run]) -> None:
    """Several learned margins of one seed are different variants; one a seed, each of its own data, are one."""
    learned = {(run.seed, run.learned) for run in group if run.learned is not None}
    if len(learned) > len({seed for seed, _ in learned}):
        for run in group:
            run.learned_as = f"learned-{str(run.learned)[:4]}"


def _choices(run: Run) -> dict[str, Any]:
    """What was chosen for a run."""
    margin = "own" if run.learned is None else run.learned_as
    return {**run.settings, **run.task_choices, "steps": run.target, "margin": margin}


def _follows_paper(run: Run) -> bool:
    """Whether it has all settings of the paper's preset, but for what a study of the paper itself varies."""
    paper = paper_settings(run.algorithm, _group(run.task))
    return all(run.settings.get(key) == value for key, value in paper.items() if key not in VARIED_IN_PAPER)


@functools.cache
def _group(task: str) -> str:
    try:
        return tasks.make(task).group
    except InputError:
        return ""


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)  # never the same for two values
    return json.dumps(value) if isinstance(value, list) else str(value)
