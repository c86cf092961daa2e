"""Margins M(z, z') = −M(z', z), one family for finite contests and for tasks."""

from mdcontest.margins.base import Margin
from mdcontest.margins.function import Pairwise
from mdcontest.margins.pairwise import BestTwoOfThree, Dense
from mdcontest.margins.preference import FromPreference
from mdcontest.margins.reading import antisymmetrise
from mdcontest.margins.records import margin_from_record, margin_to_record
from mdcontest.margins.signs import Aggregated, Signs
from mdcontest.margins.structured import Classes, LowRank, RewardDifference

__all__ = [
    "Aggregated",
    "BestTwoOfThree",
    "Classes",
    "Dense",
    "FromPreference",
    "LowRank",
    "Margin",
    "Pairwise",
    "RewardDifference",
    "Signs",
    "antisymmetrise",
    "margin_from_record",
    "margin_to_record",
]
