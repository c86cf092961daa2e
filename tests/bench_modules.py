"""What the tests of bench/solvers.py share: its modules, which are only in a checkout, and the names of its models."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "bench" / "finite"))
models = pytest.importorskip("models", reason="the benchmarks are only in a checkout")
cases, contests, highs, mdp_peers, processes, tables = (
    pytest.importorskip(name) for name in ("cases", "contests", "highs", "mdp_peers", "processes", "tables")
)

MODELS = ("garnet", "grid", "queue", "routing", "inventory")
