"""The margin of a run that asks while it trains: indifference at first, then the newest that was fitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mdcontest.arrays import Array
from mdcontest.margins import Margin
from mdcontest.preferences.learned import Learned
from mdcontest.preferences.margin_files import DESCRIPTION, load_margin

ASK = "ask"
"""What stands for it on the command line and in run.json."""


class AskedMargin(Margin):
    """Indifference until `current` is there, and what that says from then on."""

    kind: ClassVar[str] = "asked"

    def __init__(self, current: Learned | None = None) -> None:
        self.current = current

    @classmethod
    def in_folder(cls, folder: Path) -> AskedMargin:
        """As the newest fit in a folder has it, where there is one."""
        return cls(load_margin(folder) if (folder / DESCRIPTION).is_file() else None)

    @property
    def is_silent(self) -> bool:
        """Nobody has said anything yet, so nothing is to be learned."""
        return self.current is None

    def rows(self, z: Any = None) -> Any:
        return np.zeros((len(z), 1)) if self.current is None else self.current.rows(z)

    def kernel(self, f: Any, g: Any) -> Array:
        return np.zeros((len(f), len(g))) if self.current is None else self.current.kernel(f, g)

    def kernel_between(self, f: Any, g: Any) -> Array:
        return np.zeros(len(f)) if self.current is None else self.current.kernel_between(f, g)

    def kernel_against(self, f: Any, g: Any, weights: Array) -> Array:
        return np.zeros(len(f)) if self.current is None else self.current.kernel_against(f, g, weights)

    def over_ended(self, z: Any) -> Array:
        return np.zeros(len(z)) if self.current is None else self.current.over_ended(z)

    def against_beyond_ended(self, z: Any, opponents: Any, weights: ArrayLike | None = None) -> Array:
        if self.current is None:
            return np.zeros(len(z))
        return self.current.against_beyond_ended(z, opponents, weights)

    @property
    def bound(self) -> float:
        return 0.0 if self.current is None else self.current.bound

    def rows_bound(self, f: Any) -> float:
        return 0.0 if self.current is None else self.current.rows_bound(f)

    def __repr__(self) -> str:
        return f"AskedMargin({'nothing said yet' if self.current is None else self.current})"
