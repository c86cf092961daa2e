"""Task: an environment plus a margin on its raw outcomes. Tasks know no algorithm."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike

from mdcontest.arrays import Array, is_whole
from mdcontest.contest import Contest
from mdcontest.errors import InputError
from mdcontest.interrupts import held
from mdcontest.margins import Margin, Pairwise, RewardDifference
from mdcontest.margins.reading import as_finite
from mdcontest.margins.sums import averaged
from mdcontest.outcomes import Outcomes
from mdcontest.tasks.checks import finite_number, require_comparing, require_group, require_pictured, require_text
from mdcontest.tasks.environments import limited, make_registered, quiet_mujoco, with_own_spaces
from mdcontest.tasks.faults import RAISED, one_line, told
from mdcontest.tasks.spaces import ActionReader, ObservationReader

EndedMargin = float | Callable[[Outcomes], Any]


def reward_difference() -> RewardDifference:
    """M_r(z, z') = r(z) − r(z') on the rewards an environment gives (eq. reward-express)."""
    return RewardDifference(_reward)


def _reward(z: Outcomes) -> Any:
    return z.reward


@dataclass(frozen=True)
class FiniteModel:
    """The exact contest behind an environment, and the observation of each of its states."""

    contest: Contest
    observations: Array
    """One flat observation a state, shape [S, d]."""


@dataclass(frozen=True)
class Task:
    """An environment and what is preferred in it: `Task(env, margin)`.

    >>> import mdcontest as mdc
    >>> upright = mdc.Task("CartPole-v1", lambda z, w: abs(w.obs[:, 2]) - abs(z.obs[:, 2]))
    """

    env: str | Callable[[], Any]
    """A Gymnasium id, or a function without arguments that makes an environment."""
    margin: Margin | Callable[[Any, Any], Any]
    """A margin whose features are a function of a batch of outcomes, or a function `fn(z, w)` of two equally long
    batches of outcomes that returns one number a pair. Outcomes have .obs .action .reward .next_obs .info, all raw."""
    ended: EndedMargin | None = None
    """M(z, ⊥), what an outcome is worth against an episode that has ended: one number for all, or a function of a batch
    of outcomes. None is what the margin says: r(z) for a reward difference, 0 for every other."""
    info_keys: Sequence[str] = ()
    """Entries of the step's info that the margin reads as z.info[key]; one number or array of a fixed shape each."""
    horizon: int | None = None
    """Steps after which an episode is cut off. None: as the environment is registered."""
    name: str = ""
    """What the task is called in files and tables."""
    env_settings: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments for `gymnasium.make`."""
    group: str = ""
    """The paper's group of tasks it belongs to, "suite" or "nt"; decides what the paper preset sets."""
    settings: Mapping[str, Any] | None = None
    """With what settings the registry made it, stored with every run so that loading finds the same task again; None
    for a task that the registry did not make."""
    recommended: Mapping[str, Any] = field(default_factory=dict)
    """Settings an agent uses on this task unless it is told others, or the paper's."""
    largest_reward: float | None = None
    """The most that a step can be worth where the margin is a reward difference; bounds a policy's gap from above."""
    class_names: Sequence[str] = ()
    """What the classes of a class margin are called, for pictures."""
    positions: Callable[[Outcomes], Array] | None = None
    """Where an outcome is in the plane, shape [B, 2], for pictures of what a policy does."""
    reach: float = 1.0
    """How far from the origin positions can lie."""
    model: Callable[[], FiniteModel] | None = None
    """The finite contest behind the environment, where there is one."""
    original: Task | None = None
    """The task with its own margin, where a learned one stands in its place here."""

    def __post_init__(self) -> None:
        if not (isinstance(self.env, str) or callable(self.env)):
            raise InputError(f"env must be a Gymnasium id or a function that makes one, got {type(self.env).__name__}")
        if not isinstance(self.margin, Margin):
            object.__setattr__(self, "margin", Pairwise(self.margin))
        require_comparing(self.margin)  # type: ignore[arg-type]
        if self.horizon is not None:
            if not (is_whole(self.horizon) and self.horizon >= 1):
                raise InputError(f"horizon must be a whole number of steps, at least 1, got {self.horizon!r}")
            object.__setattr__(self, "horizon", int(self.horizon))  # files hold no numbers of NumPy
        if not (self.ended is None or callable(self.ended)):
            ended = finite_number(self.ended, "ended", "a finite number or a function of outcomes")
            object.__setattr__(self, "ended", ended)
        if self.largest_reward is not None:
            object.__setattr__(self, "largest_reward", finite_number(self.largest_reward, "largest_reward"))
        if isinstance(self.info_keys, str):
            object.__setattr__(self, "info_keys", (self.info_keys,))  # one key, not its letters
        if not self.name:
            name = self.env if isinstance(self.env, str) else getattr(self.env, "__name__", "environment")
            object.__setattr__(self, "name", name)
        # What is looked at only when a run is over, or a picture is drawn, must not fail then.
        require_text(self.name, "name")
        require_group(self.group)
        require_pictured(self.class_names, self.positions, self.reach)

    @property
    def is_reward_difference(self) -> bool:
        """Whether the margin is a difference of rewards, so that the contest is a decision process."""
        return isinstance(self.margin, RewardDifference)

    @property
    def is_judged_by_return(self) -> bool:
        """Whether the task's own margin is r − r' of the rewards that the environment gives, in an ended episode too.

        Only then does a return say how good a policy is. A function of one's own could be any reward.
        """
        own = self.true
        return own.is_reward_difference and own.ended is None and own.margin.features is _reward  # type: ignore[union-attr]

    def with_margin(self, margin: Margin) -> Task:
        """The same environment with another margin in place of the task's own.

        What the task declares about its own margin goes with it: M(z, ⊥), the largest reward and the finite model.
        """
        own = self.true
        task = dataclasses.replace(self, margin=margin, original=own, ended=None, largest_reward=None, model=None)
        return task.as_registered() if self.is_registered else task

    def as_registered(self) -> Task:
        """This task, marked as what the registry makes of its name and settings."""
        object.__setattr__(self, "_is_registered", True)
        return self

    @property
    def is_registered(self) -> bool:
        """Whether the registry makes this task, all but the margin that `with_margin` put in place of its own.

        The mark is no field, so `dataclasses.replace` does not carry it over to a task that differs.
        """
        return self.__dict__.get("_is_registered", False)

    def is_same_world(self, other: Task) -> bool:
        """Whether episodes go the same way in both, whatever their margins: the same environment, or made alike."""
        if self.is_registered and other.is_registered and self.name == other.name:
            return self.settings == other.settings
        return (self.env, dict(self.env_settings)) == (other.env, dict(other.env_settings))

    @property
    def true(self) -> Task:
        """The task with its own margin, for judging what was trained on a learned one."""
        return self.original or self

    def require_reward(self) -> None:
        """An error where a learned margin stands in place of the task's own and is no reward."""
        if self.original is not None and not self.is_reward_difference:
            raise InputError(
                f"{self.name}: PPO learns from rewards, and the margin that was learned is none; fit a reward instead: "
                "mdcontest fit --model reward"
            )

    def reward(self, z: Outcomes) -> Array:
        """What PPO maximises, shape [B]: the environment's reward, or the learned one that stands in its place."""
        self.require_reward()
        return np.asarray(z.reward, float) if self.original is None else self.margin.rows(z)  # type: ignore[union-attr]

    @functools.cached_property
    def _handed_out(self) -> weakref.WeakValueDictionary[int, Any]:
        """Environments that the task's function has made, by their identity: one need not have a hash."""
        return weakref.WeakValueDictionary()

    def __getstate__(self) -> dict[str, Any]:
        """A copy has made no environments."""
        return {name: value for name, value in self.__dict__.items() if name != "_handed_out"}

    def make_env(self, horizon: int | None = None, render_mode: str | None = None) -> Any:
        """A new environment; `horizon` goes before the task's own, and that before the registered limit."""
        limit = self.horizon if horizon is None else horizon
        with held(), quiet_mujoco():  # a window library they load starts a Python to read a version
            if isinstance(self.env, str):
                return with_own_spaces(make_registered(self.env, limit, render_mode, self.env_settings))
            env = self._call_env(render_mode)
        if not isinstance(env, gymnasium.Env):
            raise InputError(f"{self.name} must make a gymnasium.Env, it made a {type(env).__name__}")
        if self._handed_out.get(id(env.unwrapped)) is env.unwrapped:
            raise InputError(
                f"{self.name}: the function has returned the same environment twice; several are played at once, so it "
                "must make a new one every time"
            )
        self._handed_out[id(env.unwrapped)] = env.unwrapped
        if render_mode is not None and env.render_mode != render_mode:
            raise InputError(
                f"{self.name} makes an environment with render_mode {env.render_mode!r}; "
                f"let the function that makes it take render_mode, or pass render_mode={render_mode!r} inside it"
            )
        return with_own_spaces(env if limit is None else limited(env, limit))

    @contextlib.contextmanager
    def closing(self, env: Any) -> Iterator[Any]:
        """An environment that is closed afterwards; what went wrong before that is told first."""
        try:
            yield env
        except BaseException:
            with contextlib.suppress(*RAISED):
                env.close()
            raise
        self.close_env(env)

    def close_env(self, env: Any) -> None:
        """Close an environment of this task, or say in words that it cannot be closed."""
        try:
            env.close()
        except RAISED as error:
            what = one_line(str(error))
            raise InputError(
                f"{self.name}: the environment raised {type(error).__name__} when it was closed: {what}"
            ) from error

    def _call_env(self, render_mode: str | None) -> Any:
        """The environment that the task's function makes; `render_mode` goes to functions that take one."""
        if self.env_settings:
            raise InputError(f"{self.name}: env_settings are for Gymnasium ids, not for functions")
        make: Any = self.env
        try:
            takes_mode = render_mode is not None and "render_mode" in inspect.signature(make).parameters
            return make(**{"render_mode": render_mode} if takes_mode else {})
        except InputError:
            raise
        except RAISED as error:
            raise InputError(f"cannot make the environment of {self.name}: {told(error)}") from error

    @functools.cached_property
    def spaces(self) -> tuple[ObservationReader, ActionReader]:
        """How observations and actions become vectors; an environment is made to find out."""
        with self.closing(self.make_env()) as env:
            return (
                ObservationReader(self._space_of(env, "observation_space")),
                ActionReader(self._space_of(env, "action_space")),
            )

    def _space_of(self, env: Any, name: str) -> gymnasium.Space[Any]:
        """A space of an environment, or an error that says where it belongs."""
        try:
            space = getattr(env, name)
        except RAISED as error:
            found = f"cannot say its {name} ({told(error)})"
        else:
            if isinstance(space, gymnasium.Space):
                return space
            found = f"has {space!r:.60} for its {name}"
        raise InputError(f"{self.name}: the environment {found}; set self.{name} to a space of Gymnasium in __init__")

    def has_spaces_of(self, other: Task) -> bool:
        """Whether a policy of one task can play the other."""
        (seen, done), (other_seen, other_done) = self.spaces, other.spaces
        return (seen.size, done.size, done.discrete) == (other_seen.size, other_done.size, other_done.discrete)

    def describe_spaces(self) -> str:
        """Observations and actions in a few words."""
        observations, actions = self.spaces
        acts = f"{actions.size} actions" if actions.discrete else f"actions of {actions.size} numbers"
        return f"observations of {observations.size} numbers and {acts}"

    def cumulant(self, z: Outcomes, opponents: Outcomes, weights: ArrayLike | None = None) -> Array:
        """c(z) = Σ_j w_j M(z, z_j), the mean over the opponents without weights."""
        return self.margin.against(z, opponents, weights)  # type: ignore[union-attr]

    def cumulant_beyond_ended(self, z: Outcomes, opponents: Outcomes, weights: ArrayLike | None = None) -> Array:
        """c̃(z) = c(z) − c(⊥): the cumulant measured from that of an episode that has ended."""
        if self.ended is None:
            return self.margin.against_beyond_ended(z, opponents, weights)  # type: ignore[union-attr]
        return self.cumulant(z, opponents, weights) + averaged(self.over_ended(opponents), weights)

    def over_ended(self, z: Outcomes) -> Array:
        """M(z, ⊥) as this task says it, or else its margin, shape [len(z)]."""
        if self.ended is None:
            return self.margin.over_ended(z)  # type: ignore[union-attr]
        if not callable(self.ended):
            return np.full(len(z), float(self.ended))
        try:
            found = self.ended(z)
        except (InputError, MemoryError):
            raise
        except RAISED as error:  # somebody's own function
            raise InputError(f"ended raised {told(error)}") from error
        values = as_finite(found, "the margin over an ended episode")
        if values.shape != (len(z),):
            raise InputError(f"ended must return one number an outcome, shape ({len(z)},), got {values.shape}")
        return values

    def finite_model(self) -> FiniteModel:
        """The exact contest and its observations, or an error for tasks without one, or with one of something else."""
        model, (seen, done) = self._made_model(), self.spaces
        shape, wanted = np.shape(model.observations), (model.contest.num_states, seen.size)
        if shape != wanted:
            raise InputError(
                f"{self.name}: the finite model has observations of shape {shape}, and its {wanted[0]} states need one "
                f"flat observation each of the environment's {wanted[1]} numbers, shape {wanted}"
            )
        if not done.discrete or model.contest.num_actions != done.size:
            raise InputError(
                f"{self.name}: the finite model has {model.contest.num_actions} actions, and the environment has "
                f"{self.describe_spaces()}; the two must have the same"
            )
        return model

    def contest(self) -> Contest:
        """The finite contest this task is, for tasks that have one; no environment is made for it."""
        return self._made_model().contest

    def _made_model(self) -> FiniteModel:
        if self.model is None:
            raise InputError(f"{self.name} has no finite model; tasks that have one pass model= to Task")
        made = self.model()
        if not (isinstance(made, FiniteModel) and isinstance(made.contest, Contest)):
            raise InputError(
                f"{self.name}: model must return a FiniteModel(contest, observations), got a {type(made).__name__}"
            )
        return made

    def __repr__(self) -> str:
        return f"Task({self.name}, {type(self.margin).__name__})"
