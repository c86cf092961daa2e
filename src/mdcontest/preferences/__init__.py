"""Preferences that are learned, and people who give them: comparisons → ensemble → a margin."""

from mdcontest.preferences.comparisons import Comparisons, Segments

__all__ = ["Comparisons", "Segments"]
