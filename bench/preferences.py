"""Learned margins, what they cost: `python bench/preferences.py` (needs `pip install -e '.[learn]'`).

(a) Seconds to fit an ensemble to 100 000 comparisons of Walker2d-v5 outcomes, beside the same fit with the general
model f(z, z') − f(z', z) and a linear Bradley–Terry model in NumPy. (b) Steps a second of HPI-Clip on Walker2d-v5 with
the task's own margin and with a learned one. (c) Milliseconds for the mean margin of a batch of outcomes against as
many opponents, O(B·d) and O(B²). In (b) and (c) the two take turns, so that whatever else the machine does hits both
alike. One process of one thread does it all.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mdcontest import tasks
from mdcontest.learn import HPIClip
from mdcontest.learn.play import sample_trajectories
from mdcontest.outcomes import Outcomes, concatenate
from mdcontest.preferences import Comparisons, Learned, Segments, fit_margin
from mdcontest.preferences.diagnosis import accuracy
from mdcontest.preferences.inputs import InputReader
from mdcontest.tasks import Task
from mdcontest.threads import one_thread

TASK = "Walker2d-v5"
MODELS = ("skew", "general")
REPEATS = {"skew": 50, "general": 1}
"""Batches a turn of (c): one of the general model takes long enough."""
TURN = 5 * 2048
"""Steps a turn: five updates of the policy."""
STRETCH = 2.0
"""Labels are drawn with σ(STRETCH (r − r') / deviation of r)."""


def outcomes_of_walks(task: Task, count: int, training: int) -> Outcomes:
    """Steps of a new policy and of one that was trained a little, as many of each."""
    agent, parts = HPIClip(task, 0), []
    for steps in (2048, training):
        agent.learn(steps, progress=False)
        played = sample_trajectories(task, agent, 1, min_steps=count // 2, seed=steps)
        parts.append(played.outcomes[: count // 2])
    agent.close()
    return concatenate(parts)


def compared(outcomes: Outcomes, count: int, seed: int) -> Comparisons:
    """Random pairs; the label is drawn from how much more reward the first has."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, len(outcomes), (2, count))
    r: Any = STRETCH * outcomes.reward / np.std(outcomes.reward)  # type: ignore[operator,arg-type]
    preferred = rng.random(count) < 1 / (1 + np.exp(r[second] - r[first]))
    sides = Segments.of_single(first), Segments.of_single(second)
    return Comparisons.of_segments(outcomes, *sides, np.where(preferred, 1.0, -1.0))


# --- (a) fitting ------------------------------------------------------------------------------------------


def linear_fit(data: Comparisons, passes: int = 10, batch: int = 256) -> float:
    """A linear reward by stochastic gradients in NumPy, the plainest Bradley–Terry model; its held-out accuracy."""
    x = InputReader.fitted(data.outcomes).read(data.outcomes)
    held_out = len(data) // 5
    rng, w = np.random.default_rng(0), np.zeros(x.shape[1])
    first, second, y = data.first.start, data.second.start, data.target
    for number in range(passes):
        order = rng.permutation(np.arange(held_out, len(data)))
        for rows in np.array_split(order, len(order) // batch):
            difference = x[first[rows]] - x[second[rows]]
            w += 0.5 / (1 + number) * difference.T @ (y[rows] - 1 / (1 + np.exp(-difference @ w))) / len(rows)
    return accuracy((x[first[:held_out]] - x[second[:held_out]]) @ w, y[:held_out]) or 0.0


def fitting(data: Comparisons) -> tuple[dict[str, Any], dict[str, Learned]]:
    """Seconds and held-out accuracy of each fit, one after the other."""
    table, margins = {}, {}
    for model in MODELS:
        began = time.perf_counter()
        margins[model] = fit_margin(data, model=model)
        table[model] = {"seconds": time.perf_counter() - began, "accuracy": margins[model].report["accuracy"]}
    began = time.perf_counter()
    right = linear_fit(data)
    table["linear"] = {"seconds": time.perf_counter() - began, "accuracy": right}
    return table, margins


# --- (b) training, (c) one batch --------------------------------------------------------------------------


def in_turns(contenders: dict[str, Callable[[], Any]], turns: int) -> dict[str, float]:
    """Seconds a turn of each, the median of `turns` after one that warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(turns + 1):
        for name, turn in contenders.items():
            began = time.perf_counter()
            turn()
            if number:
                seconds[name].append(time.perf_counter() - began)
    return {name: float(np.median(found)) for name, found in seconds.items()}


def training(margin: Learned, turns: int) -> dict[str, float]:
    """Steps a second with the task's own margin and with the learned one."""
    own = tasks.make(TASK)
    agents = {"own": HPIClip(own, 0, anneal=False), "learned": HPIClip(own.with_margin(margin), 0, anneal=False)}
    found = in_turns({name: _turn(agent) for name, agent in agents.items()}, turns)
    return {name: TURN / seconds for name, seconds in found.items()}


def _turn(agent: HPIClip) -> Callable[[], Any]:
    return lambda: agent.learn(TURN, progress=False)


def one_batch(margins: dict[str, Learned], outcomes: Outcomes, size: int, turns: int) -> dict[str, float]:
    """Seconds of the mean margin against opponents."""
    z, opponents = outcomes[:size], outcomes[-size:]
    found = in_turns({name: _against(margin, z, opponents, REPEATS[name]) for name, margin in margins.items()}, turns)
    return {name: seconds / REPEATS[name] for name, seconds in found.items()}


def _against(margin: Learned, z: Outcomes, opponents: Outcomes, times: int) -> Callable[[], Any]:
    return lambda: [margin.against(z, opponents) for _ in range(times)]


def main() -> None:
    """Measure the three and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=100_000, help="default 100000")
    parser.add_argument("--outcomes", type=int, default=50_000, help="among which they are drawn (default 50000)")
    parser.add_argument("--batch", type=int, default=2048, help="outcomes of (c) and their opponents (default 2048)")
    parser.add_argument("--turns", type=int, default=5, help="turns after warm-up (default 5)")
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    options = parser.parse_args()
    if (single := one_thread(dict(os.environ))) != os.environ:  # has to be said before NumPy is imported
        os.execve(sys.executable, [sys.executable, *sys.argv], single)
    outcomes = outcomes_of_walks(tasks.make(TASK), options.outcomes, 20 * 2048)
    fits, margins = fitting(compared(outcomes, options.comparisons, seed=0))
    print(
        f"(a) fitting to {options.comparisons} comparisons of {TASK}, {len(margins['skew'].ensemble.members)} members"
    )
    for name, found in fits.items():
        print(f"{name:>12}{found['seconds']:>9.1f} s   held-out accuracy {found['accuracy']:.3f}", flush=True)
    rates = training(margins["skew"], options.turns)
    print(f"(b) HPI-Clip on {TASK}, turns of {TURN} steps, steps/s")
    print(f"{'own':>12}{rates['own']:>9,.0f}     learned {rates['learned']:,.0f}     ", end="")
    print(f"learned / own {rates['learned'] / rates['own']:.2f}", flush=True)
    batch = one_batch(margins, outcomes, options.batch, min(options.turns, 2))
    print(f"(c) {options.batch} outcomes against {options.batch} opponents, ms")
    print(f"{'skew':>12}{1e3 * batch['skew']:>9.1f}     general {1e3 * batch['general']:,.0f}     ", end="")
    print(f"general / skew {batch['general'] / batch['skew']:.0f}", flush=True)
    if options.out:
        table = {"fitting": fits, "training": rates, "one_batch": batch}
        options.out.write_text(json.dumps(table, indent=2))


if __name__ == "__main__":
    main()
