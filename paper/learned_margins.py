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
import recorded
from mujoco_nt import HOW
from study import add_options, change_sweep, guarded, write_page

from mdcontest.commands.sweeping import print_plan, work
from mdcontest.commands.training import prepare
from mdcontest.errors import RunError
from mdcontest.experiments.jobs import train_job
from mdcontest.experiments.launch import cores
from mdcontest.experiments.store import Store
from mdcontest.experiments.sweep import GapPlan, Sweep
from mdcontest.gap.curve import OWN
from mdcontest.learn.spec import RunSpec, is_finished
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
    """Its gaps are bracketed on the nontransitive tasks alone, on the learned margins, and judged by the true ones."""
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
        gap=GapPlan(every=200_000, returned=("mixture",), how=HOW, margin=OWN),
    )
)
QUICK = Ablation(
    replace(FULL.sweep, tasks=("HalfCheetah-v5", "Reacher-NT"), seeds=range(1), steps=61_440, preset=None, gap=None),
    trajectories=200,
    pairs=100_000,
)


def main() -> int:
    """Run the ablation, or go on with it, and write its page."""
    parser = argparse.ArgumentParser(description=f"{TITLE} ({FIGURE}).")
    add_options(parser)
    parser.add_argument("--teacher", metavar="T", help="how pairs are labelled, as for mdcontest compare")
    parser.add_argument("--keep-data", action="store_true", help="keep the datasets once their margins are fitted")
    parser.add_argument("--missing", action="store_true", help="only what paper/results does not have")
    return guarded(_run, parser.parse_args())


def _run(options: argparse.Namespace) -> int:
    prepare()
    began, plan = time.monotonic(), QUICK if options.quick else FULL
    plan = replace(plan, sweep=change_sweep(plan.sweep, options), teacher=options.teacher)
    folder = Path(options.out or f"build/paper/learned-margins{'-quick' if options.quick else ''}")
    runs, sources = folder / "runs", sources_of(plan.sweep, folder / "runs", options.missing)
    if options.dry_run:
        print("and as much again on the learned margins, with about two minutes a run to learn each:", file=sys.stderr)
        code = print_plan(replace(plan.sweep, gap=None), runs, options.jobs)
        print(f"{len(sources)} margins would be learned")
        return code
    if not sources:
        print("nothing is missing: all of these runs are recorded")
        return 0
    code = work([train_job(spec) for spec in sources], runs, options, "the same command goes on")
    done = [spec for spec in sources if is_finished(Path(spec.folder))]
    with ThreadPoolExecutor(options.jobs or cores()) as pool:
        margins = list(pool.map(lambda spec: _learn_margin(spec, folder, plan, options.keep_data), done))
    again = [_again(plan.sweep, spec, margin) for spec, margin in zip(done, margins, strict=True)]
    code = max(code, work([job for one in again for job in one.jobs(runs)], runs, options, "the same command goes on"))
    store = Store(runs)
    for line in shares(store):
        print(line)
    page = write_page(store, folder, TITLE, None)
    print(f"{FIGURE}: {page}, after {time.monotonic() - began:.0f} s")
    return code


def sources_of(sweep: Sweep, runs: Path, missing: bool) -> list[RunSpec]:
    """The runs to learn from: PPO only where there is a reward; those that nothing recorded was learned from, if asked.

    A run on a learned margin is named after that margin, so it is looked for by what it learned from instead.
    """
    rows = recorded.read_runs() if missing else []
    known = {(run.task, run.algorithm, run.seed) for run in rows if run.learned is not None}
    found = replace(sweep, gap=None).runs(runs)
    found = [spec for spec in found if not (spec.algorithm == "ppo" and spec.task in NT)]
    return [spec for spec in found if (spec.task, spec.algorithm, spec.seed) not in known]


def _again(sweep: Sweep, spec: RunSpec, margin: Path) -> Sweep:
    """The run once more, on the margin that was learned from it."""
    one = {"tasks": (spec.task,), "algorithms": (spec.algorithm,), "seeds": (spec.seed,)}
    return replace(sweep, **one, margin=str(margin), gap=sweep.gap if spec.task in NT else None)


def _learn_margin(spec: RunSpec, folder: Path, plan: Ablation, keep: bool) -> Path:
    """Collect, compare and fit, unless it is done; each is a command of its own."""
    name = Path(spec.folder).name
    data, margin = folder / "data" / name, folder / "margins" / name
    if not (margin / "margin.json").is_file():
        until = ["--until", "1000000"] if spec.steps > 1_000_000 else []
        _command("collect", spec.folder, "--trajectories", plan.trajectories, "--out", data, *until, "--quiet")
        teacher = plan.teacher or (UNSURE if spec.task in NT else SURE)
        _command("compare", data, "--pairs", plan.pairs, "--teacher", teacher, "--seed", spec.seed)
        model = "reward" if spec.algorithm == "ppo" else "skew"
        updates = [] if plan.updates is None else ["--updates", plan.updates]
        _command("fit", data, "--out", margin, "--model", model, "--seed", spec.seed, *updates, "--quiet")
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
