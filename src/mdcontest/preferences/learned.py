"""Learned margins: what `fit_margin` returns. Each is a Margin like any other, and knows how sure it is.

Against a batch of B opponents a `LearnedMargin` costs O(B·d): the mean of φ(z)ᵀJφ(z_j) over j is φ(z)ᵀJ times the mean
of φ. A `LearnedReward` is a reward difference: a contest with it is a decision process, and PPO can be trained on it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mdcontest.arrays import Array
from mdcontest.errors import InputError
from mdcontest.margins import Margin, RewardDifference
from mdcontest.margins.pairwise import SymmetricBlocks
from mdcontest.margins.sums import averaged, blocks
from mdcontest.outcomes import Outcomes
from mdcontest.preferences.comparisons import Comparisons, Segments
from mdcontest.preferences.ensemble import Ensemble
from mdcontest.preferences.fitting import choice_probability
from mdcontest.preferences.networks import between_inputs


class Learned(Margin):
    """What all learned margins offer beside being margins."""

    ensemble: Ensemble
    report: Mapping[str, Any]
    """What was measured when it was fitted: see `mdcontest.preferences.diagnosis`."""

    def segment_margins(self, outcomes: Outcomes | Array, first: Segments, second: Segments) -> Array:
        """M of pairs of segments of a table of outcomes, shape [n]: the mean over their cross pairs."""
        return self.ensemble.segment_margins(outcomes, first, second).mean(axis=0)

    def disagreement(self, outcomes: Outcomes | Array, first: Segments, second: Segments) -> Array:
        """How far the members are apart about pairs of segments, shape [n]: the deviation of their probabilities."""
        found = self.ensemble.segment_margins(outcomes, first, second)
        return choice_probability(found, 0.0, np).std(axis=0)

    def uncertainty(self, z: Outcomes | Array, w: Outcomes | Array) -> Array:
        """The members' disagreement about M(zᵢ, wᵢ), for two equally long batches, shape [B]."""
        pairs = Comparisons(z, w, np.zeros(len(z)))
        return self.disagreement(pairs.outcomes, pairs.first, pairs.second)

    def probability(self, z: Outcomes | Array, w: Outcomes | Array) -> Array:
        """P(zᵢ ≻ wᵢ) = σ(M(zᵢ, wᵢ)), for two equally long batches, shape [B]."""
        pairs = Comparisons(z, w, np.zeros(len(z)))
        return choice_probability(self.segment_margins(pairs.outcomes, pairs.first, pairs.second), 0.0, np)

    def extrapolates(self, z: Outcomes | Array) -> Array:
        """How far each outcome lies outside the data it was fitted to, in deviations of the worst input, shape [B]."""
        return self.ensemble.reader.beyond(z).max(axis=1)

    @functools.cached_property
    def digest(self) -> str:
        """Tells learned margins apart by what they compute."""
        from mdcontest.preferences.margin_files import margin_digest

        return margin_digest(self)

    def save(self, folder: str | Path) -> None:
        """Write it to a folder; `load_margin` reads it."""
        from mdcontest.preferences.margin_files import save_margin

        save_margin(self, folder)

    def _keep(self, ensemble: Ensemble, report: Mapping[str, Any]) -> None:
        self.ensemble, self.report = ensemble, report

    def __repr__(self) -> str:
        inputs = len(self.ensemble.reader.names())
        return f"{type(self).__name__}({len(self.ensemble.members)} members of {inputs} inputs)"


class LearnedMargin(Learned):
    """M(z, z') = r(z) − r(z') + φ(z)ᵀJφ(z'), the ensemble's mean: O(n·d)."""

    kind: ClassVar[str] = "learned"

    def __init__(self, ensemble: Ensemble, report: Mapping[str, Any]) -> None:
        self._keep(ensemble, report)
        self.J = ensemble.skew()
        self._hold(self._stacked)

    def _stacked(self, z: Any) -> Array:
        return self.ensemble.stacked(self.ensemble.features(z))

    def kernel(self, f: Array, g: Array) -> Array:
        return f[:, :1] - g[:, 0] + f[:, 1:] @ self.J @ g[:, 1:].T

    def kernel_between(self, f: Array, g: Array) -> Array:
        return f[:, 0] - g[:, 0] + np.einsum("nd,nd->n", f[:, 1:] @ self.J, g[:, 1:])

    def kernel_against(self, f: Array, g: Array, weights: Array) -> Array:
        mean = weights @ g
        return f[:, 0] * weights.sum() - mean[0] + f[:, 1:] @ (self.J @ mean[1:])

    def over_ended(self, z: Any) -> Array:
        """M(z, ⊥), as far as comparisons told; otherwise 0."""
        if not self.ensemble.knows_ended:
            return np.zeros(len(z))
        return self.kernel(self.rows(z), self.ensemble.stacked_ended()[None])[:, 0]

    def against_beyond_ended(self, z: Any, opponents: Any, weights: Any = None) -> Array:
        """c(z) − c(⊥), with the opponents' features computed once."""
        if not self.ensemble.knows_ended:
            return self.against(z, opponents, weights)
        f = self.rows(z)
        g = f if opponents is z else self.rows(opponents)
        w = np.full(len(g), 1 / len(g)) if weights is None else np.asarray(weights, float).reshape(-1)
        if len(w) != len(g):
            raise InputError(f"{len(g)} opponents need {len(g)} weights, got {len(w)}")
        return self.kernel_against(f, g, w) + averaged(self.kernel(g, self.ensemble.stacked_ended()[None])[:, 0], w)

    def rows_bound(self, f: Array) -> float:
        """|r − r'| + ‖Jᵀφ‖·‖φ'‖."""
        lengths = np.linalg.norm(f[:, 1:] @ self.J, axis=1).max() * np.linalg.norm(f[:, 1:], axis=1).max()
        return float(np.ptp(f[:, 0]) + lengths)


class LearnedReward(Learned, RewardDifference):
    """M(z, z') = r(z) − r(z'), the ensemble's mean. r is measured from that of ⊥ where comparisons showed it."""

    kind: ClassVar[str] = "learned_reward"

    def __init__(self, ensemble: Ensemble, report: Mapping[str, Any]) -> None:
        self._keep(ensemble, report)
        self._level = float(ensemble.stacked_ended()[0]) if ensemble.knows_ended else 0.0
        self._hold(self.learned_reward)

    def learned_reward(self, z: Any) -> Array:
        """r(z), shape [B]."""
        return self.ensemble.stacked(self.ensemble.features(z))[:, 0] - self._level


class LearnedPairwise(Learned, SymmetricBlocks):
    """M(z, z') = f(z, z') − f(z', z), the ensemble's mean: any skew function, at one network pass a pair."""

    kind: ClassVar[str] = "learned_pairwise"

    def __init__(self, ensemble: Ensemble, report: Mapping[str, Any]) -> None:
        self._keep(ensemble, report)
        self._hold(ensemble.reader.read)

    def block_pairs(self, f: Any) -> int:
        return max(1, 4_000_000 // max(self.ensemble.members[0]["w0"].shape[1] + 2 * f.shape[1], 1))

    def kernel(self, f: Any, g: Any) -> Array:
        i, j = np.divmod(np.arange(len(f) * len(g)), len(g))
        return self.kernel_between(f[i], g[j]).reshape(len(f), len(g))

    def kernel_between(self, f: Any, g: Any) -> Array:
        pairs = zip(self.ensemble.weights, self.ensemble.members, strict=True)
        return np.sum([w * between_inputs(params, f, g, np).astype(float) for w, params in pairs], axis=0)

    def over_ended(self, z: Any) -> Array:
        """M(z, ⊥), as far as comparisons told; otherwise 0."""
        x = self.rows(z)
        if not self.ensemble.knows_ended:
            return np.zeros(len(x))
        pairs = zip(self.ensemble.weights, self.ensemble.members, strict=True)
        beyond = [w * between_inputs(p, x, np.broadcast_to(p["ended"], x.shape), np).astype(float) for w, p in pairs]
        return np.sum(beyond, axis=0)

    def rows_bound(self, f: Any) -> float:
        return max(float(np.abs(self.kernel(f[rows], f)).max()) for rows in blocks(len(f), len(f), self.block_pairs(f)))

    def known_bound(self) -> float:
        return 0.0  # it costs a network pass a pair


KINDS: dict[str, type[Any]] = {"skew": LearnedMargin, "reward": LearnedReward, "general": LearnedPairwise}


def margin_of(ensemble: Ensemble, report: Mapping[str, Any]) -> Learned:
    """The margin of an ensemble, by its model."""
    made: Learned = KINDS[ensemble.model](ensemble, report)
    return made
