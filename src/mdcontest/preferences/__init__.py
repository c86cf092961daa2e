"""Preferences that are learned, and people who give them: comparisons → ensemble → a margin."""

from typing import TYPE_CHECKING, Any

from mdcontest.preferences.comparisons import Comparisons, Segments
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.learned import Learned, LearnedMargin, LearnedPairwise, LearnedReward
from mdcontest.preferences.margin_files import load_margin
from mdcontest.preferences.references import Comparison, Segment
from mdcontest.preferences.trajectories import Trajectory

if TYPE_CHECKING:
    from mdcontest.preferences.fit import FitSettings, fit_margin


def __getattr__(name: str) -> Any:
    """Fitting imports JAX, a second that the labelling page and its filming process do without."""
    if name not in ("FitSettings", "fit_margin"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mdcontest.preferences import fit

    return getattr(fit, name)


__all__ = [
    "Comparison",
    "Comparisons",
    "Dataset",
    "FitSettings",
    "Learned",
    "LearnedMargin",
    "LearnedPairwise",
    "LearnedReward",
    "Segment",
    "Segments",
    "Trajectory",
    "fit_margin",
    "load_margin",
]
