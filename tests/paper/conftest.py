"""The scripts in paper/ import each other as top-level modules, so their folder goes on the path.

They are only in a checkout: without them these tests are not collected.
"""

from __future__ import annotations

import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "paper"
collect_ignore_glob = [] if SCRIPTS.is_dir() else ["test_*.py"]
if str(SCRIPTS) not in sys.path:
    sys.path.append(str(SCRIPTS))
