"""Sweeps on a Ray cluster of two nodes of this machine, one of which dies; and what is said where there is no Ray."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from mdcontest.experiments.table import last_progress
from mdcontest.learn.checkpoint import list_checkpoints
from sweeps import (
    TINY,
    alive,
    children,
    ended_afterwards,
    finished,
    kill_group,
    leftovers,
    one_clear_line,
    processes,
    results,
    rows_in,
    run,
    run_folders,
    start,
    wait_until,
    workers,
)

FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
MEMORY = 80_000_000
"""Bytes of a node's object store; Ray wants at least 75 MiB."""


class Cluster:
    """Nodes with one CPU each, every one in a process group of its own, and all of it in one folder."""

    def __init__(self, folder, environment):
        self.folder, self.nodes = folder, []
        (folder / "token").write_text(secrets.token_hex(32))
        (folder / "token").chmod(0o600)
        self.environment = environment | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": str(folder),
        }
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"

    def add_node(self):
        """`ray start`, the first one as the head; until it says that it runs."""
        host, _, port = self.address.partition(":")
        temporary = ["--temp-dir", str(self.folder / "t")]
        head = ["--head", "--port", port, "--include-dashboard", "false", *temporary]
        which = ["--address", self.address] if self.nodes else head
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *which, "--block", "--num-cpus", "1"]
        command += ["--node-ip-address", host, "--object-store-memory", str(MEMORY), "--min-worker-port", "0"]
        command += ["--max-worker-port", "0", "--include-log-monitor", "false", "--disable-usage-stats"]
        said = self.folder / f"node{len(self.nodes)}.log"
        with open(said, "wb") as file:
            node = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,
            )
        self.nodes.append(node)
        assert wait_until(lambda: "Ray runtime started" in said.read_text() or node.poll() is not None, 180)
        assert node.poll() is None, said.read_text()

    def raylet(self, node):
        """The process that makes a node one."""
        found = []
        for child, birth in children(self.nodes[node].pid):
            with contextlib.suppress(OSError):
                if b"raylet/raylet" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append((child, birth))
        (one,) = found
        return one

    def works(self, node):
        """Whether a run's process is among those that descend from it."""
        born, everything = {self.nodes[node].pid}, processes()
        while more := {pid for pid, seen in everything.items() if seen[1] in born} - born:
            born |= more
        return any(workers(pid) for pid in born)

    def close(self):
        """Whatever state it is in; what is left of it after that is found by its folder, which is nobody else's."""
        for node in reversed(self.nodes):
            kill_group(node)
        for pid in processes():
            with contextlib.suppress(OSError):
                if str(self.folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def cluster(compiled):
    pytest.importorskip("ray", reason="Ray is not installed here: pip install 'mdcontest[ray]'")
    folder = Path(tempfile.mkdtemp(prefix="mdc", dir="/tmp"))  # short: sockets have names of at most 107 characters
    made = Cluster(folder, compiled)
    try:
        made.add_node()
        made.add_node()
        yield made
    finally:
        made.close()


def training(out):
    """Runs with some iterations behind them that are not finished."""
    found = [folder for folder in run_folders(out) if rows_in(folder / "progress.csv") > 3] if out.is_dir() else []
    return len(found) - finished(out)


@pytest.fixture
def small_sweep(whole_sweep, tmp_path):
    algorithms, seeds = ("hpi-clip,hpi,sppo,ppo", "0-1") if FULL else ("hpi-clip,ppo", "0-1")
    return [*whole_sweep, "--algos", algorithms, "--seeds", seeds, "--out", tmp_path / "runs"]


@pytest.mark.skipif(not FULL, reason="a cluster takes most of a minute; make test-slow starts several")
@pytest.mark.timeout(900)
def test_a_node_that_dies(cluster, small_sweep, undisturbed, tmp_path):
    """Its runs go on on the other one, from their checkpoints; every result is that of a local sweep."""
    out, output = tmp_path / "runs", tmp_path / "said"
    arguments = [*small_sweep, "--ray", cluster.address]
    with ended_afterwards(start(*arguments, output=output, env=cluster.environment)) as process:
        # Not "both have begun": where one of them ends first that may never be seen, and nothing is killed in time.
        assert wait_until(lambda: training(out) > 0 and cluster.works(1), 180), output.read_text()
        raylet = cluster.raylet(1)
        os.kill(raylet[0], signal.SIGKILL)
        assert process.wait(timeout=200) == 0, output.read_text()
    assert wait_until(lambda: not alive([raylet]))
    said = output.read_text().splitlines()
    found = results(out)
    assert found == {name: undisturbed[name] for name in found}
    assert len(found) == (8 if FULL else 4)
    assert len(said) == len(found), said
    assert all(line.startswith("[") and line.endswith("done") for line in said), "nothing of what Ray itself says"
    assert not leftovers(out)
    assert list(out.glob("*/failures.json")), "somebody did die"
    code, text, err = run(*arguments, "--quiet", env=cluster.environment)
    assert (code, err) == (0, "")
    assert text == f"{len(found)} done ({len(found)} of them before), 0 failed, in {out}\n"


if FULL:

    @pytest.mark.timeout(900)
    @pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
    def test_interrupting_a_sweep_on_a_cluster(signal_number, cluster, small_sweep, tmp_path):
        """Checkpoints are 10000 iterations apart, but for the one that the interrupt asks for."""
        out, output = tmp_path / "runs", tmp_path / "said"
        sweep = [*small_sweep, "--algos", "hpi-clip,ppo", "--seeds", "0", "--steps", 150_000]
        arguments = [*sweep, "--checkpoint-every", 10_000, "--ray", cluster.address]
        with ended_afterwards(start(*arguments, output=output, env=cluster.environment)) as process:
            # Not "both are training": on a busy machine one may be done before the other has begun.
            assert wait_until(lambda: training(out) > 0, 180), output.read_text()
            process.send_signal(signal_number)
            assert process.wait(timeout=120) == 130, output.read_text()
        assert "Traceback" not in output.read_text()
        assert "goes on in" in output.read_text()
        begun = [folder for folder in run_folders(out) if rows_in(folder / "progress.csv") > 1]
        assert max(last_progress(folder).iteration for folder in begun) > 3
        for folder in begun:
            assert int(list_checkpoints(folder)[-1].name) == last_progress(folder).iteration
        assert finished(out) < 2
        assert run(*arguments, env=cluster.environment)[0] == 0
        assert run(*sweep, "--out", tmp_path / "whole", "--jobs", 2, env=cluster.environment)[0] == 0
        assert results(out) == results(tmp_path / "whole")

    @pytest.mark.timeout(900)
    def test_gaps_and_errors_on_a_cluster(cluster, tmp_path):
        """Follow-ups run there too, in a folder that was named from here; a job that fails says what it says here."""
        sweep = ["sweep", "--tasks", "RPSCorridor", *TINY, "--steps", 256, "--out", "runs", "--jobs", 1]
        sweep += ["--gap-every", 256]
        code, said, err = run(*sweep, "--ray", cluster.address, cwd=tmp_path, env=cluster.environment)
        assert code == 0, err
        assert said == "2 done (0 of them before), 0 failed, in runs\n"
        assert len(list(tmp_path.glob("runs/*/gaps/*.json"))) == 1
        sweep = ["sweep", "--tasks", "RPSContinuous", *TINY, "--learning-rate", 1e12, "--max-grad-norm", 1e9]
        sweep += ["--anneal", "false", "--steps", 6400, "--out", "failing", "--retries", 1, "--quiet"]
        code, said, err = run(*sweep, "--ray", cluster.address, cwd=tmp_path, env=cluster.environment)
        assert code == 1, err
        assert one_clear_line(err)
        assert "diverged" in err


# --- without a cluster, without Ray -----------------------------------------------------------------------

SWEEP = ["sweep", "--tasks", "RPSCorridor", *TINY, "--steps", 64]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "Connection refused"),
        ("auto", "Could not find any running Ray instance"),
        ("nowhere", "no Ray cluster at 'nowhere'"),
        ("127.0.0.1:many", "no Ray cluster"),
        ("127.0.0.1:99999", "no Ray cluster"),
        ("local", "--jobs N does that without Ray"),
    ][: 6 if FULL else 2],
)
def test_no_cluster_is_one_clear_line(address, message, tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed here: pip install 'mdcontest[ray]'")
    environment = os.environ | {"RAY_TMPDIR": str(tmp_path)}  # where auto looks for clusters
    code, said, err = run(*SWEEP, "--ray", address, "--out", tmp_path / "runs", env=environment, timeout=180)
    assert (code, said) == (2, "")
    assert one_clear_line(err), err
    assert message in err
    assert not list(tmp_path.glob("runs/*/*"))


def answer_with(server, answer):
    with contextlib.suppress(OSError), server.accept()[0] as caller:
        caller.sendall(answer)
        caller.recv(1 << 10)
        caller.recv(1 << 10)  # until the other side has had enough


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""] if FULL else [b"HTTP/1.1 400 Bad Request"]
)
def test_what_listens_there_is_no_cluster(answer, tmp_path):
    """The dashboard's port, or one that says nothing: Ray itself would try for minutes."""
    pytest.importorskip("ray", reason="Ray is not installed here: pip install 'mdcontest[ray]'")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        threading.Thread(target=answer_with, args=(other, answer), daemon=True).start()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        code, said, err = run(*SWEEP, "--ray", address, "--out", tmp_path / "runs", timeout=180)
    assert (code, said) == (2, "")
    assert one_clear_line(err), err


WITHOUT = "import sys; sys.modules['ray'] = None; from mdcontest.cli import main; sys.exit(main(sys.argv[1:]))"


def test_ray_is_not_installed(tmp_path):
    command = [sys.executable, "-c", WITHOUT, *map(str, SWEEP), "--ray", "auto", "--out", str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert (done.returncode, done.stdout) == (2, "")
    assert one_clear_line(done.stderr), done.stderr
    assert "pip install 'mdcontest[ray]'" in done.stderr
    assert not (tmp_path / "runs").exists()
