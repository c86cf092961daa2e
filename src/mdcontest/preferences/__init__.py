"""Preferences that are learned, and people who give them: comparisons → ensemble → a margin."""

from mdcontest.preferences.comparisons import Comparisons, Segments
from mdcontest.preferences.fit import FitSettings, fit_margin
from mdcontest.preferences.learned import Learned, LearnedMargin, LearnedPairwise, LearnedReward
from mdcontest.preferences.margin_files import load_margin

__all__ = [
    "Comparisons",
    "FitSettings",
    "Learned",
    "LearnedMargin",
    "LearnedPairwise",
    "LearnedReward",
    "Segments",
    "fit_margin",
    "load_margin",
]
