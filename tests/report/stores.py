"""Stores of runs made up in a moment: the files that training, gaps and traces write, without any training."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from mdcontest.files import write_record
from mdcontest.gap.bracket import GapBracket, Measured
from mdcontest.gap.curve import BEHAVIOUR, BEHAVIOUR_COLUMNS, BEHAVIOUR_FORMAT, GAP_FORMAT, GAPS
from mdcontest.learn.export import (
    EPISODES,
    EPISODES_FILE,
    EPISODES_FORMAT,
    PROGRESS,
    PROGRESS_FILE,
    PROGRESS_FORMAT,
    identity_columns,
)
from mdcontest.learn.logs import Logs, Progress
from mdcontest.learn.runs import DESCRIPTION, FORMAT, JUDGED_BY_RETURN
from mdcontest.settings import Settings
from mdcontest.tables import write_table

VERSIONS = {"python": "3.11.7", "machine": "x86_64", "mdcontest": "0.1.0", "numpy": "2.4.6", "jax": "0.10.2"}
CLASSES = ("rock", "paper", "scissors")


def write_run(
    out: Path,
    task: str,
    algorithm: str,
    seed: int,
    *,
    name: str | None = None,
    target: int = 10_000,
    status: str = "finished",
    error: str | None = None,
    version: str = "0.1.0",
    episodes: tuple | None = None,
    margins: list | None = None,
    done: int | None = None,
    task_settings: dict | None = None,
    learned: str | None = None,
    parts: dict | None = None,
    env: str | None = None,
    by_return: bool | None = None,
    **settings,
) -> Path:
    """One run's folder: `margins` are one number an iteration, `done` steps so far.

    `episodes` are their steps and returns, and how long each is, if not one step.
    `learned` is the digest of the margin it was trained on, if not the task's own.
    `parts` are those of a task that the registry does not make; `by_return` None is a run from before that entry.
    """
    own = Settings(**settings).record()
    folder = out / (name or f"{task}_{algorithm}_seed{seed}_{abs(hash_of(own)):08x}")
    folder.mkdir(parents=True)
    description = {
        "task": {"name": task, "registered": parts is None, "settings": task_settings or {}, "env": env or task}
        | ({"margin": learned} if learned else {})
        | ({"parts": parts} if parts else {}),
        "algorithm": algorithm,
        "seed": seed,
        "settings": own,
        **({} if by_return is None else {JUDGED_BY_RETURN: by_return}),
        "steps_asked": target,
        "checkpoint_every": 10,
        "tensorboard": False,
        "versions": VERSIONS | {"mdcontest": version},
        "status": status,
        **({"error": error} if error else {"steps": target}),
    }
    write_record(folder / DESCRIPTION, FORMAT, description)
    write_log(
        folder,
        description,
        episode_rows(*(episodes or ([], []))),
        progress_rows([0.1] if margins is None else margins, done or target),
    )
    return folder


def hash_of(settings: dict) -> int:
    return sum((i + 1) * ord(letter) for i, letter in enumerate(str(settings))) % 16**8


def episode_rows(steps, returns, length=1) -> dict[str, list]:
    return {"step": list(steps), "return": [float(r) for r in returns], "length": [length] * len(steps)}


def progress_rows(margins, target: int) -> dict[str, list]:
    count = len(margins)
    rows = {item.name: [0.0] * count for item in dataclasses.fields(Progress)}
    steps = [target * (i + 1) // count for i in range(count)]
    return rows | {
        "iteration": list(range(1, count + 1)),
        "steps": steps,
        "target": [target] * count,
        "seconds": [float(i + 1) for i in range(count)],
        "margin_vs_first": [float(m) for m in margins],
    }


def write_log(folder: Path, description: dict, episodes: dict, progress: dict) -> None:
    """Tables of a finished run, the growing CSV files of any other."""
    for rows, file, format, schema, log in (
        (episodes, EPISODES_FILE, EPISODES_FORMAT, EPISODES, Logs.EPISODES),
        (progress, PROGRESS_FILE, PROGRESS_FORMAT, PROGRESS, Logs.PROGRESS),
    ):
        if description["status"] == "finished":
            identity = identity_columns(folder, description, len(next(iter(rows.values()))))
            write_table(folder / file, format, schema, identity | rows)
        else:
            lines = [",".join(rows), *(",".join(map(str, row)) for row in zip(*rows.values(), strict=True))]
            (folder / log).write_text("".join(f"{line}\n" for line in lines))


def write_gap(
    run: Path,
    step,
    value,
    ceiling=None,
    exact=None,
    half=0.02,
    returned="mixture",
    digest="0",
    judge=None,
    details: dict | None = None,
) -> None:
    """A bracket whose intervals are ± half; `judge` is the margin it was judged by, if not that of training."""
    above = None if ceiling is None else Measured(ceiling, ceiling - half, ceiling + half)
    why = "" if above else "nobody knows how good a step can be"
    bracket = GapBracket(Measured(value, value - half, value + half), above, 0.95, exact, why, details or {})
    (run / GAPS).mkdir(exist_ok=True)
    judged = {} if judge is None else {"margin": judge}
    record = {"step": step, "returned": returned} | judged | bracket.record()
    write_record(run / GAPS / f"step{step:010d}_{returned}_{digest}.json", GAP_FORMAT, record)


def write_positions(run: Path, step: int, points) -> None:
    write_behaviour(run, step, [("position", None, float(x), float(y), None) for x, y in points])


def write_shares(run: Path, step: int, shares: dict[str, float]) -> None:
    write_behaviour(run, step, [("class", label, None, None, float(share)) for label, share in shares.items()])


def write_behaviour(run: Path, step: int, rows: list[tuple], returned: str = "mixture") -> None:
    (run / BEHAVIOUR).mkdir(exist_ok=True)
    fixed = {"task": {"name": "t"}, "algorithm": "a", "seed": 0}
    columns = identity_columns(run, fixed, len(rows)) | {"step": [step] * len(rows), "returned": [returned] * len(rows)}
    names = ("kind", "label", "x", "y", "share")
    columns |= dict(zip(names, map(list, zip(*rows, strict=True)) if rows else [[]] * 5, strict=True))
    write_table(run / BEHAVIOUR / f"step{step:010d}_{returned}.parquet", BEHAVIOUR_FORMAT, BEHAVIOUR_COLUMNS, columns)


# --- whole studies ----------------------------------------------------------------------------------------


def learning_episodes(rng, target: int, low: float, high: float, speed: float) -> tuple[list, list]:
    """Episodes of unequal lengths whose return saturates."""
    steps = np.cumsum(rng.integers(target // 400, target // 60, size=400))
    steps = steps[steps <= target]
    mean = high + (low - high) * np.exp(-speed * steps / target)
    return steps.tolist(), (mean + rng.normal(0, 0.08 * abs(high - low), len(steps))).tolist()


def write_study(out: Path, seeds: int = 10, seed: int = 0) -> Path:
    """Four tasks, three algorithms, a grid over one setting, 1–12 seeds, an unfinished and a failed run."""
    rng = np.random.default_rng(seed)
    for task, low, high in (("HalfCheetah-v5", -300.0, 4200.0), ("Hopper-v5", 20.0, 2600.0)):
        for algorithm, speed, end in (("hpi-clip", 3.2, 1.0), ("sppo", 1.6, 0.75), ("ppo", 3.0, 0.97)):
            for s in range(
                seeds + 2 if algorithm == "hpi-clip" else 2 if (task, algorithm) == ("Hopper-v5", "ppo") else seeds
            ):
                top = low + (high - low) * end * rng.normal(1, 0.1)
                log = learning_episodes(rng, 1_000_000, low, top, speed)
                write_run(
                    out, task, algorithm, s, target=1_000_000, episodes=log, comparison_horizon=int(algorithm != "sppo")
                )
    write_rings(out, rng, min(seeds, 5))
    write_corridor(out, rng, min(seeds, 6))
    write_run(out, "Hopper-v5", "sppo", 77, name="Hopper-v5_sppo_seed77", status="running", target=1_000_000,
              done=400_000, episodes=([500, 900], [20.0, 21.0]), margins=[0.1], comparison_horizon=0)  # fmt: skip
    write_run(out, "Hopper-v5", "ppo", 78, name="Hopper-v5_ppo_seed78", status="failed", version="0.0.9",
              error="RunError: the environment raised", target=1_000_000, comparison_horizon=1)  # fmt: skip
    return out


def write_rings(out: Path, rng, seeds: int) -> None:
    """Reacher-NT: brackets, positions that spread over a circle, margins."""
    for algorithm, end in (("hpi-clip", 0.06), ("sppo", 0.3)):
        for s in range(seeds):
            margins = (0.4 * (1 - np.exp(-np.arange(1, 41) / 10)) + rng.normal(0, 0.02, 40)).tolist()
            run = write_run(out, "Reacher-NT", algorithm, s, target=200_000, margins=margins)
            for step in range(40_000, 200_001, 40_000):
                value = end + (0.8 - end) * np.exp(-step / 50_000) + rng.normal(0, 0.02)
                write_gap(run, step, value, value + 0.25 + 0.05 * rng.random())
                spread = min(1.0, step / 120_000) if algorithm == "hpi-clip" else 0.25
                angle = rng.uniform(-np.pi * spread, np.pi * spread, 600)
                radius = 0.21 * (1 - 0.3 * np.exp(-step / 60_000) * rng.random(600))
                write_positions(run, step, np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1))


def write_corridor(out: Path, rng, seeds: int) -> None:
    """RPSCorridor: exact gaps and class shares, for several comparison horizons."""
    for horizon in (1, 2, 4, 8):
        for s in range(seeds):
            margins = [0.02 * (8 - horizon) * i + 0.01 * rng.random() for i in range(10)]
            run = write_run(
                out, "RPSCorridor", "hpi-clip", s, target=80_000, margins=margins, comparison_horizon=horizon
            )
            for step in range(20_000, 80_001, 20_000):
                gap = 0.05 * horizon + 0.5 * np.exp(-step / 25_000) + 0.01 * rng.random()
                write_gap(run, step, gap - 0.01 + rng.normal(0, 0.005), gap + 0.08, exact=gap)
                lean = 0.5 * np.exp(-step / 30_000) + 0.02 * rng.normal()
                write_shares(
                    run, step, dict(zip(CLASSES, (1 / 3 + lean, 1 / 3 - lean / 3, 1 / 3 - 2 * lean / 3), strict=True))
                )
