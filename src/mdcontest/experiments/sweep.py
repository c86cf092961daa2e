"""A sweep: tasks × algorithms × seeds × settings, from a TOML file or from flags.

tasks = ["Reacher-NT", "Hopper-v5"]
algorithms = ["hpi-clip", "sppo"]
seeds = "0-9"                       # or [0, 1, 2], or "0,2,5"
steps = 1_000_000
preset = "paper"                    # optional
[settings]                          # of every run
horizon = 2048
[grid]                              # every combination of these
comparison_horizon = [1, 16, 256]
[task_settings.Reacher-NT]
theta = 1.5
[margin]                            # a learned one in place of a task's own; or margin = "FOLDER" for all
Reacher-NT = "margins/reacher"
[gap]                               # bracket gaps when a run is done
every = 200_000
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from mdcontest.errors import FileFormatError, InputError, did_you_mean
from mdcontest.experiments.jobs import Job, gap_job, trace_job, train_job
from mdcontest.gap.curve import OWN, GapRequest, has_behaviour, points
from mdcontest.gap.estimate import GapSettings
from mdcontest.learn.algorithms import ALGORITHMS
from mdcontest.learn.margins import require_readable
from mdcontest.learn.past import CLONED, KINDS
from mdcontest.learn.spec import RunSpec
from mdcontest.preferences.asked import ASK
from mdcontest.preferences.margin_files import load_margin
from mdcontest.settings import algorithm_name, read_seeds
from mdcontest.tasks import Task

MAX_BYTES = 1 << 20
GAP_EVERY, TRACE_EVERY = "every = {} in [gap] (--gap-every)", "trace_every = {} (--trace-every)"
"""How a sweep is asked for brackets and samples, in its file and by flags."""


@dataclass(frozen=True)
class GapPlan:
    """Which gaps to bracket on every run that is done."""

    every: int | None = None
    """Steps between two brackets; None: only at the end."""
    returned: Sequence[str] = ()
    """Kinds of policies, last, mixture or cloned; empty: the run's own."""
    seed: int = 0
    how: Mapping[str, Any] = field(default_factory=dict)
    """Fields of GapSettings."""
    margin: str | None = None
    """By what they are judged: "own", a folder of a learned margin, or None, what a run was trained on."""

    def require_margin(self, tasks: Iterable[Task]) -> None:
        """An error where it is in no folder, or of another task: gaps are measured last, hours after such a slip."""
        if self.margin not in (None, OWN):
            judge = load_margin(str(self.margin))
            for task in tasks:
                require_readable(task.with_margin(judge))


@dataclass(frozen=True)
class Sweep:
    """What to run. Every run is one combination."""

    tasks: Sequence[str]
    algorithms: Sequence[str] = ("hpi-clip",)
    seeds: Sequence[int] = (0,)
    steps: int = 1_000_000
    preset: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of every run."""
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Settings that vary, each with its values."""
    task_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of a task, by its name."""
    checkpoint_every: int = 10
    gap: GapPlan | None = None
    trace_every: int | None = None
    """Steps between two samples of what a policy does, on tasks that can be drawn; None: none but those of gaps."""
    margin: str | Mapping[str, str] | None = None
    """The folder of a learned margin in place of the tasks' own, or one a task, by its name."""

    def __post_init__(self) -> None:
        for name in ("tasks", "algorithms", "seeds"):
            if not getattr(self, name):
                raise InputError(f"a sweep needs at least one entry in {name}")
        margins = self.margin if isinstance(self.margin, Mapping) else {}
        for table, name in [("task_settings", name) for name in self.task_settings] + [("margin", n) for n in margins]:
            if name not in self.tasks:
                raise InputError(f"{table} has {name!r}{did_you_mean(name, list(self.tasks), 'tasks of the sweep')}")
        if self.checkpoint_every < 1:
            raise InputError(f"checkpoint_every must be at least 1 iteration, got {self.checkpoint_every}")

    def runs(self, out: Path) -> list[RunSpec]:
        """Every run in its folder within `out`, those of one seed together; wrong names and settings are found here."""
        values = itertools.product(*self.grid.values())
        variants = [dict(self.settings) | dict(zip(self.grid, combination, strict=True)) for combination in values]
        found: dict[str, RunSpec] = {}
        for seed, task, algorithm, settings in itertools.product(self.seeds, self.tasks, self.algorithms, variants):
            own = dict(self.task_settings.get(task, {}))
            plan = RunSpec(task, algorithm, seed, self.steps, "", self.preset, settings, own, self.checkpoint_every)
            spec = replace(plan, margin=self._margin_of(task)).in_folder(out)
            found.setdefault(spec.folder, spec)  # the same run may come about in two ways
        return list(found.values())

    def _margin_of(self, task: str) -> str | None:
        if ASK in (self.margin, *(self.margin.values() if isinstance(self.margin, Mapping) else ())):
            raise InputError("a sweep cannot ask: people answer one run at a time, mdcontest train --margin ask")
        return self.margin.get(task) if isinstance(self.margin, Mapping) else self.margin

    def jobs(self, out: Path) -> list[Job]:
        """Training, and what follows it."""
        planned = self.runs(out)
        if self.gap is not None:
            self.gap.require_margin({spec.task: spec.make_task() for spec in planned}.values())
        return [train_job(spec, self.after(spec)) for spec in planned]

    def after(self, spec: RunSpec) -> tuple[Job, ...]:
        """What can be done once a run is trained."""
        task = spec.make_task()
        settings = ALGORITHMS[spec.algorithm].choose_settings(task, spec.preset, spec.settings)
        batch = settings.batch_size
        total = max(1, spec.steps // batch) * batch
        label, found = f"{spec.task} {spec.algorithm} {spec.seed}", list[Job]()
        if self.trace_every is not None and has_behaviour(task):
            at = [0, *points(total, batch, self.trace_every, TRACE_EVERY)]  # and what it did before it learned anything
            found.append(trace_job(spec.folder, at, settings.returned, label))
        if self.gap is not None:
            how = GapSettings(**self.gap.how)
            kinds = self.gap.returned or [settings.returned]
            if CLONED in kinds and settings.returned != CLONED:  # hours before it would be noticed
                raise InputError(
                    f"[gap] asks for the cloned policy, and {spec.task} {spec.algorithm} with returned = "
                    f'{settings.returned} keeps nothing to clone from; put returned = "{CLONED}" into [settings], or '
                    "ask for the mixture, which needs nothing"
                )
            for step, kind in itertools.product(points(total, batch, self.gap.every, GAP_EVERY), kinds):
                request = GapRequest(spec.folder, step, kind, self.gap.seed, how, self.gap.margin)
                found.append(gap_job(request, label))
        return tuple(found)


# --- files ------------------------------------------------------------------------------------------------


def read_sweep(path: str | Path, **changes: Any) -> tuple[Sweep, str | None]:
    """The sweep in a TOML file and the folder it names as `out`; `changes` go before what the file says."""
    file = Path(path)
    try:
        with file.open("rb") as opened:
            text = opened.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise FileFormatError(f"{file} has over {MAX_BYTES} bytes; a sweep is a short file")
        content = tomllib.loads(text.decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, FileFormatError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise FileFormatError(f"cannot read the sweep {file}: {reason}") from None
    out = content.pop("out", None)
    if out is not None and not isinstance(out, str):
        raise FileFormatError(f"{file}: out must be the name of a folder, got {out!r}")
    try:
        return make_sweep(_changed(content, changes)), out
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _changed(content: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What the file says with what was said since; tables entry by entry."""
    found = content | {
        name: _merged(content.get(name), value) if name in ("settings", "grid", "task_settings", "gap") else value
        for name, value in changes.items()
    }
    if isinstance(found.get("grid"), Mapping) and "grid" not in changes:  # a value that was given is not varied
        found["grid"] = {key: values for key, values in found["grid"].items() if key not in changes.get("settings", {})}
    if isinstance(found.get("settings"), Mapping) and "grid" in changes:  # and one that is varied since is not fixed
        found["settings"] = {key: value for key, value in found["settings"].items() if key not in changes["grid"]}
    for table in ("task_settings", "margin"):
        if "tasks" in changes and isinstance(found.get(table), Mapping):
            left = _texts(changes["tasks"], "tasks")
            found[table] = {name: own for name, own in found[table].items() if name in left}
    return found


def _merged(before: Any, since: Any) -> Any:
    """Tables entry by entry, and so on within them; anything else is replaced."""
    if not (isinstance(before, Mapping) and isinstance(since, Mapping)):
        return since
    return {**before, **{key: _merged(before.get(key), value) for key, value in since.items()}}


def make_sweep(content: Mapping[str, Any]) -> Sweep:
    """A sweep from plain values, as a file has them."""
    _require_known(content, [item.name for item in fields(Sweep)], "a sweep")
    if "tasks" not in content:
        raise InputError("which tasks? a sweep needs tasks; mdcontest tasks lists them")
    found = dict(content)
    for name in ("tasks", "algorithms"):
        if name in found:
            found[name] = _texts(found[name], name)
    if "algorithms" in found:
        found["algorithms"] = [algorithm_name(name) for name in found["algorithms"]]
    if "seeds" in found:
        found["seeds"] = read_seeds(found["seeds"])
    for name in ("steps", "checkpoint_every", "trace_every"):
        if found.get(name) is not None:
            found[name] = _count(found[name], name)
    for name in ("settings", "grid", "task_settings"):
        if not isinstance(found.get(name, {}), Mapping):
            raise InputError(f"{name} must be a table, got {found[name]!r}")
    margin = found.get("margin")
    named = isinstance(margin, Mapping) and all(isinstance(folder, str) for folder in margin.values())
    if not (margin is None or isinstance(margin, str) or named):
        raise InputError(f"margin must be a folder, or a table of one a task, got {margin!r}")
    for name, values in found.get("grid", {}).items():
        if not isinstance(values, list | tuple) or not values:
            raise InputError(f"grid: {name} must be a list of values, got {values!r}")
    if both := [name for name in found.get("grid", {}) if name in found.get("settings", {})]:
        raise InputError(f"grid varies {both[0]}, so {both[0]} in settings would have no effect; leave one out")
    for name, values in found.get("task_settings", {}).items():
        if not isinstance(values, Mapping):
            raise InputError(f"task_settings: {name} must be a table of settings, got {values!r}")
    if found.get("gap") is not None:
        found["gap"] = make_gap_plan(found["gap"])
    return Sweep(**found)


def make_gap_plan(content: Any) -> GapPlan:
    """The [gap] table: every, returned, seed, margin, and the fields of GapSettings side by side."""
    if not isinstance(content, Mapping):
        raise InputError(f"gap must be a table, got {content!r}")
    own, how = ("every", "returned", "seed", "margin"), [item.name for item in fields(GapSettings)]
    _require_known(content, [*own, *how], "gap")
    every = content.get("every")
    measured = {name: content[name] for name in how if name in content}
    for name in ("trajectories", "steps", "restarts", "evaluation_steps"):
        if name in measured:
            measured[name] = _count(measured[name], name)
    if not isinstance(measured.get("settings", {}), Mapping):
        raise InputError(f"settings must be a table, got {measured['settings']!r}")
    GapSettings(**measured)
    kinds = read_kinds(content.get("returned", []))
    seeds = read_seeds(content.get("seed", 0))
    if len(seeds) != 1:
        raise InputError(f"gap: seed must be one number, got {content['seed']!r}")
    margin = content.get("margin")
    if not (margin is None or isinstance(margin, str)):
        raise InputError(f"gap: margin must be own, or the folder of a learned one, got {margin!r}")
    return GapPlan(None if every is None else _count(every, "every"), kinds, seeds[0], measured, margin)


def read_kinds(value: Any) -> list[str]:
    """Kinds of policies to bracket the gap of, as a list or with commas."""
    kinds = _texts(value, "returned")
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(f"returned has {kind!r}{did_you_mean(kind, list(KINDS), 'kinds')}")
    return kinds


def _require_known(content: Mapping[str, Any], known: list[str], what: str) -> None:
    for name in content:
        if name not in known:
            raise InputError(f"{what} has no {name!r}{did_you_mean(name, known, 'keys')}")


def _texts(value: Any, name: str) -> list[str]:
    found = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(part, str) and part for part in found):
        raise InputError(f"{name} must be a list of names, got {value!r}")
    return list(dict.fromkeys(found))


def _count(value: Any, name: str) -> int:
    whole = isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= 1e15
    if not whole or value != int(value):
        raise InputError(f"{name} must be a whole number, at least 1, got {value!r}")
    return int(value)
