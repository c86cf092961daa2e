"""The command line as a person uses it: output, files, exit codes, interrupts, pipes, terminals, imports."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import mdcontest as mdc


def test_the_whole_walk(run, tmp_path):
    """example → check → solve → verify, each reading what the one before wrote."""
    contest, solution = tmp_path / "c.npz", tmp_path / "s.json"
    assert run("example", "corridor", "--out", contest)[0] == 0
    code, out, _ = run("check", contest)
    assert code == 0
    assert "unichain:  yes" in out
    code, out, _ = run("solve", contest, "--out", solution)
    assert code == 0
    assert "solved" in out
    assert "scissors" in out
    assert f"written to {solution}" in out
    for exact in ([], ["--exact"]):
        code, out, _ = run("verify", contest, solution, *exact)
        assert code == 0
        assert "the certificate holds" in out


def test_json_output(run, contest_file, tmp_path):
    code, out, _ = run("solve", contest_file, "--json")
    record = json.loads(out)
    assert code == 0
    assert record["status"] == "solved"
    assert np.shape(record["rule"]) == (7, 3)
    (tmp_path / "s.json").write_text(out)
    code, out, _ = run("verify", contest_file, tmp_path / "s.json", "--json", "--exact")
    assert code == 0
    assert json.loads(out)["holds"] is True
    assert "/" in json.loads(out)["gap"]
    code, out, _ = run("check", contest_file, "--json")
    assert json.loads(out)["unichain"]["verdict"] == "yes"


def test_an_exact_gap_with_thousands_of_digits_as_json(run, tmp_path):
    rng = np.random.default_rng(0)
    states, B = 60, rng.normal(size=(180, 180))
    P = rng.dirichlet(np.ones(states), (states, 3))
    contest = mdc.Contest(P, np.full(states, 1 / states), B - B.T)
    contest.save(tmp_path / "c.npz")
    mdc.solve(contest).save(tmp_path / "s.npz")
    code, out, err = run("verify", tmp_path / "c.npz", tmp_path / "s.npz", "--exact", "--json")
    assert (code, err) == (0, "")
    numerator, denominator = json.loads(out)["gap"].split("/")
    assert len(denominator) > 4300
    assert len(numerator) <= len(denominator)


def test_names_cannot_write_over_a_terminal(run, tmp_path):
    """Names come from files, and files from anybody."""
    contest = mdc.Contest(np.full((2, 1, 2), 0.5), [1, 0], np.zeros((2, 2)), state_names=["a\x1b[2J\nb", "\u202ec"])
    contest.save(tmp_path / "c.json")
    code, out, _ = run("solve", tmp_path / "c.json")
    assert code == 0
    assert not {"\x1b", "\u202e"} & set(out)
    assert "a�[2J�b" in out


def test_examples_are_listed_and_printed(run, tmp_path):
    code, out, _ = run("example")
    assert code == 0
    assert len(out.splitlines()) == len(mdc.examples.EXAMPLES)
    for name in mdc.examples.EXAMPLES:
        code, out, _ = run("example", name)
        assert code == 0
        (tmp_path / "e.json").write_text(out)
        assert mdc.load_contest(tmp_path / "e.json").to_json() == out


@pytest.mark.parametrize(
    ("solver", "name"),
    [
        ("linear-program", "LinearProgram"),
        ("LinearProgram", "LinearProgram"),
        ("lp", "LinearProgram"),
        ("hpi", "HPI"),
        ("HPI_PG", "HPIPG"),
        ("policy-game", "PolicyGame"),
        ("mirror_descent", "MirrorDescent"),
    ],
)
def test_every_solver_by_name(run, contest_file, solver, name):
    exact = name in ("LinearProgram", "PolicyGame")
    options = [] if exact else ["--iterations", "300"]
    code, out, _ = run("solve", contest_file, "--solver", solver, "--tol", "1e-9" if exact else "0.4", *options)
    assert code == 0, out
    assert f"solver   {name}" in out


def test_not_solved_to_tolerance_is_one(run, contest_file):
    code, out, _ = run("solve", contest_file, "--solver", "hpi", "--iterations", "20", "--eta", "theorem")
    assert code == 1
    assert "iteration_limit" in out


def test_a_refuted_certificate_is_one(run, contest_file, tmp_path):
    run("solve", contest_file, "--out", tmp_path / "s.json")
    record = json.loads((tmp_path / "s.json").read_text())
    record["rule"] = record["rule"][::-1]
    (tmp_path / "s.json").write_text(json.dumps(record))
    code, out, _ = run("verify", contest_file, tmp_path / "s.json")
    assert code == 1
    assert "does NOT hold" in out


def test_interrupt(run, contest_file, tmp_path, monkeypatch):
    """Ctrl-C during a solve: the policy so far is written with its certificate, exit code 1."""

    @contextlib.contextmanager
    def interrupting_bar(show):
        yield lambda progress: os.kill(os.getpid(), signal.SIGINT) if progress.iteration == 30 else None

    monkeypatch.setattr("mdcontest.commands.finite.progress_bar", interrupting_bar)
    out_file = tmp_path / "s.json"
    code, out, _ = run("solve", contest_file, "--solver", "hpi", "--out", out_file)
    assert code == 1
    assert "interrupted" in out
    assert mdc.verify(mdc.load_contest(contest_file), mdc.load_solution(out_file))


def test_interrupt_before_there_is_a_solution(run, contest_file, monkeypatch):
    @contextlib.contextmanager
    def interrupting_bar(show):
        yield lambda progress: os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("mdcontest.commands.finite.progress_bar", interrupting_bar)
    code, _, err = run("solve", contest_file, "--solver", "hpi")
    assert code == 130
    assert "interrupted before" in err


def test_output_into_a_closed_pipe(contest_file):
    command = f"{sys.executable} -m mdcontest.cli example finite-horizon | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_nobody_reading_is_no_verdict(contest_file, tmp_path):
    """1 would say that the certificate is refuted; it is only that nobody wants to know."""
    solution = tmp_path / "solution.json"
    mdc.solve(mdc.load_contest(contest_file)).save(solution)
    command = f"{sys.executable} -m mdcontest.cli verify {contest_file} {solution} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


def test_progress_on_a_terminal(monkeypatch, capsys):
    """With a terminal on standard error and no patience a bar is drawn and cleared; without one nothing is."""
    from mdcontest import progress as module
    from mdcontest.solvers import Progress

    monkeypatch.setattr(module, "PATIENCE", 0.0)
    with module.progress_bar() as report:
        report(Progress(1, 10, 0.5))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")
    with module.progress_bar() as report:
        for k in range(1, 11):
            report(Progress(k, 10, 0.5 / k))
    assert "solving" in capsys.readouterr().err
    with module.progress_bar(show=False) as report:
        report(Progress(1, 10, 0.5))
    assert capsys.readouterr().err == ""


def test_a_terminal_without_greek(contest_file):
    done = subprocess.run(
        [sys.executable, "-m", "mdcontest.cli", "check", str(contest_file)],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0
    assert b"\\u03b5" in done.stdout


def test_output_to_a_full_disk(contest_file):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "mdcontest.cli", "check", str(contest_file)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "No space left" in done.stderr


# --- what is imported, and when ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [None, ["--help"], ["train", "--help"], ["evaluate", "--help"], ["train", "RPSContinuous", "--steps", "0"]],
    ids=["import", "help", "train help", "evaluate help", "usage error"],
)
def test_neither_jax_nor_gymnasium_is_loaded_for_help(arguments):
    script = textwrap.dedent(f"""
        import contextlib, io, sys
        import mdcontest
        arguments = {arguments!r}
        if arguments is not None:
            from mdcontest.cli import main
            with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
                with contextlib.redirect_stderr(io.StringIO()):
                    main(arguments)
        print([name for name in ("jax", "jaxlib", "gymnasium", "optax", "mujoco", "imageio") if name in sys.modules])
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_package_can_be_run_as_a_module():
    done = subprocess.run([sys.executable, "-m", "mdcontest", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"mdcontest {mdc.__version__}\n")
