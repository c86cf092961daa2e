"""What the studies of the paper share: a sweep at full or at quick scale, run, and written up as a page."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import recorded

from mdcontest.commands.options import seeds, steps
from mdcontest.commands.sweeping import print_plan, work
from mdcontest.commands.training import prepare
from mdcontest.errors import InputError
from mdcontest.experiments.jobs import GAP
from mdcontest.experiments.sweep import Sweep
from mdcontest.interrupts import noted
from mdcontest.settings import algorithm_name

if TYPE_CHECKING:
    from mdcontest.experiments.jobs import Job
    from mdcontest.experiments.store import Store


@dataclass(frozen=True)
class Study:
    """One figure of the paper."""

    name: str
    """Of its folder and page."""
    title: str
    figure: str
    """The paper's label."""
    full: Sequence[Sweep]
    """As the paper ran it, and what is looked at beside it."""
    quick: Sequence[Sweep]
    """The same at a scale that ends within 10 minutes on 2 cores; shows that everything works, not the result."""
    baseline: str = "sppo"


def main(study: Study) -> int:
    """Run the study, or go on with it, and write its page."""
    parser = argparse.ArgumentParser(description=f"{study.title} ({study.figure}).")
    add_options(parser)
    parser.add_argument("--missing", action="store_true", help="only runs that paper/results does not have")
    return guarded(lambda options: _run(study, options), parser.parse_args())


def add_options(parser: argparse.ArgumentParser) -> None:
    """What every study can be told."""
    parser.add_argument("--quick", action="store_true", help="a small version, within 10 minutes on 2 cores")
    parser.add_argument("--out", metavar="FOLDER", help="runs and page go here (default build/paper/NAME)")
    parser.add_argument("--tasks", metavar="A,B", help="only these tasks")
    parser.add_argument("--algos", metavar="x,y", help="only these algorithms")
    parser.add_argument("--seeds", type=seeds, metavar="S", help="0-9 or 0,2,5")
    parser.add_argument("--steps", type=steps, metavar="N", help="environment steps of each run")
    parser.add_argument("--own", action="store_true", help="this library's settings instead of the paper's")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes at a time (default one a core)")
    parser.add_argument("--ray", metavar="ADDRESS", help="run on a Ray cluster instead")
    parser.add_argument("--retries", type=int, default=2, metavar="N", help="of a job that fails (default 2)")
    parser.add_argument("--dry-run", action="store_true", help="print what would run, and what it would take")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


def guarded(run: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Its exit code; bad input is one line, and so is an interrupt."""
    try:
        with noted():
            return run(options)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _run(study: Study, options: argparse.Namespace) -> int:
    prepare()
    from mdcontest.experiments.store import Store

    sweeps = change_sweeps(study.quick if options.quick else study.full, options)
    folder = Path(options.out or f"build/paper/{study.name}{'-quick' if options.quick else ''}")
    runs, began = folder / "runs", time.monotonic()
    jobs = wanted([job for sweep in sweeps for job in sweep.jobs(runs)], options.missing)
    if options.dry_run:
        code = max(print_plan(sweep, runs, options.jobs) for sweep in sweeps)
        print(f"{len(jobs)} runs would be made{', those that are recorded left out' if options.missing else ''}")
        return code
    if not jobs:
        print("nothing is missing: all of these runs are recorded")
        return 0
    code = work(jobs, runs, options, "the same command goes on")
    page = write_page(Store(runs), folder, study.title, study.baseline)
    print(f"{study.figure}: {page}, after {time.monotonic() - began:.0f} s")
    return code


def write_page(store: Store, folder: Path, title: str, baseline: str | None) -> Path:
    """The report about a study's runs."""
    from mdcontest.report.study_page import write_report

    page = folder / "report.html"
    known = {name for run in store.runs for name in (run.variant, run.algorithm)}
    chosen = baseline if baseline in known else None  # a folder with runs of other lengths has others
    for warning in write_report(store, page, title=title, baseline=chosen):
        print(f"note: {warning}", file=sys.stderr)
    return page


def wanted(jobs: list[Job], missing: bool) -> list[Job]:
    """Each run once, whichever sweeps it is part of; only those that were never recorded, if that is asked for.

    A run whose brackets were not all recorded is wanted, too.
    """
    tables: recorded.Tables = recorded.read_tables() if missing else {"runs": [], "gaps": []}
    known = {row["run"] for row in tables["runs"]}
    measured = {(row["run"], row["step"], row["returned"]) for row in tables["gaps"]}
    found: dict[str, Job] = {}
    for job in jobs:
        there = found.setdefault(job.folder, job)
        after = {one.key: one for one in (*there.then, *job.then)}
        found[job.folder] = replace(there, then=tuple(after.values()))

    def is_recorded(job: Job) -> bool:
        run, gaps = Path(job.folder).name, [after.content for after in job.then if after.kind == GAP]
        return run in known and all((run, gap["steps"], gap["returned"]) in measured for gap in gaps)

    return [job for job in found.values() if not is_recorded(job)]


def change_sweeps(sweeps: Sequence[Sweep], options: argparse.Namespace) -> list[Sweep]:
    """The sweeps with what the command line says; those of which nothing is left are left out."""
    names = [algorithm_name(name) for name in options.algos.split(",")] if options.algos else None
    only_own = options.own and any(sweep.preset is None for sweep in sweeps)
    found = []
    for sweep in sweeps:
        algorithms = [name for name in sweep.algorithms if names is None or name in names]
        if algorithms and not (only_own and sweep.preset is not None):
            found.append(replace(change_sweep(sweep, options), algorithms=algorithms))
    if not found:
        raise InputError(f"nothing is left to run: the algorithms of this study do not include {options.algos}")
    return found


def change_sweep(sweep: Sweep, options: argparse.Namespace) -> Sweep:
    """The sweep with what the command line says."""
    given = {name: getattr(options, name) for name in ("seeds", "steps") if getattr(options, name)}
    if options.tasks:
        given["tasks"] = options.tasks.split(",")
        given["task_settings"] = {}
    if options.algos:
        given["algorithms"] = [algorithm_name(name) for name in options.algos.split(",")]
    if options.own:
        given["preset"] = None
    return replace(sweep, **given)
