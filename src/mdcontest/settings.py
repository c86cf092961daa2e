"""Every setting of a training run, with what the paper did: one definition for Python, command line and record."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any

from mdcontest.arrays import is_whole
from mdcontest.errors import InputError, did_you_mean

BASE = "not said; the same in the PPO it builds on"
WHOLE = 0
"""A comparison horizon of 0 stands for the whole trajectory."""


def setting(default: Any, help: str, paper: str = "the same", choices: tuple[str, ...] = ()) -> Any:
    """A field with its explanation and what the paper did."""
    return field(default=default, metadata={"help": help, "paper": paper, "choices": choices})


@dataclass(frozen=True)
class Settings:
    """How to train. The defaults are the tables of the paper, and our reading of it where it leaves room."""

    num_steps: int = setting(2048, "steps of each environment between two updates of the policy")
    num_envs: int = setting(1, "environments stepped by one learner; a batch has num_steps × num_envs outcomes", "1")
    epochs: int = setting(10, "passes over the batch in an update")
    minibatches: int = setting(32, "minibatches a pass; must divide the batch")
    learning_rate: float = setting(3e-4, "step size of Adam")
    anneal: bool = setting(True, "lower the learning rate to zero over each call of learn")
    adam_epsilon: float = setting(1e-5, "Adam's epsilon")
    max_grad_norm: float = setting(0.5, "norm to which the joint gradient is clipped")
    hidden: tuple[int, ...] = setting((64, 64), "sizes of the tanh layers, in the policy and in the critic")
    gamma: float = setting(0.99, "discount of the critic and of the cumulant's scale")
    gae_lambda: float = setting(0.95, "λ of generalised advantage estimation")
    clip: float = setting(0.2, "clip ε of the clipped surrogate and of the value loss")
    eta: float = setting(1.5, "η of the hedge surrogate, on normalised advantages")
    hedge: str = setting(
        "corrected",
        "hedge surrogate: corrected has its optimum at e^{ηA}, printed at e^{ηA−1}",
        "printed",
        ("corrected", "printed"),
    )
    entropy: float = setting(0.0, "weight of the entropy bonus")
    value_coefficient: float = setting(0.5, "weight of the value loss")
    clip_value_loss: bool = setting(True, "clip the value loss like the policy's", BASE)
    normalise_advantages: bool = setting(True, "to mean 0 and deviation 1 within each minibatch", BASE)
    normalise_observations: bool = setting(
        True, "by running mean and deviation, clipped to ±10; part of the policy", BASE
    )
    normalise_cumulant: bool = setting(True, "divide by the deviation of its running discounted sum, clip to ±10", BASE)
    opponents: str = setting(
        "batch",
        "whom an outcome is compared with: batch, all outcomes of the current policy; queue, samples of the one before",
        "queue",
        ("batch", "queue"),
    )
    queue_size: int = setting(100, "outcomes in the queue", "100; 10 for Reacher-NT and Walker2d-NT")
    first_iterate: int = setting(
        0, "outcomes of the first policy compared with beside the queue", "100; not said for the NT tasks"
    )
    comparison_horizon: int = setting(
        1,
        "T_C, steps over which the cumulant is averaged; 0 is the whole trajectory (SPPO's default)",
        "1; SPPO the whole trajectory",
    )
    across_episodes: bool = setting(False, "let those averages run across the ends of episodes", "not said")
    termination: str = setting(
        "ended",
        "ended: the cumulant is measured from that of an ended episode, c̃ = c − c(⊥); paper: it is c itself",
        "paper",
        ("ended", "paper"),
    )
    truncation: str = setting(
        "bootstrap",
        "value of the state in which an episode is cut off: bootstrap, the critic's; zero, none",
        "zero",
        ("bootstrap", "zero"),
    )
    horizon: int | None = setting(None, "steps after which an episode is cut off; none: the task's own limit", "2048")
    critic: str = setting(
        "discounted", "discounted by γ, or average: differential values, γ = 1", choices=("discounted", "average")
    )
    average_rate: float = setting(0.1, "step size of the average critic's running means", "no such critic")
    average_pull: float = setting(0.1, "how strongly the average critic is pulled to mean value 0", "no such critic")
    returned: str = setting(
        "auto",
        "the policy that predict uses: last; mixture of the stored iterates; cloned from their outcomes; auto: "
        "last for a reward difference and for PPO, else mixture",
        "last; cloned for HPI and HPI-Clip on the NT tasks",
        ("auto", "last", "mixture", "cloned"),
    )
    cloning_epochs: int = setting(20, "n_BC, passes over the buffer when cloning")
    cloning_learning_rate: float = setting(1e-2, "Adam's step size when cloning")
    cloning_minibatches: int = setting(32, "minibatches a pass when cloning")
    cloning_max_grad_norm: float = setting(1.0, "norm to which gradients are clipped when cloning")

    def __post_init__(self) -> None:
        for item in fields(self):
            object.__setattr__(self, item.name, _typed(item, getattr(self, item.name)))
        _require(
            self.batch_size % self.minibatches == 0,
            "minibatches",
            self.minibatches,
            f"must divide the batch of {self.batch_size} outcomes (num_steps × num_envs)",
        )
        alone = self.normalise_advantages and self.batch_size == self.minibatches
        _require(not alone, "minibatches", self.minibatches, "leaves one outcome each, which cannot be normalised")

    @property
    def batch_size(self) -> int:
        """Outcomes an iteration."""
        return self.num_steps * self.num_envs

    @property
    def minibatch_size(self) -> int:
        return self.batch_size // self.minibatches

    def replace(self, **changes: Any) -> Settings:
        """These settings with some changed; an unknown name is an error that lists the nearest."""
        return make_settings(changes, self)

    def record(self) -> dict[str, Any]:
        """As plain values for files."""
        return dataclasses.asdict(self) | {"hidden": list(self.hidden)}


POSITIVE = {
    "num_steps", "num_envs", "epochs", "minibatches", "learning_rate", "adam_epsilon", "max_grad_norm", "clip", "eta",
    "queue_size", "horizon", "cloning_epochs", "cloning_learning_rate", "cloning_minibatches", "cloning_max_grad_norm",
}  # fmt: skip
"""Settings that must be above zero; the other numbers may be zero."""
NUMBER: Any = Real
"""Python's and NumPy's."""
LARGEST = 1e15
"""Numbers from here on are mistakes; infinity and NaN are not below it."""
SHARES = {"gamma", "gae_lambda", "average_rate", "average_pull"}
"""Settings between zero and one."""


def _typed(item: dataclasses.Field[Any], value: Any) -> Any:
    """The value checked against the type and range of its field."""
    name, default, choices = item.name, item.default, item.metadata["choices"]
    if name == "hidden":
        sizes = tuple(value) if isinstance(value, list | tuple) else (None,)
        whole = all(is_whole(size) and size > 0 for size in sizes)
        _require(whole, name, value, "must be a list of positive layer sizes")
        return tuple(int(size) for size in sizes)
    if value is None and name == "horizon":
        return None
    if choices:
        known = isinstance(value, str) and value in choices
        _require(known, name, repr(value), f"must be one of {', '.join(choices)}")
        return value
    if isinstance(default, bool):
        _require(isinstance(value, bool), name, repr(value), "must be true or false")
        return value
    whole = isinstance(default, int) or name == "horizon"
    numeric = isinstance(value, NUMBER) and not isinstance(value, bool) and math.isfinite(value)
    small = numeric and abs(value) < LARGEST
    _require(small or not numeric, name, repr(value), f"is too large; it must be below {LARGEST:g}")
    _require(numeric and not (whole and value != int(value)), name, repr(value), f"must be a {'whole ' * whole}number")
    _require(value >= 0 and (value > 0 or name not in POSITIVE), name, value, "is too small")
    _require(name not in SHARES or value <= 1, name, value, "must lie between 0 and 1")
    return int(value) if whole else float(value)


def _require(holds: bool, name: str, value: Any, why: str) -> None:
    if not holds:
        raise InputError(f"setting {name} = {value} {why}")


def make_settings(changes: Mapping[str, Any], base: Settings | None = None) -> Settings:
    """Settings from a mapping, e.g. of a file or of keyword arguments."""
    known = [item.name for item in fields(Settings)]
    for name in changes:
        if name not in known:
            raise InputError(f"there is no setting {name!r}{did_you_mean(name, known, 'settings')}")
    return dataclasses.replace(base or Settings(), **changes)


def paper_settings(algorithm: str, group: str) -> dict[str, Any]:
    """What the paper ran `algorithm` with on a task of `group` (suite or nt), where that is not a default here."""
    nontransitive = group == "nt"
    cloned = nontransitive and algorithm in ("hpi", "hpi-clip")
    return {
        "opponents": "queue",
        "queue_size": 10 if nontransitive else 100,
        "first_iterate": 0 if nontransitive else 100,
        "termination": "paper",
        "truncation": "zero",
        "horizon": 2048,
        "hedge": "printed",
        "comparison_horizon": WHOLE if algorithm == "sppo" else 1,
        "returned": "cloned" if cloned else "last",
    }


# --- names and numbers as people type them ----------------------------------------------------------------

ALGORITHM_NAMES = ("hpi-clip", "hpi", "sppo", "ppo")
MOST_SEEDS = 10_000
LARGEST_SEED = 2**63 - 1
"""What a table can hold."""


def algorithm_name(text: str) -> str:
    """HPIClip, hpi_clip and hpi-clip are the same; what is none of them comes back as it is."""
    plain = {name.replace("-", ""): name for name in ALGORITHM_NAMES}
    return plain.get(text.lower().replace("_", "").replace("-", ""), text)


def read_seeds(value: Any) -> list[int]:
    """0-9, 0,2,5 or 3, or several of those with commas or in a list; in the order given, none twice."""
    parts = value if isinstance(value, list | tuple) else [value]
    found: list[int] = []
    try:
        for part in (text for entry in parts for text in str(entry).split(",")):
            low, _, high = part.partition("-")
            first, last = int(low), int(high or low)
            if not 0 <= last - first < MOST_SEEDS or first < 0 or last > LARGEST_SEED:
                raise ValueError
            found.extend(range(first, last + 1))
    except ValueError:
        raise InputError(f"{value!r} are no seeds; write 0-9 or 0,2,5") from None
    return list(dict.fromkeys(found))
