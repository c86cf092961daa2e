"""fig:mujoco-suite-offline, fig:mujoco-nt-offline: Ablation 1, the same tasks with preferences that were learned.

For each task, algorithm and seed: train on the task's own margin (PPO: its reward), collect 500 episodes evenly over
the first million steps, label 100 000 random pairs of outcomes, fit an ensemble of three margins (PPO: rewards), and
train again on that. The paper leaves open what is compared and how it is labelled; here single outcomes, by choices
with probability σ(M/τ), τ a tenth of the spread of M for rewards and half of it for the nontransitive tasks. The sign
of M alone would not do there: on Reacher-NT it is that of the angle whatever the radius, so nobody could learn from it
to stretch the arm (paper/LOG.md).

Comparisons show ⊥ too, what comes after an episode's end; in the paper's settings it counts for nothing. With --ends it
counts in the second half: a second look where outcomes alone say little.

On all tasks it takes days of one core (--dry-run says how many). Claims are judged on a subset, LEARNED_ON of
selections.py; --tasks HalfCheetah-v5,InvertedPendulum-v5,Reacher-v5,Reacher-NT --seeds 0-4 runs it.

python paper/learned_margins.py --quick
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import recorded
from margin_fits import MarginFit, learn_all
from mujoco_nt import HOW
from selections import ENDED, NT, in_learned
from study import add_options, change_sweeps, guarded, print_dry_run, write_page

from mdcontest.commands.sweeping import work
from mdcontest.commands.training import prepare
from mdcontest.errors import InputError
from mdcontest.experiments.jobs import GAP, Job, train_job
from mdcontest.experiments.launch import cores
from mdcontest.experiments.store import Store
from mdcontest.experiments.sweep import GapPlan, Sweep
from mdcontest.folders import lock_folder, make_folder
from mdcontest.gap.curve import OWN
from mdcontest.learn.spec import RunSpec, is_finished
from mdcontest.preferences.segment_margins import SegmentMargin
from mdcontest.preferences.teacher_text import read_teacher
from mdcontest.report.study import RETURN, make_study
from mdcontest.tasks.suite import SUITE

TITLE, FIGURE = "Learned margins: Ablation 1", "fig:mujoco-suite-offline, fig:mujoco-nt-offline"
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
    ends: bool = False
    """Whether the end of an episode counts, as comparisons told, when it is trained on a learned margin."""

    @property
    def learned(self) -> Sweep:
        """The second half, but for its margins."""
        return replace(self.sweep, settings={**self.sweep.settings, **ENDED}) if self.ends else self.sweep

    def fit(self, spec: RunSpec, folder: Path) -> MarginFit:
        """How the margin of a run is learned."""
        teacher = self.teacher or (UNSURE if spec.task in NT else SURE)
        return MarginFit(spec, folder, self.trajectories, self.pairs, teacher)


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
    parser.add_argument("--ends", action="store_true", help="on learned margins an episode's end is an outcome, too")
    parser.add_argument("--keep-data", action="store_true", help="keep the datasets once their margins are fitted")
    parser.add_argument("--missing", action="store_true", help="only what paper/results does not have")
    return guarded(_run, parser.parse_args())


def _run(options: argparse.Namespace) -> int:
    prepare()
    plan = QUICK if options.quick else FULL
    (sweep,) = change_sweeps([plan.sweep], options, [FULL.sweep])
    plan = replace(plan, sweep=sweep, teacher=options.teacher, ends=options.ends)
    folder = Path(options.out or f"build/paper/learned-margins{'-quick' if options.quick else ''}")
    sources = sources_of(plan, folder / "runs", options.missing)
    fits = [plan.fit(spec, folder) for spec in sources]
    _require_teacher(fits, options)
    if options.dry_run:
        code = print_dry_run(planned_jobs(plan, fits, folder / "runs"), folder / "runs", options)
        left = sum(not fit.is_done for fit in fits)
        print(f"and {left} margins would be learned, about two minutes of a core each")
        return code
    if not fits:
        print("nothing is missing: all of these runs are recorded")
        return 0
    make_folder(folder)
    with lock_folder(folder, ".study.lock", "running this study in") or contextlib.nullcontext():
        return _learn(plan, fits, folder, options)


def _require_teacher(fits: list[MarginFit], options: argparse.Namespace) -> None:
    """Runs take hours before a teacher is asked."""
    if options.teacher is None:
        return
    if options.missing:
        raise InputError("what is recorded does not say which teacher it had; leave out --missing or --teacher")
    read_teacher(options.teacher, SegmentMargin.of_task(fits[0].spec.make_task()))


def _learn(plan: Ablation, fits: list[MarginFit], folder: Path, options: argparse.Namespace) -> int:
    """Train, learn margins, train on these, and write the page; exit code 1 if something of it failed."""
    runs, began = folder / "runs", time.monotonic()
    code = work([train_job(fit.spec) for fit in fits], runs, options, "the same command goes on")
    trained = [fit for fit in fits if is_finished(Path(fit.spec.folder))]
    learned = learn_all(trained, options.jobs or cores(), options.keep_data)
    code = max(code, int(len(learned) < len(trained)))
    again = [job for fit in learned for job in jobs_on(plan, fit, runs)]
    code = max(code, work(again, runs, options, "the same command goes on"))
    store = Store(runs)
    for line in shares(store):
        print(line)
    page = write_page(store, folder, TITLE, None)
    print(f"{FIGURE}: {page}, after {time.monotonic() - began:.0f} s")
    return code


# --- which runs -------------------------------------------------------------------------------------------


def sources_of(plan: Ablation, runs: Path, missing: bool) -> list[RunSpec]:
    """The runs to learn from: PPO only where there is a reward; those that nothing recorded was learned from, if asked.

    A run on a learned margin is named after that margin, so it is looked for by what it learned from instead. Where
    gaps count, one is wanted as long as some of its brackets are not recorded.
    """
    sweep = plan.sweep
    found = replace(sweep, gap=None).runs(runs)
    found = [spec for spec in found if not (spec.algorithm == "ppo" and spec.task in NT)]
    if not found:
        raise InputError(f"PPO needs a reward; there is none on {', '.join(sweep.tasks)}, name others with --algos")
    known = (
        _recorded(plan.ends) if missing and (sweep.preset, sweep.steps) == (FULL.sweep.preset, FULL.sweep.steps) else {}
    )

    def is_recorded(spec: RunSpec) -> bool:
        there = known.get((spec.task, spec.algorithm, spec.seed), [])
        asked = {(job.content["steps"], job.content["returned"]) for job in _after(sweep, spec) if job.kind == GAP}
        return any(asked <= brackets for brackets in there)

    return [spec for spec in found if not is_recorded(spec)]


def _recorded(ends: bool) -> dict[tuple[str, str, int], list[set[tuple[int, str]]]]:
    """Task, algorithm and seed of recorded runs on learned margins → the brackets of each, judged by the true one."""
    found: dict[tuple[str, str, int], list[set[tuple[int, str]]]] = {}
    for run in recorded.read_runs():
        if in_learned(run, ENDED if ends else {}):
            brackets = {(gap.step, gap.returned) for gap in run.gaps if gap.by_own}
            found.setdefault((run.task, run.algorithm, run.seed), []).append(brackets)
    return found


def _after(sweep: Sweep, spec: RunSpec) -> tuple[Job, ...]:
    """What follows a run on a learned margin."""
    return sweep.after(spec) if spec.task in NT else ()


def jobs_on(plan: Ablation, fit: MarginFit, runs: Path) -> list[Job]:
    """The run once more, on the margin that was learned from it."""
    spec, sweep = fit.spec, plan.learned
    one = {"tasks": (spec.task,), "algorithms": (spec.algorithm,), "seeds": (spec.seed,)}
    return replace(sweep, **one, margin=str(fit.margin), gap=sweep.gap if spec.task in NT else None).jobs(runs)


def planned_jobs(plan: Ablation, fits: list[MarginFit], runs: Path) -> list[Job]:
    """Both halves. A run is named after its margin, so before that is learned another name stands for it."""
    found = [train_job(fit.spec) for fit in fits]
    for fit in fits:
        if fit.is_done:
            found += jobs_on(plan, fit, runs)
        else:
            later = replace(fit.spec, folder=f"{fit.spec.folder}-on-its-learned-margin")
            found.append(train_job(later, _after(plan.sweep, later)))
    return found


# --- what is left of it -----------------------------------------------------------------------------------


def shares(store: Store) -> list[str]:
    """How much of the improvement over the first policy is left with a learned margin, by area under the curve.

    Of returns where they count; elsewhere of the true margin against the first policy, which begins at nothing.
    """
    lines = [f"{'task':<18} {'algorithm':<14} {'own margin':>11} {'learned':>9} {'kept':>6}  seeds"]
    for study in make_study(store).tasks:
        by_variant = {run.variant: run for run in store.runs if run.task == study.name}
        areas: dict[str, list[float]] = (
            {variant: list(one.areas - one.curves[:, 0]) for variant, one in study.scores.items()}
            if study.measure == RETURN
            else {variant: list(curves.mean(axis=1)) for variant, (_, curves) in study.margins.items()}
        )
        owns = {by_variant[name].algorithm: name for name in areas if by_variant[name].learned is None}
        for variant, found in areas.items():
            run = by_variant[variant]
            if run.learned is None or run.algorithm not in owns:
                continue
            own, learned = float(np.mean(areas[owns[run.algorithm]])), float(np.mean(found))
            differs = run.settings["termination"] != by_variant[owns[run.algorithm]].settings["termination"]
            name, kept = run.algorithm + ", ends" * differs, f"{learned / own:.0%}" if own > 0 else "–"
            lines.append(f"{study.name:<18} {name:<14} {own:>11.4g} {learned:>9.4g} {kept:>6}  {len(found)}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
