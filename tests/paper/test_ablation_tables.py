"""The tables on nontransitive tasks, ablations and other readings: made-up runs whose numbers one can work out."""

import numpy as np
import pytest
from ablation_tables import sections
from claims import CLAIMS
from evidence import Evidence
from figures import curves_figures
from judging import FAILS, HOLDS, UNKNOWN
from recorded_results import paper_settings, record_runs, rows_with
from scipy import stats
from second_look import second_look
from selections import ETAS, HORIZONS, NT, STEPS

from mdcontest.report.statistics import HIGHER, LOWER, TOO_FEW
from report.stores import write_gap, write_run

SEEDS = range(5)


def level(task, algorithm, height, out, learned=None, **other):
    """Five runs whose curves are level, at the height and one more for each seed after the first."""
    settings = paper_settings(task, algorithm) | other
    return [
        write_run(
            out / "runs",
            task,
            algorithm,
            seed,
            target=STEPS,
            episodes=([STEPS // 2, STEPS], [height + seed] * 2),
            learned=f"{learned}{seed}" if learned else None,
            name=f"{task}_{algorithm}_{seed}_{learned}_{'_'.join(f'{k}{v}' for k, v in other.items())}",
            **settings,
        )
        for seed in SEEDS
    ]


def recorded_evidence(out):
    record_runs(out / "runs", out / "results")
    return Evidence(out / "results")


def cell(mean, figures, apart=1.0):
    """Of five values so far apart around the mean."""
    half = stats.t.ppf(0.975, 4) * np.std(apart * np.arange(5), ddof=1) / np.sqrt(5)
    return f"{mean:.{figures}f} [{mean - half:.{figures}f}, {mean + half:.{figures}f}], n = 5"


def section(page, title):
    return page.partition(f"{title}\n")[2].partition("\n#")[0]


def verdict_of(evidence, words):
    found = [claim.judge(evidence) for claims in CLAIMS.values() for claim in claims if words in claim.text]
    assert len(found) == 1, words
    return found[0]


def test_nothing_is_said_of_what_was_not_run(tmp_path):
    level("Hopper-v5", "hpi-clip", 100.0, tmp_path)
    evidence = recorded_evidence(tmp_path)
    assert sections(evidence) == []
    assert "### Other readings" not in second_look(evidence)
    assert [name for name, _ in curves_figures(evidence)] == ["suite"]


def test_settings_in_columns(tmp_path):
    """Areas fall with T_C; the final return is best at η = 1.5, which both the table and the claim say."""
    tasks = ("HalfCheetah-v5",)
    for task in tasks:
        for i, horizon in enumerate(HORIZONS):
            level(task, "hpi-clip", 5000 - 100 * i, tmp_path, comparison_horizon=horizon)
        for eta in ETAS:
            level(task, "hpi", 3000 - 100 * abs(eta - 1.5), tmp_path, eta=eta)
        level(task, "sppo", 4400, tmp_path)
    evidence = recorded_evidence(tmp_path)
    page = "\n".join(sections(evidence))
    horizons = rows_with(section(page, "## HPI-Clip with margins averaged over T_C steps"), 8)
    assert [row[0] for row in horizons[2:]] == ["HalfCheetah"]
    assert all(row[1:] == [cell(5002 - 100 * i, 0) for i in range(7)] for row in horizons[2:])
    etas = rows_with(section(page, "## HPI's learning rate"), 6)
    assert etas[2][1:] == [cell(3002 - 100 * abs(eta - 1.5), 0) for eta in ETAS]
    assert verdict_of(evidence, "a longer comparison horizon is worse").verdict == HOLDS
    assert verdict_of(evidence, "one goes from HPI-Clip to SPPO").verdict == HOLDS, "4402 at T_C = 2048 and for SPPO"
    assert verdict_of(evidence, "1.5 does best").verdict == HOLDS


def test_learned_margins_beside_the_tasks_own(tmp_path):
    """HalfCheetah as the paper has it, InvertedPendulum the other way round, Hopper with too few seeds."""
    heights = {"HalfCheetah-v5": (900, 500), "InvertedPendulum-v5": (900, 500), "Hopper-v5": (900, 500)}
    for task, (clip, sppo) in heights.items():
        level(task, "hpi-clip", 1000, tmp_path)
        level(task, "hpi-clip", clip, tmp_path, learned="a")
        runs = level(task, "sppo", sppo, tmp_path, learned="b")
        if task == "Hopper-v5":
            (runs[0] / "run.json").unlink()
    evidence = recorded_evidence(tmp_path)
    rows = {
        tuple(row[:2]): row[2:] for row in rows_with(section("\n".join(sections(evidence)), "## On learned margins"), 5)
    }
    assert rows["HalfCheetah", "HPI-Clip"] == [cell(1002, 0), cell(902.0, 1), HIGHER]
    assert rows["HalfCheetah", "SPPO"] == ["not run", cell(502.0, 1), "–"]
    assert rows["InvertedPendulum", "HPI-Clip"][2] == f"**{HIGHER}** (paper: {LOWER})"
    assert rows["Hopper", "HPI-Clip"][2] == TOO_FEW
    said = verdict_of(evidence, "HPI-Clip's area with learned margins is strictly lower than SPPO's")
    assert said.verdict == FAILS
    assert verdict_of(evidence, "HPI-Clip's area with learned margins is strictly higher").verdict == UNKNOWN
    assert {name for name, _ in curves_figures(evidence)} == {"suite", "learned-margins"}


@pytest.mark.parametrize("judge", ["own", None])
def test_gaps_of_mixtures_along_training_and_of_others_at_the_end(tmp_path, judge):
    """With learned margins only what the task's own margin says of a policy counts."""
    for task in NT:
        for name, gap in (("hpi-clip", 0.2), ("hpi", 0.3), ("sppo", 0.9)):
            for learned in (None, name):
                for seed, run in enumerate(level(task, name, 0, tmp_path, learned=learned)):
                    for step, value in ((STEPS // 2, gap + 0.1), (STEPS, gap)):
                        write_gap(run, step, value + seed / 1000, ceiling=1.5, judge=judge if learned else None)
                    if learned is None:
                        write_gap(run, STEPS, 2 * gap + seed / 1000, ceiling=1.5, returned="last")
    evidence = recorded_evidence(tmp_path)
    part = section("\n".join(sections(evidence)), "## What best responses win on the nontransitive tasks")
    along = {tuple(row[:2]): row[2:4] for row in rows_with(part.partition("\nAt the end")[0], 5)}
    ends = {tuple(row[:3]): row[3:] for row in rows_with(part, 5)}
    for task in NT:
        assert along[task, "HPI"] == [cell(0.402, 4, 0.001), cell(0.302, 4, 0.001)]
        assert ends[task, "HPI-Clip", "last"][0] == cell(0.402, 4, 0.001)
        assert ends[task, "SPPO", "mixture"][0] == cell(0.902, 4, 0.001)
        assert ends[task, "HPI", "mixture"][1].startswith("1.5")
    words = "area of the inverted gap with {} is strictly higher"
    assert verdict_of(evidence, "HPI's " + words.format("the given margin")).verdict == HOLDS
    said = verdict_of(evidence, "HPI-Clip's " + words.format("learned margins"))
    assert said.verdict == (HOLDS if judge == "own" else UNKNOWN)
    names = {name for name, _ in curves_figures(evidence)}
    assert names == {"nontransitive"} | ({"learned-margins-nontransitive"} if judge == "own" else set())


def test_other_readings_of_the_paper(tmp_path):
    level("Hopper-v5", "sppo", 3000, tmp_path)
    level("Hopper-v5", "sppo", 500, tmp_path, across_episodes=True)
    level("Hopper-v5", "hpi-clip", 700, tmp_path)
    evidence = recorded_evidence(tmp_path)
    part = section(second_look(evidence), "### Other readings")
    assert rows_with(part, 5)[2:] == [["Hopper", cell(3002, 0), cell(502.0, 1), cell(702.0, 1), "not run"]]
