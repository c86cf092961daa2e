"""fig:mujoco-suite-offline, fig:mujoco-nt-offline: Ablation 1, the same tasks with preferences that were learned.

For each task, algorithm and seed: train on the task's own margin (PPO: its reward), collect 500 episodes evenly over
the first million steps, label 100 000 random pairs of outcomes, fit an ensemble of three margins (PPO: rewards), and
train again on that. The paper leaves open what is compared and how it is labelled; here single outcomes, by choices
with probability σ(M/τ), τ a tenth of the spread of M for rewards and half of it for the nontransitive tasks. The sign
of M alone would not do there: on Reacher-NT it is that of the angle whatever the radius, so nobody could learn from it
to stretch the arm (paper/LOG.md).

python paper/learned_margins.py --quick
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from study import add_options, change_sweep, guarded, write_page

from mdcontest.commands.sweeping import print_plan, work
from mdcontest.commands.training import prepare
from mdcontest.errors import RunError
from mdcontest.experiments.launch import cores
from mdcontest.experiments.store import Run, Store
from mdcontest.experiments.sweep import GapPlan, Sweep
from mdcontest.report.study import RETURN, make_study
from mdcontest.tasks.suite import SUITE

TITLE, FIGURE = "Learned margins: Ablation 1", "fig:mujoco-suite-offline, fig:mujoco-nt-offline"
NT = ("Reacher-NT", "Walker2d-NT")
SURE, UNSURE = "probabilistic:relative=0.1", "probabilistic:relative=0.5"
"""Teachers of rewards, and of margins that are sums of signs, whose weaker part shows only in answers that vary."""


@dataclass(frozen=True)
class Ablation:
    """A sweep on the true margins, and how those of the second half are learned."""

    sweep: Sweep
    trajectories: int = 500
    pairs: int = 100_000
    teacher: str | None = None
    """How pairs are labelled; None: SURE or UNSURE, by the task."""
    updates: int | None = None


FULL = Ablation(
    Sweep(
        tasks=(*SUITE, *NT),
        algorithms=("hpi-clip", "hpi", "sppo", "ppo"),
        seeds=range(10),
        steps=1_000_000,
        preset="paper",
    )
)
QUICK = Ablation(
    replace(FULL.sweep, tasks=("HalfCheetah-v5", "Reacher-NT"), seeds=range(1), steps=61_440, preset=None),
    trajectories=200,
    pairs=100_000,
)


def main() -> int:
    """Run the ablation, or go on with it, and write its page."""
    parser = argparse.ArgumentParser(description=f"{TITLE} ({FIGURE}).")
    add_options(parser)
    parser.add_argument("--teacher", metavar="T", help="how pairs are labelled, as for mdcontest compare")
    parser.add_argument("--keep-data", action="store_true", help="keep the datasets once their margins are fitted")
    return guarded(_run, parser.parse_args())


def _run(options: argparse.Namespace) -> int:
    prepare()
    began, plan = time.monotonic(), QUICK if options.quick else FULL
    plan = replace(plan, sweep=change_sweep(plan.sweep, options), teacher=options.teacher)
    folder = Path(options.out or f"build/paper/learned-margins{'-quick' if options.quick else ''}")
    runs = folder / "runs"
    if options.dry_run:
        print("and as much again on the learned margins, with about two minutes a run to learn each:", file=sys.stderr)
        return print_plan(plan.sweep, runs, options.jobs)
    code = work(plan.sweep.jobs(runs), runs, options, "the same command goes on")
    sources = [run for run in Store(runs).runs if run.is_finished and run.learned is None]
    with ThreadPoolExecutor(options.jobs or cores()) as pool:
        margins = dict(pool.map(lambda run: (run.name, _learn_margin(run, folder, plan, options.keep_data)), sources))
    jobs = [job for run in sources for job in _again(plan.sweep, run, margins[run.name]).jobs(runs)]
    code = max(code, work(jobs, runs, options, "the same command goes on"))
    store = Store(runs)
    for line in shares(store):
        print(line)
    page = write_page(store, folder, TITLE, None)
    print(f"{FIGURE}: {page}, after {time.monotonic() - began:.0f} s")
    return code


def _again(sweep: Sweep, run: Run, margin: Path) -> Sweep:
    """The run once more, on the margin that was learned from it; gaps are judged by the true one."""
    gap = None if sweep.gap is None else GapPlan(sweep.gap.every, sweep.gap.returned, 0, sweep.gap.how, "own")
    one = {"tasks": (run.task,), "algorithms": (run.algorithm,), "seeds": (run.seed,)}
    return replace(sweep, **one, margin=str(margin), gap=gap)


def _learn_margin(run: Run, folder: Path, plan: Ablation, keep: bool) -> Path:
    """Collect, compare and fit, unless it is done; each is a command of its own."""
    data, margin = folder / "data" / run.name, folder / "margins" / run.name
    if not (margin / "margin.json").is_file():
        until = ["--until", "1000000"] if run.target > 1_000_000 else []
        _command("collect", run.folder, "--trajectories", plan.trajectories, "--out", data, *until, "--quiet")
        teacher = plan.teacher or (UNSURE if run.task in NT else SURE)
        _command("compare", data, "--pairs", plan.pairs, "--teacher", teacher, "--seed", run.seed)
        model = "reward" if run.algorithm == "ppo" else "skew"
        updates = [] if plan.updates is None else ["--updates", plan.updates]
        _command("fit", data, "--out", margin, "--model", model, "--seed", run.seed, *updates, "--quiet")
    if not keep:
        shutil.rmtree(data, ignore_errors=True)
    return margin


def _command(*arguments: object) -> None:
    command = [sys.executable, "-m", "mdcontest", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunError(f"mdcontest {' '.join(map(str, arguments))}: {done.stderr.strip()}")


def shares(store: Store) -> list[str]:
    """How much of the improvement over the first policy is left with a learned margin, by area under the curve.

    Of returns where they count; elsewhere of the true margin against the first policy, which begins at nothing.
    """
    lines = [f"{'task':<18} {'algorithm':<9} {'own margin':>11} {'learned':>9} {'kept':>6}  seeds"]
    for study in make_study(store).tasks:
        found: dict[str, dict[str, list[float]]] = {}
        if study.measure == RETURN:
            for one in study.scores.values():
                own = "own" if one.runs[0].learned is None else "learned"
                starts = one.curves[:, 0]
                found.setdefault(one.algorithm, {})[own] = list(one.areas - starts)
        else:
            by_variant = {run.variant: run for run in store.runs if run.task == study.name}
            for variant, (_, curves) in study.margins.items():
                run = by_variant[variant]
                own = "own" if run.learned is None else "learned"
                found.setdefault(run.algorithm, {})[own] = list(curves.mean(axis=1))
        for algorithm, areas in found.items():
            if set(areas) == {"own", "learned"}:
                own, learned = float(np.mean(areas["own"])), float(np.mean(areas["learned"]))
                kept = f"{learned / own:.0%}" if own > 0 else "–"
                seeds = len(areas["learned"])
                lines.append(f"{study.name:<18} {algorithm:<9} {own:>11.4g} {learned:>9.4g} {kept:>6}  {seeds}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
