"""Preferences that are learned, and people who give them: comparisons → ensemble → a margin."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from mdcontest.preferences.comparisons import Comparisons, Segments
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.references import Comparison, Segment
from mdcontest.preferences.trajectories import Trajectory

if TYPE_CHECKING:
    from mdcontest.preferences.fit import FitSettings, fit_margin
    from mdcontest.preferences.learned import Learned, LearnedMargin, LearnedPairwise, LearnedReward
    from mdcontest.preferences.margin_files import load_margin

_FITTED = {"FitSettings": "fit", "fit_margin": "fit", "load_margin": "margin_files"}
_FITTED |= dict.fromkeys(("Learned", "LearnedMargin", "LearnedPairwise", "LearnedReward"), "learned")
"""Names that need JAX: a second of importing that the labelling page and its filming process do without."""


def __getattr__(name: str) -> Any:
    if name not in _FITTED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import_module(f"{__name__}.{_FITTED[name]}"), name)


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
