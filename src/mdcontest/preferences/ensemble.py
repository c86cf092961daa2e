"""Several fitted models as one: each divided by its own spread, then averaged. Where they differ, nobody knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdcontest.arrays import Array
from mdcontest.outcomes import Outcomes
from mdcontest.preferences.batches import Table
from mdcontest.preferences.comparisons import Comparisons, Segments
from mdcontest.preferences.fitting import margins_of
from mdcontest.preferences.inputs import InputReader
from mdcontest.preferences.networks import Params, network, skew_matrix


@dataclass(frozen=True)
class Ensemble:
    """Members of one model over the same inputs. M = Σ_k scale_k M_k / K, in units of a logit."""

    model: str
    reader: InputReader
    members: tuple[Params, ...]
    scales: Array
    """What each member is multiplied by, shape [K]: one over its spread, times what makes σ(M) fit the labels."""
    noise: float
    """Share of labels taken for chance."""
    knows_ended: bool
    """Whether any comparison showed what comes after an episode's end."""

    @property
    def weights(self) -> Array:
        """scale_k / K."""
        return self.scales / len(self.members)

    def features(self, z: Outcomes | Array) -> list[NDArray[np.float32]]:
        """h(z) of every member, [B, outputs] each; not for the general model."""
        x = self.reader.read(z)
        return [network(params, x, np) for params in self.members]

    def stacked(self, features: list[NDArray[np.float32]]) -> Array:
        """What the averaged margin needs of h: its reward and every member's φ side by side, [B, 1 + K·rank]."""
        reward = sum(w * h[..., :1].astype(float) for w, h in zip(self.weights, features, strict=True))
        return np.concatenate([reward, *(h[..., 1:].astype(float) for h in features)], axis=-1)

    def stacked_ended(self) -> Array:
        """The same of ⊥, shape [1 + K·rank]."""
        return self.stacked([params["ended"] for params in self.members])

    def skew(self) -> Array:
        """The block-diagonal J of the stacked φ, shape [K·rank, K·rank]."""
        blocks = [w * skew_matrix(params) for w, params in zip(self.weights, self.members, strict=True)]
        size = sum(len(block) for block in blocks)
        J, first = np.zeros((size, size)), 0
        for block in blocks:
            J[first : first + len(block), first : first + len(block)] = block
            first += len(block)
        return J

    def segment_margins(self, outcomes: Outcomes | Array, first: Segments, second: Segments) -> Array:
        """scale_k M_k of pairs of segments of a table of outcomes, shape [K, n]."""
        data = Comparisons.of_segments(outcomes, first, second, np.zeros(len(first)))
        return self.table_margins(self.table(data))

    def table(self, data: Comparisons) -> Table:
        """Comparisons as the members read them."""
        inputs = self.reader.read(data.outcomes)
        return Table.of_comparisons(inputs, data, self.model == "general")

    def table_margins(self, table: Table) -> Array:
        """scale_k M_k of the comparisons of a table, shape [K, n]."""
        found = [margins_of(self.model, params, table, self.knows_ended) for params in self.members]
        return self.scales[:, None] * np.array(found)

    def record(self) -> dict[str, Any]:
        """Everything but the members' parameters, for a file."""
        reader = self.reader
        return {
            "model": self.model,
            "noise": float(self.noise),
            "knows_ended": self.knows_ended,
            "scales": self.scales.tolist(),
            "fields": [{"name": f.name, "size": f.size, "categories": f.categories} for f in reader.fields],
            "inputs": {name: getattr(reader, name).tolist() for name in ("mean", "deviation", "low", "high")},
            "quantiles": None if reader.quantiles is None else reader.quantiles.T.tolist(),
        }
