"""The report of a study: one page, its figures and its tables as files beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mdcontest.errors import InputError, preview
from mdcontest.experiments.store import Store
from mdcontest.folders import make_folder
from mdcontest.learn.runs import FAILED
from mdcontest.report import study_tables
from mdcontest.report.page import Section, write_page
from mdcontest.report.statistics import MIN_SEEDS
from mdcontest.report.study import Study, make_study
from mdcontest.report.study_plots import looks
from mdcontest.report.study_sections import (
    Gallery,
    auc_section,
    curve_section,
    gap_section,
    position_section,
    run_section,
    setting_section,
    share_section,
    verdict_section,
    write_file,
)


def write_report(
    store: Store,
    page: Path,
    *,
    title: str | None = None,
    before: Sequence[Section] = (),
    after: Sequence[Section] = (),
    baseline: str | None = None,
) -> list[str]:
    """Write the page, PAGE-figures/ and PAGE-data/ beside it; what to mind about the runs comes back, one text each.

    The same store gives the same bytes. `before` are sections that come first, `after` ones that come last; `baseline`
    is the variant or algorithm that others are compared with, SPPO where there is one unless told otherwise.
    """
    study = make_study(store, baseline)
    styles = looks(study)
    page = Path(page)
    if page.is_dir():
        raise InputError(f"{page} is a folder; name a page in it, such as {page / 'report.html'}")
    make_folder(page.parent)
    gallery = Gallery(page.parent / f"{page.stem}-figures")
    sections = [
        *before,
        verdict_section(study),
        curve_section(study, styles, gallery),
        auc_section(study, styles, gallery),
        setting_section(study, styles, gallery),
        gap_section(study, styles, gallery),
        position_section(study, styles, gallery),
        share_section(study, styles, gallery),
        run_section(store, study.variants),
        _file_section(store, study, page),
        *after,
    ]
    gallery.tidy()
    minded = minding(store, study)
    shown = [section for section in sections if section is not None]
    write_page(page, title or f"Study of {store.folder.resolve().name}", shown, _lead(store), minded)
    return minded


def minding(store: Store, study: Study) -> list[str]:
    """What a reader must know before any number: what is missing, mixed or cut."""
    found = list(store.problems)
    if len(store.versions) > 1:
        counts = ", ".join(
            f"{version} ({len(runs)} run{'s' * (len(runs) > 1)})"
            for version, runs in sorted(store.versions.items(), key=str)
        )
        found.append(f"the runs were made with {len(store.versions)} versions of mdcontest: {counts}")
    failed = [run for run in store.runs if run.status == FAILED]
    going = [run for run in store.runs if not run.is_finished and run not in failed]
    if failed:
        names = preview([f"{run.name} ({run.error})" for run in failed], 4)
        found.append(f"{len(failed)} failed, in no average: {names}")
    if going:
        names = preview([f"{run.name} ({run.steps:,} of {run.target:,} steps)" for run in going], 4)
        found.append(f"{len(going)} unfinished, in no average: {names}")
    few = [f"{t.name} {v} ({s.area.n})" for t in study.tasks for v, s in t.scores.items() if s.area.n < MIN_SEEDS]
    if few:
        found.append(f"fewer than {MIN_SEEDS} seeds, so no verdict: {preview(few, 6)}")
    return found + study.notes


def _lead(store: Store) -> str:
    done = sum(run.is_finished for run in store.runs)
    sppo = any(run.algorithm == "sppo" for run in store.runs)
    names = {run.task for run in store.runs}
    runs, on = _count(len(store.runs), "run"), _count(len(names), "task")
    text = f"{runs} on {on}, {done} of them finished. Averages are over finished runs only."
    return text + (" SPPO is what Swamy et al. 2024 call SPO: margins are averaged over whole episodes." * sppo)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _file_section(store: Store, study: Study, page: Path) -> Section:
    files, folder = study_tables.downloads(store, study), page.parent / f"{page.stem}-data"
    make_folder(folder)
    for file in files:
        write_file(folder / file.name, file.content.encode(errors="replace"))
    about = (
        f"These files are inside this page, and beside it in {page.stem}-data; its figures are in "
        f"{page.stem}-figures, as SVG and PNG."
    )
    return Section("Files", about, downloads=files)
