"""One thread a process: seeds run side by side as processes, and threads would only fight over their cores."""

from __future__ import annotations

SINGLE = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def one_thread(environment: dict[str, str]) -> dict[str, str]:
    """The environment with every numerical library told to use one thread, unless it already says otherwise.

    Must reach a process before it imports NumPy or JAX. Networks this small are also faster on the CPU.
    """
    wanted = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    wanted |= {"XLA_FLAGS": SINGLE, "JAX_PLATFORMS": "cpu"}
    return wanted | environment
