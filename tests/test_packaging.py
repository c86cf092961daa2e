"""What is imported when, and the wheel: it installs alone into an empty environment and works there."""

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
HEAVY = ("jax", "gymnasium", "matplotlib", "jinja2", "mujoco", "torch")


def modules_loaded_by(code):
    script = f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import mdcontest",
        "import contextlib, mdcontest.cli\nwith contextlib.suppress(SystemExit): mdcontest.cli.main(['--help'])",
        "import mdcontest.cli; mdcontest.cli.main(['example', 'corridor'])",
    ],
    ids=["import", "help", "example"],
)
def test_nothing_heavy_is_loaded(code):
    loaded = modules_loaded_by(code)
    assert not [name for name in HEAVY if name in loaded]


def test_a_missing_extra_says_how_to_install_it():
    code = "import sys; sys.modules['matplotlib'] = None\nimport mdcontest.cli; sys.exit(mdcontest.cli.main(['demo']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'mdcontest[report]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "-o", str(folder), str(ROOT)], check=True, capture_output=True
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_what_the_wheel_holds(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "mdcontest/py.typed" in names
    assert "mdcontest/report/page.html" in names
    assert "mdcontest/preferences/labelling/static/page.js" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests", "docs"))]


@pytest.mark.skipif(not FULL, reason="installs everything anew: make test-slow runs it")
def test_the_wheel_works_alone(wheel, tmp_path):
    """Installed into an empty environment with the core dependencies only, it solves rock-paper-scissors."""
    venv.create(tmp_path / "empty", with_pip=False)
    python = tmp_path / "empty" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*install, "-c", str(ROOT / "constraints.txt"), str(wheel)], check=True, capture_output=True)
    script = """
import mdcontest as mdc, importlib.util
assert importlib.util.find_spec("matplotlib") is None
contest = mdc.examples.make("rock-paper-scissors")
solution = mdc.solve(contest)
assert abs(solution.rule - 1 / 3).max() < 1e-12 and mdc.verify(contest, solution, exact=True)
print(solution)
"""
    run = {"check": True, "capture_output": True, "text": True, "cwd": tmp_path}
    assert "solved" in subprocess.run([str(python), "-c", script], **run).stdout
    command = tmp_path / "empty" / "bin" / "mdcontest"
    subprocess.run([str(command), "example", "rock-paper-scissors", "--out", "rps.json"], **run)
    assert "0.3333" in subprocess.run([str(command), "solve", "rps.json"], **run).stdout
    subprocess.run([str(command), "solve", "rps.json", "--solver", "hpi", "--quiet"], **run)


def test_version_is_that_of_the_package():
    import mdcontest

    done = subprocess.run(
        [sys.executable, "-m", "mdcontest.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"mdcontest {mdcontest.__version__}"


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples_run(script):
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert "certificate over the rationals: True" in done.stdout
