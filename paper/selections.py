"""Which recorded runs belong to which study, and what the paper says came of it.

A run may belong to several: HPI-Clip in the paper's settings is part of the suite, and the ablations' T_C = 1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mdcontest import tasks
from mdcontest.experiments.stored import Run
from mdcontest.learn.algorithms import ALGORITHMS
from mdcontest.report.statistics import HIGHER, LOWER, OVERLAPS
from mdcontest.tasks.suite import SUITE

NAMES = {"hpi-clip": "HPI-Clip", "hpi": "HPI", "sppo": "SPPO", "ppo": "PPO"}
LEARNERS = ("hpi-clip", "hpi")
"""The paper's own algorithms."""
NT = ("Reacher-NT", "Walker2d-NT")
LEARNED_ON = ("HalfCheetah-v5", "InvertedPendulum-v5", "Reacher-v5", "Reacher-NT")
"""The subset that the ablation with learned margins is run on: tasks that the paper has ahead of SPPO on either kind of
margin, and the one that it has behind; the cheapest of each."""
STEPS = 488 * 2048
"""A million steps in whole iterations."""
ETAS = (0.75, 1.5, 3.0, 6.0, 12.0)
ENDED = {"termination": "ended"}
"""The end of an episode is an outcome; in the paper's settings it is worth nothing."""
HORIZONS = (1, 4, 16, 64, 256, 1024, 2048)


def follows(run: Run, preset: str | None, varied: Sequence[str] = ()) -> bool:
    """Whether a full run has all settings of the preset (None: this library's), but for those that a study varies."""
    wanted = _settings(run.task, run.algorithm, preset)
    if run.target != STEPS or run.task_settings:
        return False
    return all(run.settings.get(k) == v for k, v in wanted.items() if k not in varied)


@functools.cache
def _settings(task: str, algorithm: str, preset: str | None) -> dict[str, Any]:
    return ALGORITHMS[algorithm].choose_settings(tasks.make(task), preset, {}).record()


def in_suite(run: Run) -> bool:
    """The four algorithms as the paper sets them."""
    return run.task in SUITE and run.learned is None and follows(run, "paper")


def in_own_suite(run: Run) -> bool:
    """HPI and HPI-Clip as this library sets them."""
    own = run.task in SUITE and run.learned is None and run.algorithm in ("hpi", "hpi-clip")
    return own and follows(run, None)


def in_nt(run: Run) -> bool:
    """The policy that a run returns is chosen afterwards, so it does not matter."""
    return run.task in NT and run.learned is None and follows(run, "paper", ("returned",))


def in_learned(run: Run, changed: Mapping[str, Any] = MappingProxyType({})) -> bool:
    """The same on margins that were learned, with just these settings changed."""
    known = run.learned is not None and follows(run, "paper", ("returned", *changed))
    return known and changed.items() <= run.settings.items()


def varied(setting: str, *algorithms: str) -> Callable[[Run], bool]:
    """These algorithms on the suite, whatever this setting is, all else as in the paper."""

    def belongs(run: Run) -> bool:
        known = run.task in SUITE and run.learned is None and run.algorithm in algorithms
        return known and follows(run, "paper", (setting,))

    return belongs


def reading(task: str, algorithm: str, changed: Mapping[str, Any], on_learned: bool = False) -> Callable[[Run], bool]:
    """An algorithm on a task with just these settings changed, on the task's own margin or on learned ones."""

    def belongs(run: Run) -> bool:
        known = (run.task, run.algorithm, run.learned is not None) == (task, algorithm, on_learned)
        return known and follows(run, "paper", tuple(changed)) and changed.items() <= run.settings.items()

    return belongs


STUDIES: dict[str, Callable[[Run], bool]] = {
    "suite": in_suite,
    "own settings": in_own_suite,
    "nontransitive": in_nt,
    "learned margins": in_learned,
    "comparison horizon": varied("comparison_horizon", "hpi-clip"),
    "learning rate": varied("eta", "hpi"),
}


# --- what the paper found ---------------------------------------------------------------------------------


def _verdicts(names: Sequence[str], higher: str, lower: str) -> dict[str, str]:
    """HIGHER and LOWER for the tasks that begin with these words, OVERLAPS for the others."""
    found = dict.fromkeys(names, OVERLAPS)
    for words, verdict in ((higher, HIGHER), (lower, LOWER)):
        found |= {f"{word}-v5": verdict for word in words.split()}
    return found


PAPER = {
    "hpi-clip": _verdicts(SUITE, "Ant HalfCheetah Hopper HumanoidStandup Pusher Reacher Swimmer", "Walker2d"),
    "hpi": _verdicts(SUITE, "HalfCheetah Hopper HumanoidStandup Pusher Reacher Swimmer", "Humanoid"),
}
"""Each algorithm's area against SPPO's, ap:mujoco-suite. The last sentence on HPI
names HPI-Clip, which must be a slip."""
PAPER_LEARNED = {
    "hpi-clip": _verdicts(SUITE, "Ant HalfCheetah Hopper Humanoid HumanoidStandup Pusher Reacher", "InvertedPendulum"),
    "hpi": _verdicts(
        SUITE,
        "Ant HalfCheetah Hopper Humanoid HumanoidStandup InvertedDoublePendulum Pusher Reacher",
        "InvertedPendulum",
    ),
}
"""The same with learned margins, ap:learned-preference-model."""
PAPER_NT = {name: dict.fromkeys(NT, HIGHER) for name in ("hpi-clip", "hpi")}
"""Areas of the inverted gap, ap:mujoco-nt, with given and with learned margins alike."""
