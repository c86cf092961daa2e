"""paper/learned_margins.py: which runs it learns from, margins that are told apart, and what becomes of failures."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import learned_margins
import margin_fits
import pytest
import recorded
import selections
from dry_runs import hours_of, rows_of
from margin_fits import MarginFit
from recorded_results import paper_settings, record_runs

from mdcontest import interrupts
from mdcontest.errors import RunError
from mdcontest.experiments import cost
from mdcontest.experiments.store import Store
from mdcontest.experiments.sweep import Sweep
from mdcontest.folders import lock_folder
from mdcontest.learn.spec import RunSpec
from report.stores import write_gap, write_run

FULL, QUICK, sources_of = learned_margins.FULL, learned_margins.QUICK, learned_margins.sources_of
TINY = {"num_steps": 256, "minibatches": 2, "epochs": 1, "hidden": [8]}


def fit_of(folder, seed=0, **changes):
    spec = RunSpec("RPSCorridor", "hpi", seed, 512, str(folder / "runs" / f"run{seed}"), None, TINY)
    return replace(MarginFit(spec, folder, 20, 100, "sign"), **changes)


@pytest.fixture
def commands(monkeypatch):
    """Commands that only write down what they were asked, and leave their folders; `wrong` says what they complain."""
    asked, wrong = [], []

    def run(command, **_):
        what, *rest = command[3:]
        asked.append((what, *rest))
        complaints = [said for check in wrong if (said := check(asked[-1]))]
        if what != "compare" and not complaints:
            out = Path(rest[rest.index("--out") + 1])
            out.mkdir(parents=True, exist_ok=True)
            (out / ("margin.json" if what == "fit" else "dataset.json")).write_text("")
        return subprocess.CompletedProcess(command, 2 if complaints else 0, "", "".join(complaints))

    monkeypatch.setattr(margin_fits, "subprocess", SimpleNamespace(run=run))
    return asked, wrong


@pytest.fixture
def run_main(monkeypatch, capsys, tmp_path):
    """The command in this process: exit code, standard output, standard error."""
    monkeypatch.setattr(cost, "measure_speed", lambda spec: 1e-3)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["learned_margins.py", "--out", str(tmp_path / "out"), *map(str, arguments)])
        return learned_margins.main(), *capsys.readouterr()

    return run


# --- margins ----------------------------------------------------------------------------------------------


def test_whatever_decides_a_margin_is_in_its_folders(tmp_path):
    fit = fit_of(tmp_path)
    ppo = replace(fit.spec, algorithm="ppo")
    others = [fit_of(tmp_path, teacher="number"), fit_of(tmp_path, pairs=101), fit_of(tmp_path, trajectories=21)]
    others += [fit_of(tmp_path, spec=ppo), fit_of(tmp_path, seed=1)]
    for folders in ([one.data for one in (fit, *others)], [one.margin for one in (fit, *others)]):
        assert len(set(folders)) == 6
    assert fit_of(tmp_path).margin == fit.margin
    assert re.fullmatch(r"run0-[0-9a-f]{8}", fit.margin.name)


def test_another_teacher_learns_another_margin(commands, tmp_path):
    """Also where the first was interrupted between its answers and the fit."""
    asked, wrong = commands
    wrong.append(lambda command: "stopped" if command[0] == "fit" else None)
    with pytest.raises(RunError):
        fit_of(tmp_path).learn(keep_data=False)
    wrong.clear()
    other = fit_of(tmp_path, teacher="number")
    other.learn(keep_data=False)
    data = [command[1] for command in asked if command[0] == "compare"]
    assert data == [str(fit_of(tmp_path).data), str(other.data)]
    assert not fit_of(tmp_path).is_done
    assert other.is_done
    assert fit_of(tmp_path).data.is_dir()


def test_data_that_an_earlier_call_kept_stay(commands, tmp_path):
    asked, _ = commands
    kept, other = fit_of(tmp_path), fit_of(tmp_path, seed=1)
    kept.learn(keep_data=True)
    kept.learn(keep_data=False)
    other.learn(keep_data=False)
    assert kept.data.is_dir()
    assert not other.data.exists()
    assert [command[0] for command in asked] == ["collect", "compare", "fit"] * 2


def test_one_that_fails_does_not_drop_the_others(commands, tmp_path, capsys):
    _, wrong = commands
    wrong.append(lambda command: "Traceback\n  line 3\nno space left" if "run1" in command[1] else None)
    fits = [fit_of(tmp_path, seed=seed) for seed in range(4)]
    assert margin_fits.learn_all(fits, 2, False) == [fits[0], fits[2], fits[3]]
    said = capsys.readouterr().err
    assert (said.count("\n"), said.endswith(": no space left\n")) == (1, True)
    assert said.startswith("error: no margin was learned from run1: mdcontest collect ")


def test_an_interrupt_is_heard_between_commands(commands, tmp_path, capsys):
    """Nothing begins after it, and a command that it ended, too, is no failure of a margin."""
    asked, wrong = commands
    wrong.append(lambda command: interrupts.asked.set() or "interrupted")
    try:
        with pytest.raises(KeyboardInterrupt):
            margin_fits.learn_all([fit_of(tmp_path, seed=seed) for seed in range(5)], 1, False)
    finally:
        interrupts.asked.clear()
    assert [command[:2] for command in asked] == [("collect", fit_of(tmp_path).spec.folder)]
    assert capsys.readouterr().err == "interrupted, nothing is lost; the same command goes on\n"


def test_commands_of_mdcontest_say_one_line(tmp_path):
    with pytest.raises(RunError, match=r"mdcontest compare .*none.* --pairs 1: mdcontest: error: ") as caught:
        margin_fits.run_command("compare", tmp_path / "none", "--pairs", 1)
    assert "\n" not in str(caught.value)


# --- the command ------------------------------------------------------------------------------------------

ONE = ("--quick", "--tasks", "HalfCheetah-v5", "--algos", "hpi")


def test_two_at_once_in_a_folder_are_refused(run_main, tmp_path, monkeypatch):
    monkeypatch.setattr(learned_margins, "work", lambda *_: pytest.fail("began to train"))
    (tmp_path / "out").mkdir()
    with lock_folder(tmp_path / "out", ".study.lock"):
        code, said, error = run_main(*ONE)
    assert (code, said) == (2, "")
    assert error == f"error: another process is running this study in {tmp_path / 'out'}\n"


def test_a_margin_that_failed_is_the_exit_code(run_main, tmp_path, monkeypatch, capsys):
    """Training, and the margin that was learned, go on to the end."""
    worked = []
    monkeypatch.setattr(learned_margins, "work", lambda jobs, *_: worked.append(jobs) or 0)
    monkeypatch.setattr(learned_margins, "is_finished", lambda folder: True)
    monkeypatch.setattr(learned_margins, "learn_all", lambda fits, workers, keep: fits[1:])
    monkeypatch.setattr(learned_margins, "jobs_on", lambda plan, fit, runs: [fit])
    monkeypatch.setattr(learned_margins, "Store", lambda runs: None)
    monkeypatch.setattr(learned_margins, "shares", lambda store: [])
    monkeypatch.setattr(learned_margins, "write_page", lambda *_: tmp_path / "page")
    code, said, _ = run_main(*ONE, "--seeds", "0-2")
    assert (code, [len(jobs) for jobs in worked]) == (1, [3, 2])
    assert str(tmp_path / "page") in said


WRONG = [
    (["--algos", "ppo", "--tasks", "Reacher-NT", "--missing"], "PPO needs a reward; there is none on Reacher-NT, name"),
    (["--teacher", "nobody"], "the teacher 'nobody'"),
    (["--teacher", "sign", "--missing"], "what is recorded does not say which teacher it had"),
    (["--tasks", "Ant-v4"], "--tasks has 'Ant-v4': only "),
    (["--algos", "hpi,foo"], "--algos has 'foo': only hpi-clip, hpi, sppo, ppo are"),
]


@pytest.mark.parametrize(("arguments", "expected"), WRONG)
def test_bad_input_is_one_line(run_main, tmp_path, arguments, expected):
    code, said, error = run_main(*arguments)
    assert (code, said, error.count("\n")) == (2, "", 1)
    assert error.startswith(f"error: {expected}")
    assert not (tmp_path / "out").exists()


def test_a_dry_run_counts_both_halves(run_main, tmp_path):
    """No PPO where there is no reward, brackets on the learned margins alone, and the remark about these at the end."""
    code, said, _ = run_main("--dry-run", "--tasks", "Reacher-NT, Swimmer-v5", "--algos", "ppo,hpi", "--seeds", "0-1")
    assert code == 0
    twice = [4, 0, 4_000_000]
    assert rows_of(said) == dict.fromkeys((("Reacher-NT", "hpi"), ("Swimmer-v5", "hpi"), ("Swimmer-v5", "ppo")), twice)
    assert said.splitlines()[-2].startswith("12 runs into ")
    assert said.splitlines()[-1] == "and 6 margins would be learned, about two minutes of a core each"
    # Two runs on Reacher-NT are followed by 5 brackets of 2 · 300 000 steps and more each.
    assert hours_of(said) > (12_000_000 + 2 * 5 * 600_000) * 1e-3 / 3600
    plain = run_main("--dry-run", "--tasks", "Swimmer-v5", "--algos", "ppo,hpi", "--seeds", "0-1")[1]
    assert hours_of(plain) == pytest.approx((8_000_000 * 1e-3 + 8 * 3) / 3600, abs=0.006)
    assert not (tmp_path / "out").exists()


# --- what is missing --------------------------------------------------------------------------------------


def write_learned(out, task, algorithm, seed, brackets=(), judge="own", **changes):
    settings = paper_settings(task, algorithm) | changes
    name = f"{task}-{algorithm}-{seed}-{len(list(out.glob('*')))}"
    run = write_run(out, task, algorithm, seed, name=name, target=selections.STEPS, learned="abc", **settings)
    for step in brackets:
        write_gap(run, step, 1.0, judge=judge)


@pytest.fixture
def missing(tmp_path, monkeypatch):
    """(algorithm, seed) of the runs that a sweep would still learn from, with these recorded."""

    def missing(task, *learned, plan=FULL, ends=False, **changes):
        results = tmp_path / "results"
        (tmp_path / "made").mkdir()
        for arguments, more in learned:
            write_learned(tmp_path / "made", task, *arguments, **more)
        record_runs(tmp_path / "made", results)
        read = recorded.read_runs
        monkeypatch.setattr(recorded, "read_runs", lambda: read(results))
        sweep = replace(plan.sweep, tasks=(task,), algorithms=("hpi", "sppo"), seeds=(0, 1), **changes)
        found = sources_of(replace(plan, sweep=sweep, ends=ends), tmp_path / "runs", True)
        return [(spec.algorithm, spec.seed) for spec in found]

    return missing


def planned_steps():
    sweep = replace(FULL.sweep, tasks=("Reacher-NT",), algorithms=("hpi",), seeds=(0,))
    (spec,) = sweep.runs(Path("runs"))
    return [job.content["steps"] for job in sweep.after(spec)]


def test_only_runs_of_the_study_are_known(missing):
    """One of two algorithms; what was run in other settings does not count."""
    found = missing("Swimmer-v5", (("hpi", 0), {}), (("sppo", 0), {"gamma": 0.9}), (("hpi", 1), {"gamma": 0.9}))
    assert found == [("sppo", 0), ("hpi", 1), ("sppo", 1)]


def test_runs_in_which_ends_count_are_others(missing):
    learned = (("hpi", 0), {"termination": "ended"}), (("sppo", 0), {}), (("sppo", 1), {"termination": "ended"})
    assert missing("Swimmer-v5", *learned, ends=True) == [("sppo", 0), ("hpi", 1)]


def test_ends_count_in_the_second_half_alone(monkeypatch, tmp_path):
    plan = replace(FULL, sweep=replace(FULL.sweep, tasks=("Swimmer-v5",), algorithms=("hpi",), seeds=(3,)), ends=True)
    (source,) = sources_of(plan, tmp_path, False)
    assert source.settings == {}
    asked = []
    monkeypatch.setattr(Sweep, "jobs", lambda sweep, runs: asked.append(sweep.settings) or [])
    learned_margins.jobs_on(plan, plan.fit(source, tmp_path), tmp_path)
    assert asked == [{"termination": "ended"}]


def test_all_brackets_must_be_there_where_gaps_count(missing):
    steps = planned_steps()
    assert len(steps) == 5
    found = missing(
        "Reacher-NT",
        (("hpi", 0), {"brackets": steps}),
        (("sppo", 0), {"brackets": steps[:-1]}),
        (("hpi", 1), {"brackets": steps, "judge": None}),  # by the learned margin itself
    )
    assert found == [("sppo", 0), ("hpi", 1), ("sppo", 1)]


@pytest.mark.parametrize("changes", [{"preset": None}, {"steps": 500_000}])
def test_recorded_runs_stand_for_no_other_settings(missing, changes):
    learned = [((name, seed), {}) for name in ("hpi", "sppo") for seed in (0, 1)]
    assert len(missing("Swimmer-v5", *learned, **changes)) == 4


def test_a_quick_version_is_not_recorded(missing):
    learned = [((name, seed), {}) for name in ("hpi", "sppo") for seed in (0, 1)]
    assert len(missing("Swimmer-v5", *learned, plan=QUICK)) == 4


def test_where_all_is_recorded_nothing_is_missing(missing):
    learned = [((name, seed), {}) for name in ("hpi", "sppo") for seed in (0, 1)]
    assert missing("Swimmer-v5", *learned) == []


def test_gaps_follow_on_the_nontransitive_tasks_alone(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(Sweep, "jobs", lambda sweep, runs: asked.append((sweep.tasks, sweep.gap, sweep.margin)) or [])
    for task in ("Reacher-NT", "Swimmer-v5"):
        sweep = replace(FULL.sweep, tasks=(task,), algorithms=("hpi",), seeds=(3,))
        (spec,) = replace(sweep, gap=None).runs(tmp_path)
        learned_margins.jobs_on(replace(FULL, sweep=sweep), FULL.fit(spec, tmp_path), tmp_path)
    (first, gap, margin), (second, none, _) = asked
    assert (first, second, gap, none) == (("Reacher-NT",), ("Swimmer-v5",), FULL.sweep.gap, None)
    assert Path(margin).parent == tmp_path / "margins"


# --- what is left of it -----------------------------------------------------------------------------------


def test_shares_with_and_without_ends_are_told_apart(tmp_path):
    """Returns rise by 100 on the own margin, by 20 on the learned one, and by 90 where ends count as well."""
    for seed in range(2):
        for rise, learned, more in ((100, None, {}), (20, "a", {}), (90, "a", selections.ENDED)):
            settings = paper_settings("Hopper-v5", "hpi") | more
            log = ([500, 10_000], [0.0, 2.0 * rise])
            write_run(
                tmp_path, "Hopper-v5", "hpi", seed, name=f"{seed}-{rise}", episodes=log, learned=learned, **settings
            )
    _, *lines = learned_margins.shares(Store(tmp_path))
    found = {line.split()[1:-4][-1]: line.split()[-2] for line in lines}
    assert found == {"hpi": "20%", "ends": "90%"}
