# The two commands of the README, and what CI runs. Everything is installed into .venv; nothing else is touched.
PYTHON ?= python3
BIN := .venv/bin
# One BLAS thread a process: the tests already use every core.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
# Compiled updates are kept between processes: a second start takes a third of the time.
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/build/jax
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0
export JAX_PLATFORMS ?= cpu

.PHONY: demo paper test test-slow lint docs setup clean constraints

demo: .venv/ready
	$(BIN)/mdcontest demo --out build/demo

# Every figure and table of the paper's studies, from the results in the repository; trains nothing.
paper: .venv/ready
	$(BIN)/python paper/write_results.py

test: lint docs
	MDCONTEST_COUNTS=reduced $(BIN)/python -m pytest -q -n auto --durations=20

test-slow: .venv/ready
	MDCONTEST_COUNTS=full $(BIN)/python -m pytest -q -n auto tests

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/ready
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs

setup: .venv/ready

# Debian splits ensurepip off Python; where it is missing the system's pip fills the environment.
.venv/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv || $(PYTHON) -m venv --clear --without-pip .venv
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m pip --python $(BIN)/python install -q pip
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[all]' -c constraints.txt
	touch $@

constraints:
	uv pip compile --universal --python-version 3.11 --no-header --no-annotate --extra all pyproject.toml -o constraints.txt

clean:
	rm -rf .venv build dist
