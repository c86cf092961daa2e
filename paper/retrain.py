"""Train recorded runs again from their recorded settings, and compare every episode, bit for bit.

python paper/retrain.py --runs 5          five at random, of those made on a machine of this kind
python paper/retrain.py NAME...           these

Runs are the same to the last bit on the same kind of processor with the same versions of the packages that compute. One
on a learned margin is repeated from the beginning: the run that the margin was learned from, collecting, comparing,
fitting, and training on what came of it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import recorded
from learned_margins import FULL, Ablation, jobs_on, sources_of
from margin_fits import learn_all
from recorded import RecordedRun
from selections import ENDED, in_learned
from study import guarded

from mdcontest.commands.sweeping import work
from mdcontest.commands.training import prepare
from mdcontest.errors import InputError, preview
from mdcontest.experiments.jobs import Job, train_job
from mdcontest.experiments.launch import cores
from mdcontest.experiments.stored import Run
from mdcontest.learn.runs import versions
from mdcontest.learn.spec import RunSpec, is_finished

DECISIVE = ("machine", "processor", "numpy", "jax", "optax", "gymnasium", "mujoco")
"""What two runs must have in common to be the same to the last bit."""


def main() -> int:
    """Exit code 0 if all are the same."""
    parser = argparse.ArgumentParser(description="Train recorded runs again and compare them bit for bit.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="runs as paper/results/runs.parquet names them")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="how many at random (default 5)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="which ones (default 0)")
    parser.add_argument("--results", default=str(recorded.FOLDER), metavar="FOLDER", help="default paper/results")
    parser.add_argument("--out", metavar="FOLDER", help="keep the new runs here")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes at a time (default one a core)")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    options = parser.parse_args()
    return guarded(_retrain, options)


def _retrain(options: argparse.Namespace) -> int:
    prepare()
    recorded.require_runs(Path(options.results))
    known = {run.name: run for run in recorded.read_runs(Path(options.results))}
    chosen = [_named(known, name) for name in options.names] or draw(list(known.values()), options.runs, options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        code, folders = train_again(chosen, Path(options.out or scratch), options)
        same = [compare(run, folder) for run, folder in zip(chosen, folders, strict=True)]
    print(f"{sum(same)} of {len(same)} are the same, bit for bit")
    return code if all(same) else 1


def train_again(runs: Sequence[RecordedRun], out: Path, options: argparse.Namespace) -> tuple[int, list[Path]]:
    """The exit code, and each run's new folder, which is not there if it, or its margin, could not be made."""
    plans = {run.name: plan_of(run) for run in runs if run.learned is not None}
    fits = {name: plan.fit(*sources_of(plan, out, missing=False), out) for name, plan in plans.items()}
    sources = {Path(fit.spec.folder).name: fit.spec for fit in fits.values()}
    first = [
        fits[run.name].spec if run.name in fits else sources.get(run.name) or spec_of(run).in_folder(out)
        for run in runs
    ]
    code = _work([train_job(spec) for spec in first], out, options)
    ready = {fit.name: fit for fit in fits.values() if is_finished(Path(fit.spec.folder))}
    learned = learn_all(list(ready.values()), options.jobs or cores(), keep_data=False)
    then = {name: jobs_on(plans[name], fit, out)[0] for name, fit in fits.items() if fit in learned}
    code = max(code, _work(list(then.values()), out, options) if then else 0, int(len(then) < len(fits)))
    made = {name: then[name].folder if name in then else f"{fit.margin}-not-learned" for name, fit in fits.items()}
    return code, [Path(made.get(run.name, spec.folder)) for run, spec in zip(runs, first, strict=True)]


def _work(jobs: list[Job], out: Path, options: argparse.Namespace) -> int:
    """Each once: a run may be asked for, and be the one that another's margin is learned from."""
    settings = argparse.Namespace(jobs=options.jobs, ray=None, retries=0, quiet=options.quiet)
    once = {job.folder: job for job in jobs}
    return work(list(once.values()), out, settings, "the same command begins anew", summary=False)


def plan_of(run: RecordedRun) -> Ablation:
    """The part of Ablation 1 that a run on a learned margin was, without its brackets."""
    ends = in_learned(run, ENDED)
    if not (ends or in_learned(run)):
        raise InputError(f"{run.name} was trained on a margin that paper/learned_margins.py did not learn")
    one = {"tasks": (run.task,), "algorithms": (run.algorithm,), "seeds": (run.seed,)}
    return replace(FULL, sweep=replace(FULL.sweep, **one, gap=None), ends=ends)


def _named(known: dict[str, RecordedRun], name: str) -> RecordedRun:
    if name not in known:
        raise InputError(f"there is no run {name!r} in the results; they are {preview(sorted(known), 3)}")
    return known[name]


def draw(runs: list[RecordedRun], count: int, seed: int) -> list[RecordedRun]:
    """So many at random, of those that this machine could repeat."""
    if seed < 0:
        raise InputError(f"--seed is {seed}; it must be 0 or more")
    here = versions()
    alike = [run for run in runs if not made_elsewhere(run, here)]
    if count < 1 or count > len(alike):
        raise InputError(
            f"{count} runs were asked for, and {len(alike)} of {len(runs)} were made on a machine like this one: "
            + ", ".join(f"{key} {here.get(key)}" for key in DECISIVE)
        )
    order = np.random.default_rng(seed).choice(len(alike), count, replace=False)
    return [alike[i] for i in sorted(order)]


def made_elsewhere(run: RecordedRun, here: dict[str, str]) -> str:
    """In what its machine differs from this one, in words; nothing where it should be repeated to the last bit."""
    other = [key for key in DECISIVE if run.versions.get(key) != here.get(key)]
    return ", ".join(f"{key} {run.versions.get(key, 'unknown')} (here {here.get(key)})" for key in other)


def spec_of(run: RecordedRun) -> RunSpec:
    """The run once more: every setting is named, so no default and no preset matters."""
    return RunSpec(run.task, run.algorithm, run.seed, run.target, "", None, dict(run.settings), dict(run.task_settings))


def compare(run: RecordedRun, folder: Path) -> bool:
    """Whether all episodes of the new run, and so its curve, are those of the recorded one."""
    if not is_finished(folder):
        print(f"{run.name}: NOT COMPARED, its training failed or was stopped before the end")
        return False
    again = Run(folder)
    if again.learned != run.learned:
        print(f"{run.name}: DIFFERENT, its margin is {again.learned} now and was {run.learned}")
        return False
    same = recorded.fingerprint(again.episodes) == run.fingerprint
    returns = [point["return"] for point in recorded.curve_of(again)]
    curve = [value for value in returns if value is not None] == run.episodes["return"]
    print(f"{run.name}: {'the same' if same and curve else 'DIFFERENT'}, fingerprint {run.fingerprint[:12]}")
    if not (same and curve) and (elsewhere := made_elsewhere(run, versions())):
        print(f"  it was made elsewhere, so equality to the bit is not expected: {elsewhere}")
    return same and curve


if __name__ == "__main__":
    sys.exit(main())
