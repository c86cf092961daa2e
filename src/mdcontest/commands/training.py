"""`mdcontest train` and `tasks`. JAX and Gymnasium are imported only when one of them runs."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdcontest.commands.asking import add_asking, make_asking, refuse_asking
from mdcontest.commands.options import add_settings, given_settings, key_values, seeds, steps
from mdcontest.errors import InputError
from mdcontest.extras import require_learning
from mdcontest.folders import lock_folder
from mdcontest.interrupts import noted, stop_if_asked
from mdcontest.settings import ALGORITHM_NAMES, algorithm_name
from mdcontest.threads import one_thread

if TYPE_CHECKING:
    from mdcontest.experiments.launch import Result
    from mdcontest.learn.agent import Agent
    from mdcontest.learn.asking import Asking
    from mdcontest.learn.logs import Progress
    from mdcontest.learn.spec import RunSpec

DEFAULT_STEPS, DEFAULT_OUT, CHECKPOINT_EVERY = 1_000_000, "runs", 10
FROM_THE_RUN = (
    *("task", "algo", "steps", "seeds", "preset", "task_setting", "margin"),
    *("out", "checkpoint_every", "tensorboard"),
)
"""What a run that goes on knows itself."""
DONE, FAILED = 0, 1


def add_commands(command: Any) -> None:
    """Add the parsers; `command(name, run, help, reads)` makes one."""
    train = command("train", run_train, "Train a policy from a margin, one process a seed.", reads=False)
    train.add_argument("task", metavar="TASK", nargs="?", help="a task by name; mdcontest tasks lists them")
    train.add_argument("--algo", choices=ALGORITHM_NAMES, type=algorithm_name, help="default hpi-clip")
    train.add_argument("--steps", type=steps, metavar="N", help="environment steps (default 1e6)")
    train.add_argument("--seeds", "--seed", type=seeds, metavar="S", help="0-9 or 0,2,5 (default 0)")
    train.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at a time (default 1)")
    train.add_argument("--out", metavar="FOLDER", help="one folder a run goes in here (default runs)")
    train.add_argument("--resume", metavar="FOLDER", help="finish the run, or all unfinished runs, in this folder")
    train.add_argument("--preset", choices=["paper"], help="the paper's settings for this task and algorithm")
    train.add_argument(
        "--task-setting",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the task, such as theta=1.5",
    )
    train.add_argument(
        "--margin", metavar="FOLDER", help="a learned margin in place of the task's own; ask: learn it while training"
    )
    add_asking(train)
    train.add_argument("--checkpoint-every", type=int, metavar="N", help="iterations (default 10)")
    train.add_argument("--tensorboard", action="store_true", help="write TensorBoard logs beside the CSV files")
    train.add_argument("--quiet", action="store_true", help="no progress on standard error")
    add_settings(train)

    command("tasks", run_tasks, "List the tasks that can be trained on.", reads=False)


# --- train ------------------------------------------------------------------------------------------------


def run_train(options: argparse.Namespace) -> int:
    """Train, or finish what was interrupted; exit code 1 if some run failed."""
    prepare()
    from mdcontest.experiments import launch

    if options.jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {options.jobs}")
    specs, unreadable = _to_resume(options) if options.resume else (_to_start(options), 0)
    asks = [spec for spec in specs if spec.margin == "ask"]
    if asks and len(specs) > 1:
        raise InputError(f"people answer one run at a time, and these are {len(specs)}; name one seed, or one folder")
    if not asks:
        refuse_asking(options)
    if len(specs) == 1:
        asking = make_asking(options, Path(specs[0].folder)) if asks else None
        results = [_train_here(specs[0], not options.quiet, asking)]
    else:
        try:
            results = launch.run_all(specs, options.jobs, show=not options.quiet)
        except KeyboardInterrupt:
            _say_how_to_go_on(options.resume or options.out or DEFAULT_OUT)
            raise
    if results:
        _print_results(results)
    return FAILED if unreadable or any(result.error for result in results) else DONE


def _say_how_to_go_on(folder: str) -> None:
    print(f"mdcontest: interrupted; mdcontest train --resume {folder} goes on", file=sys.stderr)


def _to_start(options: argparse.Namespace) -> list[RunSpec]:
    from mdcontest.learn.runs import DESCRIPTION
    from mdcontest.learn.spec import RunSpec, is_finished

    if options.task is None:
        raise InputError("which task? mdcontest tasks lists them; --resume FOLDER finishes a run")
    every = CHECKPOINT_EVERY if options.checkpoint_every is None else options.checkpoint_every
    if every < 1:
        raise InputError(f"--checkpoint-every must be at least 1, got {every}")
    number, specs = options.steps or DEFAULT_STEPS, []
    for seed in options.seeds or [0]:
        spec = RunSpec(
            options.task,
            options.algo or "hpi-clip",
            seed,
            number,
            "",
            options.preset,
            given_settings(options),
            key_values(options.task_setting),
            every,
            options.tensorboard,
            options.margin,
        )
        spec = spec.in_folder(_usable(options.out or DEFAULT_OUT))
        folder = Path(spec.folder)
        if is_finished(folder):
            print(f"already finished: {folder}")
        elif (folder / DESCRIPTION).exists():
            if (lock := lock_folder(folder)) is not None:  # an error where another process is training in it
                lock.close()
            raise InputError(f"{folder} was interrupted; finish it with mdcontest train --resume {folder}")
        else:
            specs.append(spec)
    if specs:
        specs[0].agent().close()  # an environment that cannot be made is found here, before anything starts
    return specs


def _usable(folder: str) -> Path:
    """The folder, if it is one or could be made."""
    try:
        Path(folder).exists()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot use the folder {folder!r}: {getattr(error, 'strerror', None) or error}") from None
    return Path(folder)


def _to_resume(options: argparse.Namespace) -> tuple[list[RunSpec], int]:
    """What is left to finish, and how many runs could not be read."""
    from mdcontest.learn.spec import find_runs, is_finished, spec_of_run

    given = {name: getattr(options, name) for name in FROM_THE_RUN}
    asked = [name for name, value in given.items() if not (value is None or value is False or value == [])]
    asked += list(given_settings(options))
    if asked:
        raise InputError(f"--resume takes everything from the run itself; leave them out: {', '.join(asked)}")
    specs, unreadable = [], 0
    runs = find_runs(Path(options.resume))
    for run in runs:
        try:
            if is_finished(run):
                print(f"already finished: {run}")
            else:
                specs.append(spec_of_run(run))
        except InputError as error:
            if len(runs) == 1:
                raise
            print(f"mdcontest: error: {error}", file=sys.stderr)
            unreadable += 1
    return specs, unreadable


def _train_here(spec: RunSpec, show: bool, asking: Asking | None = None) -> Result:
    """One run in this process; what stops it is one line, and says how to go on."""
    from mdcontest.experiments.launch import Result
    from mdcontest.learn.spec import is_started, train

    last: list[Any] = []
    try:
        # Ctrl-C while the page's process is looked after could be dropped where it happens to arrive.
        with noted() if asking else contextlib.nullcontext(), asking or contextlib.nullcontext():
            train(spec, show, lambda agent, progress: _after_iteration(agent, progress, last, asking))
    except InputError as error:
        if not is_started(Path(spec.folder)):
            raise
        return Result(spec, last[-1] if last else None, str(error))
    except KeyboardInterrupt:
        _say_how_to_go_on(spec.folder)
        raise
    return Result(spec, last[-1] if last else None)


def _after_iteration(agent: Agent, progress: Progress, last: list[Any], asking: Asking | None) -> None:
    last[:] = [progress]
    if asking is not None:
        asking(agent, progress)
        stop_if_asked()


def _print_results(results: list[Result]) -> None:
    print(f"{'seed':>4}  {'steps':>9}  {'return':>9}  {'margin vs first':>15}  {'steps/s':>8}  folder")
    for result in results:
        progress, where = result.progress, result.spec.folder
        if progress is not None:
            total = "–" if progress.episode_return is None else f"{progress.episode_return:.4g}"
            print(
                f"{result.spec.seed:>4}  {progress.steps:>9}  {total:>9}  {progress.margin_vs_first:>+15.4f}  "
                f"{progress.steps_per_second:>8,.0f}  {where}"
            )
        for note in result.notes:
            print(f"mdcontest: note: seed {result.spec.seed}: {note}", file=sys.stderr)
        if result.error:
            print(f"mdcontest: error: seed {result.spec.seed}: {result.error}", file=sys.stderr)


# --- tasks ------------------------------------------------------------------------------------------------


def run_tasks(options: argparse.Namespace) -> int:
    """Names of all tasks."""
    prepare()
    from mdcontest import tasks

    for name in tasks.names():
        print(name)
    return DONE


def prepare() -> None:
    """One thread for every numerical library, told before any of them is imported; warnings as one line."""
    os.environ.update(one_thread(dict(os.environ)))
    require_learning()
    warnings.showwarning = lambda message, *rest: print(f"mdcontest: note: {message}", file=sys.stderr)
