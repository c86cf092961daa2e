"""Whom the outcomes of an iteration are compared with: the whole batch, or a queue of samples of the policy before.

The paper's algorithms say the batch, its hyperparameters a queue "plus samples of the first iterate"; both are here.
A sample is one outcome.
"""

from __future__ import annotations

import numpy as np

from mdcontest.outcomes import Outcomes, concatenate
from mdcontest.settings import Settings

FIRST_SAMPLES = 100
"""Outcomes of the first policy that are kept to say how far a run has come."""


class Opponents:
    """The opponents of an iteration, and the samples of the first policy."""

    def __init__(self, settings: Settings, rng: np.random.Generator) -> None:
        self.settings, self.rng = settings, rng
        self.queue: Outcomes | None = None
        self.first: Outcomes | None = None

    def meet(self, batch: Outcomes) -> Outcomes:
        """Opponents of this batch; the queue then holds samples of it for the next one."""
        if self.first is None:
            self.first = self._sample(batch, max(self.settings.first_iterate, FIRST_SAMPLES))
        if self.settings.opponents == "batch":
            return batch
        before = self.queue if self.queue is not None else self._sample(batch, self.settings.queue_size)
        self.queue = self._sample(batch, self.settings.queue_size)
        anchors = self.first[: self.settings.first_iterate]
        return concatenate([before, anchors]) if len(anchors) else before

    def _sample(self, batch: Outcomes, size: int) -> Outcomes:
        return batch[self.rng.choice(len(batch), size=min(size, len(batch)), replace=False)]
