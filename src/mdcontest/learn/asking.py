"""Preferences asked for while a policy trains: `mdcontest train TASK --margin ask`.

The run films its policy now and then, people compare the clips on the labelling page, and a margin is fitted to what
they have said; training goes on all the while and takes up each new margin when it is there. Nothing waits for a
person: without answers the last margin stays, and before the first one every outcome is as good as every other.

RUN/preferences/      the dataset: episodes of the run's policies, and what was said about them
RUN/margin/           the newest margin that was fitted to it
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from mdcontest.errors import InputError, did_you_mean
from mdcontest.interrupts import asked as stop_asked
from mdcontest.learn.agent import Agent
from mdcontest.learn.collect import Episode, play
from mdcontest.learn.logs import Progress
from mdcontest.learn.margins import MARGIN
from mdcontest.preferences.asked import AskedMargin
from mdcontest.preferences.dataset import OF_A_RUN, Dataset
from mdcontest.preferences.labels import INCOMPARABLE
from mdcontest.preferences.margin_files import load_margin
from mdcontest.preferences.networks import MODELS

FIT_LOG = "fit.log"
LONGEST_WAIT = 86_400.0
"""Seconds between two iterations, however slow the pace: a day."""


@dataclass(frozen=True)
class AskSettings:
    """How a run asks."""

    film_every: int = 5
    """Iterations between two episodes that are added to what can be compared."""
    first_episodes: int = 4
    """Episodes of the policy it begins with."""
    first_labels: int = 20
    """Answers before the first fit."""
    growth: float = 1.2
    """A new fit begins when there are this many times the answers of the last."""
    length: int = 50
    """Steps of a clip."""
    model: str = "skew"
    """skew, reward or general; with few answers a reward is learned sooner, where the preference is one."""
    port: int = 0
    host: str = "127.0.0.1"
    pace: float | None = None
    """At most this many steps a second, so that people can keep up; None: as fast as it goes."""

    def __post_init__(self) -> None:
        for name in ("film_every", "first_episodes", "length"):
            if not (isinstance(getattr(self, name), int) and getattr(self, name) >= 1):
                raise InputError(f"{name} must be a whole number, at least 1, got {getattr(self, name)!r}")
        if self.model not in MODELS:
            raise InputError(f"there is no model {self.model!r}{did_you_mean(self.model, list(MODELS), 'models')}")
        if self.first_labels < 10:
            raise InputError(
                f"a margin is fitted to at least 10 answers, and the first was to be after {self.first_labels}"
            )
        if not self.growth > 1:
            raise InputError(f"growth must be more than 1, got {self.growth}")
        if self.pace is not None and not self.pace > 0:
            raise InputError(f"pace must be a number of steps a second, more than 0, got {self.pace}")


class Asking:
    """A callback of `learn` that films, asks and refits; use it as a context, so that the page ends with it."""

    def __init__(
        self,
        settings: AskSettings,
        say: Callable[[str], None],
        serve: Callable[..., Any],
        began: Callable[[], None] = lambda: None,
    ) -> None:
        """`began` is called once the run's folder is there and asking begins."""
        self.settings, self.say, self._serve, self._begin = settings, say, serve, began
        self.fits = 0
        """Margins taken up so far."""
        self._dataset: Dataset | None = None
        self._server: Any = None
        self._fit: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._fitted_to = 0
        self._began, self._steps = 0.0, 0

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fit is not None and self._fit.poll() is None:
            self._fit.kill()
            self._fit.wait()
        if self._log is not None:
            self._log.close()
        if self._server is not None:
            self._server.stop()

    def __call__(self, agent: Agent, progress: Progress) -> None:
        """After every iteration."""
        if self._dataset is None:
            self._start(agent, progress)
        elif progress.iteration % self.settings.film_every == 0:
            self._film(agent, progress.steps, 1)
        self._look_after_page()
        self._take_up(agent)
        self._refit_if_due(agent)
        self._keep_pace(progress)

    # --- filming ------------------------------------------------------------------------------------------

    def _start(self, agent: Agent, progress: Progress) -> None:
        if agent.folder is None or not isinstance(agent.task.margin, AskedMargin):
            raise InputError("asking needs a run in a folder whose task has an AskedMargin")
        self._begin()
        self._dataset = Dataset.at(agent.folder / OF_A_RUN, agent.task.true, agent.settings.horizon)
        if not self._dataset.index():
            self._film(agent, 0, self.settings.first_episodes)
        (agent.folder / MARGIN).mkdir(exist_ok=True)
        self._server = self._serve(
            self._dataset.path,
            port=self.settings.port,
            host=self.settings.host,
            length=self.settings.length,
            margin=agent.folder / MARGIN,
            seed=agent.seed,
        )
        self.say(f"compare clips here while it trains: {self._server.url}")
        current = agent.task.margin.current
        counts = [] if current is None else [current.report.get(name) for name in ("fitted_to", "held_out")]
        self._fitted_to = sum(count for count in counts if type(count) is int)  # anybody may have edited the report
        self._began, self._steps = time.monotonic(), progress.steps

    def _look_after_page(self) -> None:
        """Say it when nobody can answer any more; what was answered stays, and training goes on."""
        if self._server is not None and not self._server.alive:
            self._server.stop()
            self._server = None
            self.say("the labelling page has ended; Ctrl-C and mdcontest train --resume serve it again")

    def _film(self, agent: Agent, steps: int, episodes: int) -> None:
        """Add episodes of the policy as it was after `steps` steps."""
        if self._dataset is None or agent.folder is None:
            raise AssertionError("filming begins with _start")
        seeds = np.random.SeedSequence([agent.seed, steps]).generate_state(episodes)
        planned = [Episode(agent, agent.folder.name, steps, int(seed)) for seed in seeds]
        self._dataset.add_trajectories(list(play(planned)))

    # --- fitting ------------------------------------------------------------------------------------------

    def answers(self) -> int:
        """Comparisons so far about which something was said."""
        if self._dataset is None:
            return 0
        return sum(entry.label != INCOMPARABLE for entry in self._dataset.entries())

    def _refit_if_due(self, agent: Agent) -> None:
        """Begin a fit in a process of its own, when there are enough new answers and none is under way."""
        if self._fit is not None or agent.folder is None or self._dataset is None:
            return
        answers = self.answers()
        if answers < max(self.settings.first_labels, self.settings.growth * self._fitted_to):
            return
        self._fitted_to = answers
        command = ["fit", str(self._dataset.path), "--out", str(agent.folder / MARGIN), "--model", self.settings.model]
        self._log = open(agent.folder / FIT_LOG, "wb")  # noqa: SIM115
        self._fit = subprocess.Popen(
            [sys.executable, "-m", "mdcontest", *command, "--seed", str(agent.seed), "--quiet"],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            close_fds=False,
            start_new_session=True,
        )

    def _take_up(self, agent: Agent) -> None:
        """Train on the new margin, once it is there."""
        if self._fit is None or agent.folder is None or (code := self._fit.poll()) is None:
            return
        self._fit = None
        if self._log is not None:
            self._log.close()
        if code != 0:
            said = (agent.folder / FIT_LOG).read_text(errors="replace").strip().splitlines()
            self.say(f"fitting a margin failed, training goes on with the last one: {said[-1] if said else code}")
            return
        margin: Any = agent.task.margin
        try:
            margin.current = load_margin(agent.folder / MARGIN)
        except InputError as error:  # somebody else wrote there, too
            self.say(f"the new margin cannot be read, training goes on with the last one: {error}")
            return
        self.fits += 1
        accuracy = margin.current.report["accuracy"]
        right = "" if accuracy is None else f", right about {accuracy:.0%} of those held out"
        self.say(f"margin {self.fits}, from {self._fitted_to} answers{right}")

    def _keep_pace(self, progress: Progress) -> None:
        """Wait until the steps done are no more than the pace allows; Ctrl-C ends the waiting."""
        if self.settings.pace is not None:
            due = self._began + (progress.steps - self._steps) / self.settings.pace
            stop_asked.wait(min(max(0.0, due - time.monotonic()), LONGEST_WAIT))
