"""Environments, margins, disks and files that fail: the run stops and says where, the checkpoint before stays."""

import builtins
import copy
import errno
import hashlib
import json
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import warnings
from dataclasses import dataclass

import gymnasium
import numpy as np
import pytest

import mdcontest as mdc
from mdcontest import tasks
from mdcontest.errors import FileFormatError, InputError, RunError
from mdcontest.learn import HPIClip, checkpoint, load_agent, loading
from mdcontest.learn.checkpoint import list_checkpoints
from mdcontest.learn.evaluate import evaluate
from mdcontest.learn.loading import same_parameters
from mdcontest.learn.logs import CsvFile
from mdcontest.learn.play import sample_trajectories
from mdcontest.learn.runs import RunFolder

FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
TINY = {"num_steps": 64, "minibatches": 2, "epochs": 1, "hidden": (8,)}
AT = 200
"""The step at which something breaks: in iteration 4, the checkpoint before is of iteration 2."""


class Counter(gymnasium.Env):
    """Observes how many steps it has made since it was built, a little scaled, and a position; breaks where told."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, fault=None, at=AT):
        self.fault, self.at, self.steps, self.position = fault, at, 0, 0.0

    def observe(self):
        return np.array([self.steps, self.position])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = float(self.np_random.normal())
        if self.fault in RESET_FAULTS and self.steps >= self.at:
            return RESET_FAULTS[self.fault](self.observe()), {}
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        self.position = 0.9 * self.position + float(action[0]) + 0.1 * float(self.np_random.normal())
        seen = [self.observe(), -abs(self.position), self.steps % 50 == 0, False, {"speed": np.ones(2), "mass": 1.0}]
        if self.fault in STEP_FAULTS and self.steps == self.at:
            STEP_FAULTS[self.fault][0](seen)
        return tuple(seen)

    def save_state(self):
        return {"steps": self.steps, "position": self.position}

    def load_state(self, state):
        self.steps, self.position = state["steps"], state["position"]


def put(index, value):
    def change(seen):
        seen[index] = value

    return change


def put_info(**values):
    return lambda seen: seen[4].update(values)


def fail(*_):
    raise ZeroDivisionError("the motor is stuck")


STEP_FAULTS = {
    "NaN observation": (put(0, np.array([1.0, np.nan])), "entry 1 of the observation is nan"),
    "infinite observation": (put(0, np.array([-np.inf, 0.0])), "entry 0 of the observation is -inf"),
    "both infinities": (put(0, np.array([-np.inf, np.inf])), "entry 0 of the observation is -inf"),
    "NaN reward": (put(1, np.nan), "the reward is nan"),
    "infinite reward": (put(1, np.inf), "the reward is inf"),
    "no reward": (put(1, None), "the environment raised TypeError"),
    "text for a reward": (put(1, "much"), "the environment raised ValueError"),
    "raises": (fail, "the environment raised ZeroDivisionError: the motor is stuck"),
    "longer observation": (put(0, np.zeros(3)), r"the observation has shape \(3,\), its space says \(2,\)"),
    "scalar observation": (put(0, np.float64(1)), r"the observation has shape \(\), its space says \(2,\)"),
    "no observation": (put(0, None), "shape"),
    "text for an observation": (put(0, np.array(["a", "b"])), ""),
    "other info shape": (put_info(speed=np.ones(3)), r"info\['speed'\] is \[1. 1. 1.\]"),
    "NaN info": (put_info(mass=np.nan), r"info\['mass'\] is nan"),
    "text info": (put_info(mass="heavy"), "only numbers can be kept"),
    "ragged info": (put_info(speed=[[1.0], [2.0, 3.0]]), ""),
    "missing info": (lambda seen: seen[4].pop("mass"), "has no entry 'mass', it has \\['speed'\\]"),
    "no info": (put(4, None), ""),
    "two ends": (put(2, np.array([True, False])), r"terminated is array\(\[ True, False\]\), it must be one tr"),
    "a list of cuts": (put(3, [False, False]), r"truncated is \[False, False\], it must be one truth value"),
    "four values": (lambda seen: seen.pop(), "the environment raised ValueError"),
}
RESET_FAULTS = {
    "NaN at reset": lambda obs: obs * np.nan,
    "raises at reset": fail,
    "other shape at reset": lambda obs: obs[:1],
}


def larger(z, w):
    return np.sign(z.obs[:, 1] - w.obs[:, 1])


def task_of(fault=None, margin=larger, at=AT, **options):
    return mdc.Task(lambda: Counter(fault, at), margin, name="Counter", info_keys=("speed", "mass"), **options)


def learn_until_it_fails(task, folder, **settings):
    """The error, and the parameters after every iteration before it."""
    agent, after = HPIClip(task, **TINY, **settings), {0: None}
    after[0] = agent.learner.params
    with pytest.raises(RunError) as caught:
        agent.learn(
            10 * agent.settings.batch_size,
            progress=False,
            folder=folder,
            checkpoint_every=2,
            callback=lambda agent, progress: after.update({progress.iteration: agent.learner.params}),
        )
    return str(caught.value), after


def same(one, other):
    return all(np.array_equal(one[part][name], other[part][name]) for part in one for name in one[part])


def require_the_checkpoint_before(folder, after, iteration=2, **settings):
    """It loads, is the one of that iteration, and a sound environment finishes the run like one that never broke."""
    assert json.loads((folder / "run.json").read_text())["status"] == "failed"
    agent = load_agent(folder, task=task_of())
    assert agent.learner.iteration == iteration
    assert same(agent.learner.params, after[iteration])
    agent.resume(progress=False)
    whole = HPIClip(task_of(), **TINY, **settings)
    assert same_parameters(agent, whole.learn(10 * whole.settings.batch_size, progress=False))


def names_step(text, step):
    return re.search(rf"step {step}\b", text) is not None


@pytest.mark.parametrize("fault", STEP_FAULTS)
def test_a_step_that_goes_wrong_is_named(fault, tmp_path):
    text, after = learn_until_it_fails(task_of(fault), tmp_path)
    assert re.search(STEP_FAULTS[fault][1], text)
    assert names_step(text, AT), text
    assert text.startswith("Counter: ")
    assert max(after) == 3
    require_the_checkpoint_before(tmp_path, after)


@pytest.mark.parametrize("fault", RESET_FAULTS)
def test_a_reset_that_goes_wrong_is_named(fault, tmp_path):
    text, after = learn_until_it_fails(task_of(fault), tmp_path)
    assert names_step(text, AT), text
    require_the_checkpoint_before(tmp_path, after)


@pytest.mark.parametrize("fault", STEP_FAULTS)
def test_a_step_that_goes_wrong_while_playing_is_named(fault):
    """As in training, wherever episodes are played: to evaluate, to judge, to collect."""
    with pytest.raises(RunError) as caught:
        sample_trajectories(task_of(fault, at=30), HPIClip(task_of(), **TINY), 1)
    text = str(caught.value)
    assert re.search(STEP_FAULTS[fault][1], text)
    assert names_step(text, 30), text
    assert text.startswith("Counter: ")


@pytest.mark.parametrize("fault", RESET_FAULTS)
def test_a_reset_that_goes_wrong_while_playing_is_named(fault):
    with pytest.raises(RunError, match=r"^Counter: .*"):
        sample_trajectories(task_of(fault, at=0), HPIClip(task_of(), **TINY), 1)


class Counted(gymnasium.Env):
    """Two actions; its info counts the second, in any kind of number."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, kind):
        self.kind, self.steps = kind, 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(1, np.float32), 0.0, self.steps == 10, False, {"count": self.kind(action)}


@pytest.mark.parametrize("kind", [float, int, np.uint8, np.bool_])
def test_info_is_the_same_number_wherever_it_is_read(kind):
    """−1 of an unsigned byte would be 255: in training as in play, margins get floats."""
    seen = []

    def counted(z):
        seen.append(z.info["count"].dtype)
        return -z.info["count"]

    task = mdc.Task(lambda: Counted(kind), mdc.margins.RewardDifference(counted), info_keys=["count"], name="Counted")
    agent = HPIClip(task, **TINY).learn(128, progress=False)
    played = sample_trajectories(task, agent, 3).outcomes
    assert task.margin.rows(played).min() >= -1
    assert set(seen) == {np.dtype(float)}


def test_an_environment_that_is_not_new_is_refused():
    one = Counter()
    task = mdc.Task(lambda: one, larger, name="Counter")
    with pytest.raises(InputError, match="Counter: the function has returned the same environment twice"):
        HPIClip(task, num_envs=2, **TINY)


def test_flags_of_numpy_are_read_as_they_are(tmp_path):
    """An array of one is a truth value, and one in a list is the same."""
    lengths = []
    for flag in (bool, np.bool_, lambda value: np.array([value]), lambda value: [value]):
        task = mdc.Task(lambda flag=flag: Flagged(flag), larger, name="Flagged", info_keys=("speed", "mass"))
        agent = HPIClip(task, **TINY).learn(128, progress=False)
        lengths.append((list(agent.recent), sample_trajectories(task, agent, 2).lengths.tolist()))
    assert lengths == lengths[:1] * 4
    assert [length for _, length in lengths[0][0]] == [50, 50]


class Flagged(Counter):
    def __init__(self, flag):
        super().__init__()
        self.flag = flag

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, self.flag(terminated), self.flag(truncated), info


@dataclass
class Unhashable(Counter):
    """Environments that compare by value have no hash."""

    fault: str | None = None
    at: int = AT
    steps: int = 0
    position: float = 0.0


def test_environments_without_a_hash_are_told_apart_by_identity():
    task = mdc.Task(Unhashable, larger, name="Unhashable")
    assert HPIClip(task, num_envs=2, **TINY).learn(128, progress=False).num_timesteps == 128
    one = Unhashable()
    with pytest.raises(InputError, match="has returned the same environment twice"):
        HPIClip(mdc.Task(lambda: one, larger, name="Unhashable"), **TINY)


class Stuck(Counter):
    """Cannot be closed."""

    def close(self):
        raise RuntimeError("the door is stuck")


def test_an_environment_that_cannot_be_closed():
    task = mdc.Task(Stuck, larger, name="Stuck")
    with pytest.raises(InputError, match=r"^Stuck: the environment raised RuntimeError when it was closed: the door"):
        HPIClip(task, **TINY)
    broken = mdc.Task(lambda: Stuck("raises", 5), larger, name="Stuck", info_keys=("speed", "mass"))
    agent = HPIClip(task_of(), **TINY)
    broken.__dict__["spaces"] = agent.task.spaces  # as if it could be closed then
    with pytest.raises(RunError, match=r"the motor is stuck at step 5$"):
        sample_trajectories(broken, agent, 1)


def test_a_task_can_be_copied_while_it_is_played():
    task = mdc.Task(Counter, larger, name="Counter")
    agent = HPIClip(task, **TINY)
    for copied in (copy.copy(task), copy.deepcopy(task)):
        assert copied.make_env().unwrapped is not agent.learner.collector.envs[0].unwrapped


@pytest.mark.parametrize(
    ("low", "high", "far"),
    [
        (100, 200, True),
        (-1000, 1000, True),
        (-3, 3, False),
        (-np.inf, np.inf, False),
        (-0.4, 0.4, False),
        (0, 5, False),
    ],
)
def test_actions_out_of_a_new_policys_reach_are_warned_of(low, high, far):
    class Boxed(Counter):
        action_space = gymnasium.spaces.Box(float(low), float(high), (1,), np.float64)

    task = mdc.Task(Boxed, larger, name="Boxed")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        HPIClip(task, **TINY)
    assert [("RescaleAction" in str(one.message), one.filename) for one in caught] == [(True, __file__)] * far


def test_observations_as_large_as_a_float_can_be():
    """Their variances are beyond single precision, in which iterates are stored; the mixture plays all the same."""

    class Large(Counter):
        def observe(self):
            return 1e20 * super().observe()

    agent = HPIClip(mdc.Task(Large, larger, name="Large"), returned="mixture", **TINY).learn(256, progress=False)
    action, _ = agent.predict(np.array([1e20, -1e20]))
    assert np.isfinite(action).all()


def test_an_agent_of_another_kind_of_task():
    corridor = tasks.make("RPSCorridor")
    with pytest.raises(
        InputError, match=r"trained on Counter, .* than those of RPSCorridor: observations of 2 numbers and"
    ):
        mdc.estimate_gap(corridor, HPIClip(task_of(), **TINY), steps=300, restarts=1, progress=False)


def test_what_an_agent_cannot_do():
    agent = HPIClip(task_of(), **TINY)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"neither copied nor pickled; agent\.save"):
            copied(agent)
    agent.close()
    for act in (lambda: agent.predict(np.zeros(2)), lambda: agent.learn(64), agent.draw_policy):
        with pytest.raises(InputError, match="this agent was closed"):
            act()


def test_steps_are_counted_over_all_environments(tmp_path):
    text, after = learn_until_it_fails(task_of("NaN reward", at=100), tmp_path, num_envs=2)
    assert names_step(text, 199), text
    assert max(after) == 1
    require_the_checkpoint_before(tmp_path, after, 0, num_envs=2)


def test_a_fault_after_a_resume_is_counted_from_the_start(tmp_path):
    learn_until_it_fails(task_of("raises"), tmp_path)
    with pytest.raises(RunError, match=r"at step 300\b"):
        load_agent(tmp_path, task=task_of("raises", at=300)).resume(progress=False)
    assert load_agent(tmp_path, task=task_of()).learner.iteration == 4


@pytest.mark.parametrize("step", [1, 64, 65, 640])
def test_a_fault_at_the_edges_of_iterations(step, tmp_path):
    text, after = learn_until_it_fails(task_of("raises", at=step), tmp_path)
    assert names_step(text, step), text
    require_the_checkpoint_before(tmp_path, after, (step - 1) // 64 // 2 * 2)


def test_a_margin_that_goes_wrong_while_a_policy_is_judged():
    agent = HPIClip(task_of(), **TINY).learn(64, progress=False)
    assert evaluate(agent, 1).margin_vs_first is not None
    agent.task = task_of(margin=lambda z, w: z.info["colour"] - w.info["colour"])
    with pytest.raises(RunError, match=r"^Counter: the margin raised KeyError: 'colour'$"):
        evaluate(agent, 1)


def broken(how):
    """A margin or an ended function that is sound until it meets the outcome of step AT."""

    def fn(z, *w):
        values = larger(z, *w) if w else np.zeros(len(z))
        here = z.next_obs[:, 0] == AT
        return how(values, here) if here.any() else values

    return fn


def raising(values, here):
    raise ZeroDivisionError("cannot compare")


MARGIN_FAULTS = {
    "NaN": (lambda values, here: np.where(here, np.nan, values), "finite"),
    "infinite": (lambda values, here: np.where(here, np.inf, values), "finite"),
    "raises": (raising, "the margin raised ZeroDivisionError: cannot compare"),
    "wrong shape": (lambda values, here: np.append(values, 0.0), "shape"),
    "one number": (lambda values, here: 0.0, "shape"),
    "text": (lambda values, here: np.array(["a"] * len(values)), ""),
    "nothing": (lambda values, here: None, ""),
    "not skew": (lambda values, here: np.where(here, 1.0, values), "skew"),
}


@pytest.mark.parametrize("opponents", ["batch", "queue"] if FULL else ["batch"])
@pytest.mark.parametrize("fault", MARGIN_FAULTS)
def test_a_margin_that_goes_wrong_names_the_step(fault, opponents, tmp_path):
    how, message = MARGIN_FAULTS[fault]
    text, after = learn_until_it_fails(task_of(margin=broken(how)), tmp_path, opponents=opponents)
    assert re.search(message, text), text
    assert names_step(text, AT), text
    assert max(after) == 3
    require_the_checkpoint_before(tmp_path, after, opponents=opponents)


@pytest.mark.parametrize("fault", ["NaN", "raises", "wrong shape", "one number", "text"])
def test_an_ended_function_that_goes_wrong_names_the_step(fault, tmp_path):
    text, after = learn_until_it_fails(task_of(ended=broken(MARGIN_FAULTS[fault][0])), tmp_path)
    assert names_step(text, AT), text
    assert load_agent(tmp_path, task=task_of()).learner.iteration == 2
    assert max(after) == 3


@pytest.mark.parametrize(
    ("learning_rate", "iterations"), [(1e6, 20), (1e12, 5), (9e14, 1), (9e14, 5)][: 4 if FULL else 2]
)
def test_training_that_diverges_stops(learning_rate, iterations, tmp_path):
    """It is never 'finished' with parameters that are no numbers, and the error blames training, not the task."""
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY, anneal=False, learning_rate=learning_rate, max_grad_norm=1e9)
    try:
        agent.learn(iterations * 64, progress=False, folder=tmp_path)
    except RunError as error:
        assert "diverged" in str(error)
    leaves = [value for part in load_agent(tmp_path).learner.params.values() for value in part.values()]
    assert all(np.isfinite(value).all() for value in leaves)


def test_a_learning_rate_of_a_million_is_refused_by_the_run_itself(tmp_path):
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY, learning_rate=1e6, anneal=False)
    with pytest.raises(RunError, match="diverged in iteration"):
        agent.learn(100 * 64, progress=False, folder=tmp_path)


# --- disks that are full ----------------------------------------------------------------------------------


def full(*args, **options):
    raise OSError(errno.ENOSPC, "No space left on device")


def whole_run(iterations=10):
    return HPIClip(tasks.make("RPSContinuous"), **TINY).learn(iterations * 64, progress=False)


def finish(folder):
    return load_agent(folder).resume(progress=False)


class FullFile:
    """A file on a disk that is full after some bytes."""

    def __init__(self, path, *mode):
        self._file = builtins.open(path, *mode)  # noqa: SIM115

    def write(self, content):
        self._file.write(content[:100])
        full()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()


@pytest.mark.parametrize("what", ["open", "write", "fsync", "rename", "mkdir"])
def test_a_disk_full_while_a_checkpoint_is_written(what, tmp_path, monkeypatch):
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY)

    def fill(agent, progress):
        if progress.iteration == 4:
            if what in ("open", "write"):
                monkeypatch.setattr(checkpoint, "open", full if what == "open" else FullFile, raising=False)
            else:
                monkeypatch.setattr(os, what, full)

    with pytest.raises(RunError, match="No space left on device"):
        agent.learn(640, progress=False, folder=tmp_path, checkpoint_every=2, callback=fill)
    monkeypatch.undo()
    assert load_agent(tmp_path).learner.iteration == 2
    assert [path.name for path in list_checkpoints(tmp_path)] == ["00000000", "00000002"]
    assert same_parameters(finish(tmp_path), whole_run())


def test_a_disk_full_at_any_moment(tmp_path, monkeypatch):
    """Whichever file operation is refused, the error is one of ours, and the run is finished once there is space."""

    def start(folder):
        agent = HPIClip(tasks.make("RPSContinuous"), **TINY)
        return agent.learn(4 * 64, progress=False, folder=folder, checkpoint_every=2)

    def run(folder, refused):
        calls, names = [], ("fsync", "rename", "replace", "mkdir")
        originals = {name: getattr(os, name) for name in names}

        def operation(name):
            def call(*args, **options):
                calls.append(name)
                return full() if len(calls) == refused else originals[name](*args, **options)

            return call

        with monkeypatch.context() as patch:
            for name in names:
                patch.setattr(os, name, operation(name))
            try:
                start(folder)
            except InputError as error:
                assert "No space left" in str(error), refused
        return len(calls)

    whole, lost = whole_run(4), {}
    for refused in range(1, run(tmp_path / "counted", None) + 1):
        folder = tmp_path / str(refused)
        run(folder, refused)
        try:
            agent = finish(folder) if (folder / "run.json").exists() else start(folder)
        except InputError as error:
            lost[refused] = str(error)
            continue
        assert same_parameters(agent, whole), refused
    assert not lost


LIMITED = """
import resource, sys
from mdcontest.cli import main
import mdcontest.learn
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_FSIZE")
@pytest.mark.parametrize(
    ("limit", "culprit"),
    [(2000, "checkpoints/00000000"), (4500, "checkpoints/000000"), (9000, "progress.csv")][FULL - 1 :],
)
def test_a_real_limit_on_the_size_of_files(limit, culprit, tmp_path):
    """Too small for the first checkpoint, for the second one, and for progress.csv after some forty iterations."""
    flags = ["--num-steps", "64", "--minibatches", "2", "--epochs", "1", "--hidden", "8", "--checkpoint-every", "5"]
    command = ["train", "RPSContinuous", *flags, "--steps", str(60 * 64), "--out", str(tmp_path)]
    environment = {key: value for key, value in os.environ.items() if key != "JAX_COMPILATION_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit), *command], capture_output=True, text=True, env=environment
    )
    assert "Traceback" not in done.stderr, done.stderr
    begun = limit > 4000  # without its first checkpoint a run has not begun, and there is nothing to resume
    assert done.returncode == (1 if begun else 2), done.stderr
    assert "File too large" in done.stderr
    assert culprit in done.stderr
    assert done.stderr.startswith("mdcontest: error: ")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    (folder,) = tmp_path.iterdir()
    assert (folder / "run.json").exists() == begun
    if begun:
        assert json.loads((folder / "run.json").read_text())["status"] == "failed"
        assert same_parameters(finish(folder), whole_run(60))


@pytest.mark.parametrize("when", ["first checkpoint", "log", "end"])
def test_a_failure_lets_go_of_the_folder(when, tmp_path, monkeypatch):
    """Of the first checkpoint, of a log, of the note that the run is finished: the lock goes, and run.json says it."""
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY)
    if when == "first checkpoint":
        monkeypatch.setattr(checkpoint, "open", full, raising=False)
    elif when == "log":
        monkeypatch.setattr(CsvFile, "write", refuse_row_three(CsvFile.write))
    else:
        monkeypatch.setattr(RunFolder, "write", refuse_finished(RunFolder.write))
    with pytest.raises(InputError, match="No space left"):
        agent.learn(4 * 64, progress=False, folder=tmp_path, checkpoint_every=2)
    monkeypatch.undo()
    if when != "first checkpoint":
        assert json.loads((tmp_path / "run.json").read_text())["status"] in ("failed", "running")
        assert same_parameters(finish(tmp_path), whole_run(4))
        assert json.loads((tmp_path / "run.json").read_text())["status"] == "finished"
    else:
        assert agent.num_timesteps == 0
        assert not (tmp_path / "run.json").exists()  # nothing that could be gone on with
        agent.learn(4 * 64, progress=False, folder=tmp_path)
        assert same_parameters(agent, whole_run(4))


def refuse_row_three(write):
    def refusing(self, rows):
        if rows and rows[0][0] == 3:
            raise RunError(f"cannot write {self.path}: No space left on device")
        write(self, rows)

    return refusing


def refuse_finished(describe):
    def refusing(self, status, **more):
        if status == "finished":
            raise InputError("cannot write run.json: No space left on device")
        describe(self, status, **more)

    return refusing


# --- damaged files ----------------------------------------------------------------------------------------

NEWEST = "checkpoints/00000004"
FILES = [f"{NEWEST}/{name}" for name in ("arrays.safetensors", "state.json", "SHA256SUMS")]
FILES += ["iterates.f32", "cloning.f32", "run.json"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run interrupted after its checkpoint of iteration 4; the one before is of iteration 2."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    settings = {"returned": "cloned", "cloning_minibatches": 4, "cloning_epochs": 2}
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY, **settings)

    def stop(agent, progress):
        if progress.iteration == 5:
            raise KeyError

    with pytest.raises(KeyError):
        agent.learn(6 * 64, progress=False, folder=folder, checkpoint_every=2, callback=stop)
    return folder


@pytest.fixture
def run(trained, tmp_path):
    """A copy of it to damage."""
    return shutil.copytree(trained, tmp_path / "run")


def essence(agent):
    """What two loads of the same run have in common."""
    return agent.settings, agent.seed, agent.algorithm, agent.task.name, agent.call, agent.num_timesteps


def require_refused(folder, name, what=""):
    with pytest.raises(FileFormatError) as caught:
        load_agent(folder)
    text = str(caught.value)
    assert name.rpartition("/")[2] in text or (name.startswith(NEWEST) and str(folder / NEWEST) in text), (text, what)
    return text


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_anywhere_is_refused(name, trained, run, count):
    """Of run.json, which people may read and edit, a flip that leaves the same run is let through, and no other."""
    sound, rng = load_agent(trained), random.Random(name)
    path = run / name
    content = path.read_bytes()
    end = len(content)
    if name.endswith(".f32"):
        rows = sound.learner.iterates.rows if name == "iterates.f32" else sound.learner.cloning_buffer
        end = rows.count * rows.row_bytes
        assert end < len(content), "there are rows of the iteration after the checkpoint"
    for _ in range(count(8, 80)):
        position, bit = rng.randrange(end), 1 << rng.randrange(8)
        path.write_bytes(content[:position] + bytes([content[position] ^ bit]) + content[position + 1 :])
        try:
            agent = load_agent(run)
        except InputError as error:
            assert path.name in str(error) or str(run / NEWEST) in str(error), (position, bit, str(error))
        else:
            assert name in ("run.json", f"{NEWEST}/SHA256SUMS"), (position, bit)
            assert essence(agent) == essence(sound), content[max(0, position - 30) : position + 10]
            assert same_parameters(agent, sound)


def test_a_flipped_bit_behind_the_recorded_rows_is_harmless(run, trained):
    rows = load_agent(trained).learner.iterates.rows
    path = run / "iterates.f32"
    content = bytearray(path.read_bytes())
    content[rows.count * rows.row_bytes + 3] ^= 255
    path.write_bytes(content)
    assert same_parameters(finish(run), finish(shutil.copytree(trained, run.parent / "sound")))
    assert path.read_bytes() == (run.parent / "sound" / "iterates.f32").read_bytes()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["empty", "half", "one byte less", "missing", "a folder", "zeros", "pickle"])
def test_a_file_that_is_not_whole_is_refused(name, how, run, trained):
    path = run / name
    content = path.read_bytes()
    end = len(content)
    if name.endswith(".f32"):
        agent = load_agent(trained)
        rows = agent.learner.iterates.rows if name == "iterates.f32" else agent.learner.cloning_buffer
        end = rows.count * rows.row_bytes
    path.unlink()
    if how == "a folder":
        path.mkdir()
    elif how != "missing":
        changed = {
            "empty": b"",
            "half": content[: end // 2],
            "one byte less": content[: end - 1] if name != "run.json" else content[: end - 2],
            "zeros": bytes(len(content)),
            "pickle": pickle.dumps(Trap(run.parent / "sprung")),
        }
        path.write_bytes(changed[how])
    if how == "one byte less" and name.endswith("SHA256SUMS"):
        assert same_parameters(load_agent(run), load_agent(trained))  # its last line just has no end
    else:
        require_refused(run, name, how)
    assert not (run.parent / "sprung").exists()


class Trap:
    """Unpickling this leaves a trace."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def sign(folder, name, content):
    """Put a file into the newest checkpoint, with the checksum that belongs to it."""
    folder = folder / NEWEST
    (folder / name).write_bytes(content)
    files = ("arrays.safetensors", "state.json")
    sums = (f"{hashlib.sha256((folder / file).read_bytes()).hexdigest()}  {file}\n" for file in files)
    (folder / "SHA256SUMS").write_text("".join(sums))


@pytest.mark.parametrize("name", ["arrays.safetensors", "state.json"])
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_with_the_right_checksum_is_not_unpickled(name, protocol, run):
    sign(run, name, pickle.dumps(Trap(run.parent / "sprung"), protocol=protocol))
    with pytest.raises(FileFormatError, match=NEWEST):
        load_agent(run)
    assert not (run.parent / "sprung").exists()


def test_nothing_in_the_package_unpickles():
    import mdcontest.learn

    sources = [path for path in os.scandir(os.path.dirname(mdcontest.learn.__file__)) if path.name.endswith(".py")]
    assert len(sources) > 15
    for path in sources:
        with open(path) as file:
            text = file.read()
        assert not re.search(r"\b(pickle|marshal|shelve|dill|joblib)\b|allow_pickle|\beval\(|\bexec\(", text), path.name


@pytest.mark.parametrize(
    "content",
    [
        b"[]",
        b"3",
        b"{}",
        b'{"format": "mdcontest/checkpoint", "version": 2}',
        b'{"format": "mdcontest/checkpoint", "version": 1}',
        b'{"format": "mdcontest/checkpoint", "version": 1, "learner": {"array": "nothing"}}',
        b'{"format": "mdcontest/checkpoint", "version": 1, "learner": {}, "call": [], "recent": [], "logs": null}',
        b"[" * 100_000,
    ],
    ids=["list", "number", "empty", "version", "nothing in it", "no such array", "no learner", "deep"],
)
def test_a_foreign_state_with_the_right_checksum_is_refused(content, run):
    sign(run, "state.json", content)
    with pytest.raises(FileFormatError):
        load_agent(run)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("task", "RPSContinuous"),
        ("task", None),
        ("algorithm", "dqn"),
        ("algorithm", ["ppo"]),
        ("seed", -1),
        ("seed", "0"),
        ("seed", 1.5),
        ("settings", {"num_stepz": 64}),
        ("settings", {"minibatches": 3}),
        ("settings", {"hidden": "wide"}),
        ("settings", {"hidden": 8}),
        ("settings", {"hidden": [16]}),
        ("settings", None),
        ("checkpoint_every", "often"),
        ("checkpoint_every", 0),
    ],
    ids=repr,
)
def test_a_run_json_that_says_nonsense_is_refused_by_name(key, value, run):
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(record | {key: value}))
    with pytest.raises(InputError, match=re.escape(str(run))):
        finish(run)


@pytest.mark.parametrize("name", FILES[:3])
def test_without_the_damaged_checkpoint_the_one_before_is_used(name, run, trained):
    """As the error says; the run then ends the same."""
    (run / name).write_bytes(b"damage")
    assert "remove that folder" in require_refused(run, name) or name.endswith("SUMS")
    shutil.rmtree(run / NEWEST)
    agent = load_agent(run)
    assert agent.learner.iteration == 2
    sound = finish(shutil.copytree(trained, run.parent / "sound"))
    agent.resume(progress=False)
    assert same_parameters(agent, sound)
    assert same_parameters(load_agent(run), sound)
    for file in ("iterates.f32", "cloning.f32", "episodes.csv"):
        assert (run / file).read_bytes() == (run.parent / "sound" / file).read_bytes()


def test_without_any_checkpoint_there_is_an_error(run):
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(FileFormatError, match="holds no checkpoint"):
        load_agent(run)


def test_a_half_written_checkpoint_is_ignored(run, trained):
    """Of a process that was killed: the folder with the temporary name counts for nothing, and is in nobody's way."""
    half = run / "checkpoints" / ".00000006.tmp"
    half.mkdir()
    (half / "arrays.safetensors").write_bytes(b"half")
    assert load_agent(run).learner.iteration == 4
    assert same_parameters(finish(run), finish(shutil.copytree(trained, run.parent / "sound")))
    assert [path.name for path in list_checkpoints(run)] == ["00000004", "00000006"]
    assert not half.exists()


def test_a_checkpoint_that_is_replaced_while_it_is_read(run, monkeypatch):
    """A worker whose sweep was killed may train on for a moment: what was the newest goes, and a newer one is there."""
    older, newer = list_checkpoints(run)
    hidden = newer.with_name(".hidden")
    newer.rename(hidden)

    def read(folder):
        if hidden.exists():
            hidden.rename(newer)
            shutil.rmtree(folder)
        return checkpoint.read_checkpoint(folder)

    monkeypatch.setattr(loading, "read_checkpoint", read)
    assert load_agent(run).learner.iteration == 4
    assert not older.exists()


def test_a_checkpoint_that_is_removed_once_it_was_read(run, monkeypatch):
    """A second process that resumes a run which is being trained finds that out, and no damage."""

    def restore(*arguments):
        shutil.rmtree(list_checkpoints(run)[-1])
        return restore_learner(*arguments)

    restore_learner = loading.restore_learner
    monkeypatch.setattr(loading, "restore_learner", restore)
    assert load_agent(run).learner.iteration == 4


def test_what_else_lies_among_the_checkpoints_is_left_alone(run):
    """A copy that somebody made, or a note, is neither loaded nor removed."""
    shutil.copytree(run / "checkpoints" / "00000002", run / "checkpoints" / "kept")
    shutil.copytree(run / "checkpoints" / "00000002", run / "checkpoints" / "00000099.bak")
    (run / "checkpoints" / "note.txt").write_text("the good one is kept")
    assert load_agent(run).learner.iteration == 4
    finish(run)
    assert (run / "checkpoints" / "kept" / "state.json").exists()
    assert (run / "checkpoints" / "00000099.bak" / "state.json").exists()
    assert load_agent(run).learner.iteration == 6


@pytest.mark.parametrize("how", ["missing", "shorter"])
@pytest.mark.parametrize("name", ["progress.csv", "episodes.csv"])
def test_a_log_that_is_gone_does_not_become_zeros(name, how, run):
    """Somebody moved or cut a log: the run goes on, or is refused, but writes no bytes of nothing."""
    content = (run / name).read_bytes()
    (run / name).unlink()
    if how == "shorter":
        (run / name).write_bytes(content[:20])
    try:
        finish(run)
    except InputError as error:
        assert name in str(error)
    else:
        assert b"\0" not in (run / name).read_bytes()


def test_an_environment_with_awkward_states_comes_back(tmp_path):
    """Keys that look like what a checkpoint uses itself, and nested ones that read alike, stay apart."""

    class Awkward(gymnasium.Wrapper):
        def save_state(self):
            return {"array": np.array([1.0])}

        def load_state(self, state):
            assert state["array"] == np.array([1.0])

    class Slashed(gymnasium.Wrapper):
        def save_state(self):
            return {"a": {"b": np.array([1.0])}, "a/b": np.array([2.0])}

        def load_state(self, state):
            assert state["a"]["b"] == np.array([1.0])
            assert state["a/b"] == np.array([2.0])

    for number, wrapper in enumerate((Slashed, Awkward)):
        task = mdc.Task(lambda wrapper=wrapper: wrapper(Counter()), larger, name="awkward")
        HPIClip(task, **TINY).learn(64, progress=False, folder=tmp_path / str(number))
        assert load_agent(tmp_path / str(number), task=task).resumed_exactly


@pytest.mark.parametrize(
    "state", [{"names": np.array(["a", "b"])}, {"thing": object()}, {"x": float("nan")}], ids=["text", "object", "NaN"]
)
def test_a_state_that_cannot_be_written_is_an_error_of_ours(state, tmp_path):
    class Odd(gymnasium.Wrapper):
        def save_state(self):
            return state

        def load_state(self, state):
            pass

    agent = HPIClip(mdc.Task(lambda: Odd(Counter()), larger, name="odd"), **TINY)
    with pytest.raises(InputError):
        agent.learn(128, progress=False, folder=tmp_path, checkpoint_every=1)
