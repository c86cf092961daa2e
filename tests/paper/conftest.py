"""The scripts in paper/ import each other as top-level modules, so their folder goes on the path, and so does this one.

They are only in a checkout: without them these tests are not collected.
"""

from __future__ import annotations

import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "paper"
collect_ignore_glob = [] if SCRIPTS.is_dir() else ["*.py"]
for folder in (SCRIPTS, Path(__file__).resolve().parent):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
