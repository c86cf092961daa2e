"""An agent goes on in its folder or elsewhere; a folder holds one run, and one process trains in it."""

import subprocess
import sys

import pytest

from learn.stopped_runs import ITERATIONS, TINY, Stop, learn, require_same, rows_of
from mdcontest import tasks
from mdcontest.errors import InputError, RunError
from mdcontest.learn import HPIClip, load_agent
from mdcontest.learn.loading import same_parameters

# --- the same agent goes on -------------------------------------------------------------------------------


def test_an_interrupted_agent_resumes_without_being_loaded(tmp_path):
    """The object that was interrupted can finish the call itself, and loses no row of its logs."""
    learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "whole")
    agent = learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "parts", stop=3)
    agent.resume(progress=False)
    require_same(tmp_path / "parts", tmp_path / "whole")


def test_an_agent_interrupted_within_an_iteration_does_not_go_on_from_there(tmp_path, monkeypatch):
    """Ctrl-C in the middle of a rollout, as in a notebook: that object is half a step ahead, its checkpoint is not."""
    learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "whole")
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY)
    env, calls = agent.learner.collector.envs[0], []
    step = env.step

    def interrupted(action):
        calls.append(action)
        if len(calls) == 3 * 64 + 20:
            raise KeyboardInterrupt
        return step(action)

    monkeypatch.setattr(env, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learn(agent, tmp_path / "parts")
    for go_on in (agent.resume, lambda: agent.learn(64), lambda: learn(agent, tmp_path / "parts")):
        with pytest.raises(InputError, match=r"stopped in the middle of an iteration; go on with load_agent"):
            go_on()
    with pytest.raises(InputError, match="stopped in the middle of an iteration"):
        agent.save(tmp_path / "copy")
    load_agent(tmp_path / "parts").resume(progress=False)
    require_same(tmp_path / "parts", tmp_path / "whole")


@pytest.mark.parametrize("kind", ["same agent", "loaded agent"])
def test_learning_again_goes_on_in_the_same_folder(kind, tmp_path):
    folder = tmp_path / "run"
    whole = HPIClip(tasks.make("RPSContinuous"), **TINY, anneal=False)
    learn(whole, tmp_path / "whole", 8)
    agent = learn(HPIClip(tasks.make("RPSContinuous"), **TINY, anneal=False), folder, 4)
    agent = load_agent(folder) if kind == "loaded agent" else agent
    learn(agent, folder, 4)
    assert same_parameters(agent, whole)
    assert same_parameters(load_agent(folder), whole)
    assert [row["steps"] for row in rows_of(folder / "progress.csv")] == [str(64 * k) for k in range(1, 9)]
    assert rows_of(folder / "episodes.csv") == rows_of(tmp_path / "whole" / "episodes.csv")
    assert (folder / "iterates.f32").read_bytes() == (tmp_path / "whole" / "iterates.f32").read_bytes()


def test_learning_again_and_interrupted_there(tmp_path):
    for name in ("whole", "parts"):
        learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / name, 4)
    learn(load_agent(tmp_path / "whole"), tmp_path / "whole", 5)
    learn(load_agent(tmp_path / "parts"), tmp_path / "parts", 5, stop=7)
    agent = load_agent(tmp_path / "parts")
    assert agent.call == (2, 5)
    agent.resume(progress=False)
    require_same(tmp_path / "parts", tmp_path / "whole")


@pytest.mark.parametrize("kind", ["same agent", "loaded agent"])
def test_learning_again_in_the_same_folder_by_another_name(kind, tmp_path, monkeypatch):
    """Relative and absolute, or through a link, the folder is the same one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "run")
    agent = learn(HPIClip(tasks.make("RPSContinuous"), **TINY), "run", 4)
    before = (tmp_path / "run" / "iterates.f32").read_bytes()
    agent = load_agent("run") if kind == "loaded agent" else agent
    learn(agent, tmp_path / "run", 4)
    learn(agent, "link", 2)
    assert (tmp_path / "run" / "iterates.f32").read_bytes().startswith(before)
    back = load_agent(tmp_path / "run")
    assert same_parameters(agent, back)
    assert len(back.mixture.iterates) == 10


def test_learning_on_elsewhere_leaves_the_first_folder_alone(tmp_path):
    agent = learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "one", 4)
    before = {path: path.read_bytes() for path in (tmp_path / "one").rglob("*") if path.is_file()}
    learn(load_agent(tmp_path / "one"), tmp_path / "two", 4)
    load_agent(tmp_path / "one").learn(64, progress=False)
    assert {path: path.read_bytes() for path in (tmp_path / "one").rglob("*") if path.is_file()} == before
    assert len(load_agent(tmp_path / "two").mixture.iterates) == 8
    assert same_parameters(agent, load_agent(tmp_path / "one"))


def test_a_callback_that_returns_false_ends_the_call(tmp_path):
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY)
    learn(agent, tmp_path, callback=lambda agent, progress: progress.iteration < 3)
    assert agent.num_timesteps == 3 * 64
    back = load_agent(tmp_path)
    assert back.call[0] == back.call[1]
    assert same_parameters(agent, back)
    assert same_parameters(back.resume(progress=False), agent)


@pytest.mark.parametrize("method", ["learn", "resume", "close"])
def test_an_agent_that_is_learning_begins_and_ends_nothing_else(method, tmp_path):
    """Not from its own callback: the call it is in would lose its folder, or its files. Afterwards it does."""

    def within(agent, progress):
        if progress.iteration == 3:
            with pytest.raises(InputError, match=f"this agent is learning: a callback cannot call its {method}; retur"):
                again(agent)

    def again(agent):
        return agent.learn(64, progress=False) if method == "learn" else getattr(agent, method)()

    agent = learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "run", callback=within)
    learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "whole")
    require_same(tmp_path / "run", tmp_path / "whole")
    assert (agent.num_timesteps, agent.folder) == (ITERATIONS * 64, tmp_path / "run")
    again(agent)


def test_an_agent_loaded_before_another_trained_on_cannot_destroy_its_work(tmp_path):
    """Two agents loaded from one run, trained one after the other: the folder still loads, to the work of one."""
    learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path, 4)
    first, second = load_agent(tmp_path), load_agent(tmp_path)
    learn(first, tmp_path, 6)
    try:
        learn(second, tmp_path, 2)
    except InputError:
        assert same_parameters(load_agent(tmp_path), first)
    else:
        assert same_parameters(load_agent(tmp_path), second)


# --- one run a folder, one process a run ------------------------------------------------------------------


def test_a_folder_that_holds_a_run_is_refused(tmp_path):
    agent = learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path)
    other = HPIClip(tasks.make("RPSContinuous"), **TINY)
    with pytest.raises(InputError, match=r"already holds a run; finish it with load_agent"):
        learn(other, tmp_path)
    assert same_parameters(load_agent(tmp_path), agent)
    assert other.call == (0, 0), "nothing was begun"


def test_a_second_agent_in_the_same_folder_is_refused(tmp_path):
    def intrude(agent, progress):
        if progress.iteration == 3:
            with pytest.raises(RunError, match="another process is training in"):
                load_agent(tmp_path / "run").resume(progress=False)
            with pytest.raises(InputError, match="already holds a run"):
                learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "run")

    learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "run", callback=intrude)
    learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "whole")
    require_same(tmp_path / "run", tmp_path / "whole")


def test_whoever_was_refused_can_try_again(tmp_path):
    refused = []

    def intrude(agent, progress):
        if progress.iteration == 3:
            refused.append(load_agent(tmp_path))
            with pytest.raises(RunError, match="another process is training in"):
                refused[0].resume(progress=False)
            raise Stop

    with pytest.raises(Stop):
        learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path, callback=intrude)
    refused[0].resume(progress=False)
    assert load_agent(tmp_path).num_timesteps == ITERATIONS * 64


HOLDER = """
import sys
from mdcontest import tasks
from mdcontest.learn import HPIClip

def wait(agent, progress):
    print("training", flush=True)
    sys.stdin.readline()

settings = dict(num_steps=64, minibatches=2, epochs=1, hidden=(8,))
HPIClip(tasks.make("RPSContinuous"), **settings).learn(128, progress=False, callback=wait, folder=sys.argv[1])
"""


def test_a_second_process_in_the_same_folder_is_refused(tmp_path):
    """And the lock goes with the process that held it, however that ends."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "training\n"
    with pytest.raises(RunError, match="another process is training in"):
        load_agent(tmp_path).resume(progress=False)
    holder.kill()
    holder.communicate()
    agent = load_agent(tmp_path).resume(progress=False)
    assert agent.num_timesteps == 128
