"""From runs to the margins that are learned from them: collect, compare and fit, each a command of its own.

STUDY/data/RUN-DIGEST        what was collected and compared; removed when the margin is fitted, unless it is to be kept
STUDY/margins/RUN-DIGEST     the margin

The digest is of how a margin is learned. So another teacher, or other numbers, neither finds a margin that was learned
otherwise, nor goes on with the answers of another.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mdcontest.errors import InputError, RunError
from mdcontest.interrupts import stop_if_asked
from mdcontest.learn.spec import RunSpec

FIRST_STEPS = 1_000_000
"""Episodes are collected from so many steps of a run."""


@dataclass(frozen=True)
class MarginFit:
    """A margin to be learned from a run."""

    spec: RunSpec
    """The run."""
    study: Path
    """The study's folder."""
    trajectories: int
    pairs: int
    teacher: str
    """How pairs are labelled, as for mdcontest compare."""

    @property
    def model(self) -> str:
        return "reward" if self.spec.algorithm == "ppo" else "skew"

    @property
    def name(self) -> str:
        """Of its folders."""
        how = [self.teacher, self.pairs, self.trajectories, self.model]
        return f"{Path(self.spec.folder).name}-{hashlib.sha256(json.dumps(how).encode()).hexdigest()[:8]}"

    @property
    def data(self) -> Path:
        return self.study / "data" / self.name

    @property
    def margin(self) -> Path:
        return self.study / "margins" / self.name

    @property
    def is_done(self) -> bool:
        return (self.margin / "margin.json").is_file()

    def learn(self, keep_data: bool) -> None:
        """Fit it, unless that is done; data of an earlier call, which may have kept them, are not touched then."""
        stop_if_asked()
        if self.is_done:
            return
        seed, until = self.spec.seed, ["--until", FIRST_STEPS] if self.spec.steps > FIRST_STEPS else []
        collected = ["--trajectories", self.trajectories, "--out", self.data, *until, "--quiet"]
        run_command("collect", self.spec.folder, *collected)
        run_command("compare", self.data, "--pairs", self.pairs, "--teacher", self.teacher, "--seed", seed)
        run_command("fit", self.data, "--out", self.margin, "--model", self.model, "--seed", seed, "--quiet")
        if not keep_data:
            shutil.rmtree(self.data, ignore_errors=True)


def run_command(*arguments: object) -> None:
    """A command of mdcontest in a process of its own; what it says is one line where it fails."""
    command = [sys.executable, "-m", "mdcontest", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    stop_if_asked()  # at a terminal the command was interrupted, too: that is no failure
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RunError(f"mdcontest {' '.join(map(str, arguments))}: {said[-1]}")


def learn_all(fits: Sequence[MarginFit], workers: int, keep_data: bool) -> list[MarginFit]:
    """Those that were learned; about each of the others there is a line."""

    def attempt(fit: MarginFit) -> bool:
        try:
            fit.learn(keep_data)
        except (InputError, OSError) as error:
            print(f"error: no margin was learned from {Path(fit.spec.folder).name}: {error}", file=sys.stderr)
            return False
        return True

    try:
        with ThreadPoolExecutor(workers) as pool:
            learned = list(pool.map(attempt, fits))
    except KeyboardInterrupt:
        print("interrupted, nothing is lost; the same command goes on", file=sys.stderr)
        raise
    return [fit for fit, is_learned in zip(fits, learned, strict=True) if is_learned]
