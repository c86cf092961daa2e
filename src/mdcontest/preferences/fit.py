"""fit_margin: comparisons → a margin, after Christiano et al. 2017.

1. Some comparisons are held out, whole pairs together. 2. The weight penalty is the one, of a few tried, that makes
them likeliest. 3. Each member is fitted to its own bootstrap sample of the rest. 4. Each is divided by the spread of
its margins, and they are averaged. 5. The average is stretched until σ(M) fits the held-out labels best, for the
margin of a pair is the logit of its choice (app. BT).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from mdcontest.arrays import Array, Ints, is_whole
from mdcontest.errors import InputError, did_you_mean
from mdcontest.preferences import networks
from mdcontest.preferences.batches import Table
from mdcontest.preferences.comparisons import Comparisons, Segments
from mdcontest.preferences.diagnosis import diagnose
from mdcontest.preferences.ensemble import Ensemble
from mdcontest.preferences.fitting import CHUNK, fit, log_likelihood, margins_of
from mdcontest.preferences.inputs import InputReader
from mdcontest.preferences.learned import Learned, margin_of
from mdcontest.progress import counting_bar

PENALTIES = (0.0, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
"""Weights of ‖weights‖²/2 that are tried."""
TUNED_ON = 20_000
"""Comparisons that are enough to choose the penalty on."""
SPREAD_PAIRS = 4000
"""Random pairs of outcomes over which a member's spread is measured."""
ROUNDING = 1e-12
"""Mean squares smaller than this share of a member's spread are none."""
ONE_PAIR = "all comparisons are of one pair: some other pairs are needed to hold out"
FEWEST = 10
"""Comparisons to fit a margin with, and pairs to be held out whole where equal segments are told by what they hold."""
FEWEST_LEFT = 5
"""Comparisons to fit it to, once the others are held out."""


@dataclass(frozen=True)
class FitSettings:
    """How to fit; the arguments of `fit_margin`."""

    model: str = "skew"
    """skew, reward or general: see `mdcontest.preferences.networks`."""
    members: int = 3
    held_out: float = 0.2
    """Share of the comparisons that nothing is fitted to."""
    penalty: float | None = None
    """Weight of ‖weights‖²/2; None tries several."""
    noise: float = 0.1
    """Share of labels taken for chance."""
    inputs: Sequence[str] | None = None
    """Fields of an outcome to read; None: obs, action and next_obs."""
    hidden: tuple[int, ...] = networks.HIDDEN
    rank: int = networks.RANK
    """Dimensions of φ."""
    updates: int | None = None
    """Steps of Adam a member; None: about 20 passes over the data (fewer of segments of more than 8 steps), at least
    1000 and at most 8000."""
    batch_size: int = 256
    """Comparisons that an update looks at; fewer of segments of more than 8 steps."""

    def __post_init__(self) -> None:
        if self.model not in networks.MODELS:
            raise InputError(
                f"there is no model {self.model!r}{did_you_mean(self.model, list(networks.MODELS), 'models')}"
            )
        for name in ("members", "rank", "batch_size", "updates"):
            value = getattr(self, name)
            if (name, value) == ("updates", None):
                continue
            if not (is_whole(value) and value >= 1):
                raise InputError(f"{name} must be a whole number, at least 1, got {value!r}")
            object.__setattr__(self, name, int(value))  # files hold no numbers of NumPy
        for name in ("held_out", "noise", "penalty"):
            value = getattr(self, name)
            if isinstance(value, bool) or not (
                isinstance(value, int | float | np.number) or (name, value) == ("penalty", None)
            ):
                raise InputError(f"{name} must be a number, got {value!r}")
        if not 0 < self.held_out < 1:
            raise InputError(f"held_out is a share between 0 and 1, got {self.held_out}")
        if not 0 <= self.noise < 1:
            raise InputError(f"noise is a share, at least 0 and below 1, got {self.noise}")
        if self.penalty is not None and not (self.penalty >= 0 and np.isfinite(self.penalty)):
            raise InputError(f"penalty must be a number, not negative, got {self.penalty}")
        if isinstance(self.inputs, str):
            object.__setattr__(self, "inputs", (self.inputs,))  # one field, not its letters
        sizes = self.hidden if isinstance(self.hidden, tuple | list) else ()
        if not sizes or not all(is_whole(size) and size >= 1 for size in sizes):
            raise InputError(f"hidden must be sizes of layers, each at least 1, got {self.hidden!r}")
        object.__setattr__(self, "hidden", type(sizes)(int(size) for size in sizes))

    def updates_for(self, comparisons: int) -> int:
        return self.updates or _whole_chunks(int(np.clip(20 * comparisons / self.batch_size, 1000, 8000)))


def fit_margin(comparisons: Any, *, seed: int = 0, progress: bool = False, **settings: Any) -> Learned:
    """A margin that explains comparisons, skew by construction; `settings` are those of `FitSettings`.

    `comparisons` are `Comparisons` or a `Dataset`. The margin's `.report` says what it is worth on held-out ones.
    """
    data = comparisons if isinstance(comparisons, Comparisons) else _of_dataset(comparisons)
    unknown = [name for name in settings if name not in FitSettings.__dataclass_fields__]
    if unknown:
        near = did_you_mean(unknown[0], list(FitSettings.__dataclass_fields__), "settings")
        raise InputError(f"fit_margin has no setting {unknown[0]!r}{near}")
    chosen = FitSettings(**settings)
    if not (is_whole(seed) and seed >= 0):
        raise InputError(f"seed must be a whole number, not negative, got {seed!r}")
    return _Fit(data, chosen, int(seed)).run(progress)


def _of_dataset(source: Any) -> Comparisons:
    if not hasattr(source, "comparisons"):
        raise InputError(f"comparisons must be Comparisons or a Dataset, got a {type(source).__name__}")
    found: Comparisons = source.comparisons()
    return found


class _Fit:
    """One call of fit_margin."""

    def __init__(self, data: Comparisons, settings: FitSettings, seed: int) -> None:
        self.settings, self.seed = settings, seed
        self.decided = data.decided()
        if len(self.decided) < FEWEST:
            raise InputError(
                f"{len(self.decided)} of {len(data)} comparisons say something, and {FEWEST} are the fewest to fit a "
                "margin to"
            )
        self.fitted_to, self.held_out = split(self.decided, settings.held_out, self._rng(0))
        if len(self.fitted_to) < FEWEST_LEFT:
            raise InputError(
                f"held_out = {settings.held_out:g} leaves {len(self.fitted_to)} of {len(self.decided)} comparisons to "
                f"fit a margin to, and {FEWEST_LEFT} are the fewest; hold a smaller share out, or compare more pairs"
            )
        self.incomparable = len(data) - len(self.decided)
        self.reader = InputReader.fitted(self.fitted_to.outcomes[self._rows()], settings.inputs)
        if not (self.reader.low < self.reader.high).any():
            read = ", ".join(field.name for field in self.reader.fields)
            raise InputError(f"the outcomes that are compared are all alike in what is read of them: {read}")
        self.few_pairs = few_pairs(self.decided, settings.held_out)
        if self.few_pairs == 1:
            raise InputError(ONE_PAIR)
        self.inputs = self.reader.read(data.outcomes)

    def _rng(self, *which: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *which])

    def _rows(self) -> Ints:
        """Outcomes of the comparisons it is fitted to, as rows of the table."""
        found = self.fitted_to.used()
        if not len(found):
            raise InputError("every comparison is about what comes after an episode's end: there is nothing to read")
        return found

    @property
    def ended_share(self) -> float:
        """How many of the steps it is fitted to are ⊥."""
        sides = (self.fitted_to.first, self.fitted_to.second)
        return float(sum(side.ended.sum() for side in sides) / sum(side.steps.sum() for side in sides))

    @property
    def knows_ended(self) -> bool:
        """Whether any comparison that it is fitted to shows ⊥."""
        return self.ended_share > 0

    def _table(self, data: Comparisons) -> Table:
        return Table.of_comparisons(self.inputs, data, self.settings.model == "general")

    def run(self, progress: bool) -> Learned:
        updates = self.settings.updates_for(len(self.fitted_to))
        trials = 0 if self.settings.penalty is not None else len(PENALTIES)
        total = trials * _trial_updates(updates) + self.settings.members * updates
        with counting_bar("fitting", total, progress) as self.advance:
            penalty, tried = self._choose_penalty(updates)
            members = tuple(self._member(k, penalty, updates) for k in range(self.settings.members))
        spread = np.array([self._spread(params) for params in members])
        ended = self.knows_ended
        plain = Ensemble(self.settings.model, self.reader, members, 1 / spread, self.settings.noise, ended)
        held_out = plain.table_margins(plain.table(self.held_out)).mean(axis=0)
        stretch = best_stretch(held_out, self.held_out.target, self.settings.noise)
        ensemble = Ensemble(self.settings.model, self.reader, members, stretch / spread, self.settings.noise, ended)
        report = diagnose(margin_of(ensemble, {}), self.fitted_to, self.held_out, self._rng(3))
        said = {"seed": self.seed, "incomparable": self.incomparable, "penalty": penalty, "penalties": tried}
        said |= {"few_pairs": self.few_pairs} if self.few_pairs else {}
        return margin_of(ensemble, said | {"updates": updates, "settings": _plain(self.settings)} | report)

    def _choose_penalty(self, updates: int) -> tuple[float, list[dict[str, float]]]:
        """The penalty under which a member makes the held-out comparisons likeliest, and what each achieved."""
        if self.settings.penalty is not None:
            return self.settings.penalty, []
        table, held_out = self._table(self.fitted_to[:TUNED_ON]), self._table(self.held_out[:TUNED_ON])
        tried = []
        for penalty in PENALTIES:
            params = self._fitted(table, penalty, _trial_updates(updates), 1, 2)
            found = margins_of(self.settings.model, params, held_out, self.knows_ended)
            likelihood = log_likelihood(found, held_out.target, self.settings.noise, np).mean()
            tried.append({"penalty": penalty, "log_likelihood": float(likelihood)})
        return max(tried, key=lambda one: one["log_likelihood"])["penalty"], tried

    def _member(self, k: int, penalty: float, updates: int) -> networks.Params:
        """Step 3: fitted to its own sample, drawn with replacement."""
        sample = self._rng(2, k, 0).integers(0, len(self.fitted_to), len(self.fitted_to))
        return self._centred(self._fitted(self._table(self.fitted_to[sample]), penalty, updates, 2, k, 2))

    def _centred(self, params: networks.Params) -> networks.Params:
        """The same margins with a mean reward of 0: comparisons leave its level open, and where none shows ⊥, of which
        a reward is measured from 0, chance would make living on good or bad."""
        if self.settings.model == "general":
            return params
        level = networks.network(params, self.inputs[self._rows()], np)[:, 0].mean()
        last = f"b{networks.layers(params) - 1}"
        first = np.arange(len(params[last])) == 0
        return params | {name: (params[name] - level * first).astype(np.float32) for name in (last, "ended")}

    def _fitted(self, table: Table, penalty: float, updates: int, *which: int) -> networks.Params:
        settings, rng = self.settings, self._rng(*which)
        params = networks.init(rng, settings.model, self.reader.size, settings.hidden, settings.rank)
        return fit(
            settings.model,
            params,
            table,
            knows_ended=self.knows_ended,
            penalty=penalty,
            noise=settings.noise,
            updates=updates,
            batch_size=settings.batch_size,
            rng=rng,
            report=self.advance,
        )

    def _spread(self, params: networks.Params) -> float:
        """Step 4: the root mean square of a member's margin between random steps of what it was fitted to.

        Where its margins between the segments that were compared are so small that n labels cannot tell them from
        none, they count as 1/√n: divided by its own spread, a member that found nothing would be as loud as the others.
        """
        rng, rows = self._rng(4), self._rows()
        one, other = (Segments.of_single(rng.choice(rows, SPREAD_PAIRS)) for _ in range(2))
        square, share = self._mean_square(params, one, other), self.ended_share
        if share > 0:
            beyond = Segments(other.start, np.zeros_like(other.length), np.ones_like(other.ended))
            square = (1 - share) ** 2 * square + 2 * share * (1 - share) * self._mean_square(params, one, beyond)
        seen, least = self._mean_square_compared(params, rng), 1 / len(self.fitted_to)
        if seen < least:
            square = max(square, least) if seen <= ROUNDING * square else square * least / seen
        return math.sqrt(square)

    def _mean_square_compared(self, params: networks.Params, rng: np.random.Generator) -> float:
        """Of a member's margins between the segments that were compared, or some: those with ⊥ may be few, anywhere."""
        few = rng.permutation(len(self.fitted_to))[: 4 * SPREAD_PAIRS]
        compared = self.fitted_to[few]
        return self._mean_square(params, compared.first, compared.second)

    def _mean_square(self, params: networks.Params, one: Segments, other: Segments) -> float:
        """Of a member's margins between segments."""
        pairs = Comparisons.of_segments(self.fitted_to.outcomes, one, other, np.zeros(len(one)))
        return float((margins_of(self.settings.model, params, self._table(pairs), self.knows_ended) ** 2).mean())


def _trial_updates(updates: int) -> int:
    return min(updates, _whole_chunks(max(500, updates // 4)))


def _whole_chunks(updates: int) -> int:
    """So many that nothing has to be compiled for a rest."""
    return -(-updates // CHUNK) * CHUNK


def split(data: Comparisons, share: float, rng: np.random.Generator) -> tuple[Comparisons, Comparisons]:
    """Two parts, all comparisons of the same pair of segments in the same one, whichever way round it was shown.

    Where equal segments stand at rows of their own and their pairs are few, each comparison is drawn for itself.
    """
    pair = data.pair_numbers
    if few_pairs(data, share):
        pair = np.arange(len(data))
    order = rng.permutation(int(pair.max()) + 1)
    number = min(max(1, round(share * len(order))), len(order) - 1)
    if number < 1:
        raise InputError(ONE_PAIR)
    held_out = np.isin(pair, order[:number])
    return data[np.flatnonzero(~held_out)], data[np.flatnonzero(held_out)]


def few_pairs(data: Comparisons, share: float) -> int:
    """How many pairs there are if each is compared twice or more, and they are too few to hold whole ones out; else 0.

    That is how a handful of known outcomes is compared: without one of three pairs nothing is known of it, and what is
    asked is how people answer about these, not what they would say about others.
    """
    if not data.by_content:
        return 0  # their pairs are told by rows, and are held out whole however few they are
    pairs = int(data.pair_numbers.max()) + 1
    return pairs if pairs <= len(data) / 2 and share * pairs < FEWEST else 0


def best_stretch(margin: Array, target: Array, noise: float) -> float:
    """Step 5: the factor a > 0 that makes the labels likeliest under a·M. Where it is above 1, ln a is a priori normal
    with deviation ln 10: a few answers that all agree with M would otherwise be likelier the larger a is."""

    def loss(log_factor: float) -> float:
        likelihood = float(log_likelihood(np.exp(log_factor) * margin, target, noise, np).sum())
        return (max(log_factor, 0.0) / np.log(10)) ** 2 / 2 - likelihood

    found = minimize_scalar(loss, bounds=(np.log(1e-2), np.log(1e2)), method="bounded")
    return float(np.exp(found.x))


def _plain(settings: FitSettings) -> dict[str, Any]:
    record = asdict(settings)
    return record | {
        "hidden": list(settings.hidden),
        "inputs": None if settings.inputs is None else list(settings.inputs),
    }
