"""How good a policy is: brackets of its optimality gap from samples, and the exact gap where there is a model."""

from mdcontest.gap.bracket import GapBracket, Measured
from mdcontest.gap.estimate import estimate_gap

__all__ = ["GapBracket", "Measured", "estimate_gap"]
