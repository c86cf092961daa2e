"""How far the members of a learned margin are apart, against how far an outcome lies from what they were fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from mdcontest.arrays import Array, Ints
from mdcontest.preferences.fitting import choice_probability
from mdcontest.preferences.learned import Learned
from mdcontest.preferences.networks import Params, between_inputs, between_means, network
from mdcontest.report.preference_views import View, some_rows

FAR = (1.0, 1.5, 2.0, 3.0)
"""How far held-out outcomes are pushed away from the data's mean, to see whether the members notice."""
FAR_OUTCOMES, FAR_OPPONENTS = 250, 40


@dataclass(frozen=True)
class DistanceView:
    """Held-out outcomes, as they are and pushed away from the data: how far they lie, how far members are apart."""

    distance: list[Array]
    """To the nearest outcome it was fitted to, in deviations an input; one array for each factor of FAR."""
    disagreement: list[Array]


def distance_view(view: View) -> DistanceView | None:
    """Disagreement against distance; None for a single member, who has nobody to disagree with."""
    ensemble = view.margin.ensemble
    if len(ensemble.members) < 2:
        return None
    held_out = ensemble.reader.read(view.data.outcomes[some_rows(view.rows, FAR_OUTCOMES, seed=4)])
    fitted = ensemble.reader.read(view.data.outcomes[some_rows(view.fitted_rows, 20_000, seed=5)])
    nearest = cKDTree(fitted)
    distances, disagreements = [], []
    for factor in FAR:
        pushed = (held_out * np.float32(factor)).astype(np.float32)
        distances.append(nearest.query(pushed)[0] / np.sqrt(pushed.shape[1]))
        disagreements.append(_disagreement(view.margin, pushed, held_out))
    return DistanceView(distances, disagreements)


def _disagreement(margin: Learned, pushed: Any, opponents: Any) -> Array:
    """Of each input with all opponents, on average, shape [B]."""
    count, others = len(pushed), min(len(opponents), FAR_OPPONENTS)
    i, j = np.divmod(np.arange(count * others), others)
    found = np.array([_between(margin, params, pushed, opponents[:others], i, j) for params in margin.ensemble.members])
    probability = choice_probability(margin.ensemble.scales[:, None] * found, 0.0, np)
    deviation: Array = probability.std(axis=0)
    return deviation.reshape(count, others).mean(axis=1)


def _between(margin: Learned, params: Params, x: Any, y: Any, i: Ints, j: Ints) -> Any:
    """One member's M between inputs xᵢ and yⱼ, which no outcome need have."""
    if margin.ensemble.model == "general":
        return between_inputs(params, x[i], y[j], np)
    return between_means(params, network(params, x, np)[i], network(params, y, np)[j])
