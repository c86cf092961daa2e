"""Where the interior point keeps and factors its matrix: in this machine's memory, or through JAX on a GPU."""

from __future__ import annotations

import time
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from mdcontest.arrays import Array
from mdcontest.contest import Contest
from mdcontest.errors import InputError
from mdcontest.solvers.base import require_choice
from mdcontest.solvers.memory import require_memory
from mdcontest.solvers.newton_system import Balance, CpuSystem, Layout, NewtonSystem, scaled_diagonal

Device = Literal["auto", "cpu", "gpu"]
GPU_PAIRS = 3000
"""From so many pairs on a GPU is looked for; below, starting JAX takes longer than the solve."""
CPU_COPIES, GPU_COPIES = 3.0, 4.5
"""Matrices of the system's size in memory at once: T, the factors and parts; a GPU sorts copies too."""


COPYING_THREADS = 4
"""Threads that copy rows of M out of the contest while others travel to the device."""


class GpuSystem:
    """The same through JAX in double precision; vectors travel, the matrix stays on the device."""

    def __init__(self, layout: Layout, device: Any) -> None:
        import jax
        import jax.numpy as jnp
        from jax.scipy.linalg import lu_factor, lu_solve

        n, size = len(layout.pairs), layout.size
        self.size = size
        self._jax: Any = jax
        self.seconds, self.factorisations = 0.0, 0
        self._device = device

        def put(T: Any, M: Any, E: Any, first: Any) -> Any:
            T = jax.lax.dynamic_update_slice(T, M / layout.scale, (first, 0))
            return jax.lax.dynamic_update_slice(T, E, (first, n))

        def divided(T: Any, B: Any) -> Any:
            E, factors = T[:n, n:].T, lu_factor(B, check_finite=False)
            A = lu_solve(factors, E, check_finite=False)
            A = A + lu_solve(factors, E - B @ A, check_finite=False)
            return T.at[n:, :n].set(A).at[:n, n:].set(A.T)

        def scaled_factors(T: Any, rows: Any, diagonal: Any) -> Any:
            every = jnp.arange(size)
            K = (T * rows[None, :]).at[every, every].add(diagonal).T
            return lu_factor(K, check_finite=False)

        self._multiply = jax.jit(lambda T, vector: vector @ T)
        self._solve = jax.jit(lambda factors, right: lu_solve(factors, right, check_finite=False))
        with self._double():
            shapes = [self._jax.ShapeDtypeStruct(shape, np.float64) for shape in ((size, size), (size,), (size,))]
            self._factor = jax.jit(scaled_factors).lower(*shapes).compile()  # now, so that steps are timed without it
            T = jnp.zeros((size, size))
            fill = jax.jit(put, donate_argnums=0)
            for block, M, E in layout.rows(COPYING_THREADS):
                T = fill(T, M, E, block.start)
            B = jax.jit(lambda T: T[:n, n:].T.reshape(size - n, size - n, -1).mean(axis=2))(T)
            self._T = jax.jit(divided, donate_argnums=0)(T, B)
            self.balance = Balance(np.array(B))
        self._factors: Any = None

    def _double(self) -> Any:
        """Double precision and this device, for the calls made inside."""
        both = ExitStack()
        both.enter_context(_enable_x64(self._jax))
        both.enter_context(self._jax.default_device(self._device))
        return both

    def apply(self, vector: Array) -> Array:
        with self._double():
            return np.array(self._multiply(self._T, vector))

    def factor(self, D: Array, rho: float = 0.0) -> bool:
        self._rows, diagonal = scaled_diagonal(D, self.size, rho)
        self._factors = None  # freed before the next ones are made
        with self._double():
            began = time.perf_counter()
            self._factors = self._jax.block_until_ready(self._factor(self._T, self._rows, diagonal))
            self.seconds += time.perf_counter() - began
        self.factorisations += 1
        return True  # a singular factor shows in the solution

    def solve(self, right: Array) -> Array:
        with self._double():
            return np.array(self._solve(self._factors, right * self._rows))


def _enable_x64(jax: Any) -> Any:
    """Double precision for a while; older releases have it among their experiments."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return import_module("jax.experimental").enable_x64()


def gpus() -> list[Any]:
    """The GPUs that JAX sees; none where JAX is not installed."""
    if find_spec("jax") is None:
        return []
    import jax

    try:
        return list(jax.devices("gpu"))
    except RuntimeError:  # how JAX says that there is none
        return []


def choose_device(contest: Contest, device: Device) -> Any | None:
    """The GPU to use, or None for the CPU; an error before anything is allocated if the matrix does not fit there."""
    require_choice(device, "device", ("auto", "cpu", "gpu"))
    found = gpus() if device == "gpu" or (device == "auto" and contest.num_pairs >= GPU_PAIRS) else []
    if device == "gpu" and not found:
        raise InputError("device is 'gpu', but JAX sees no GPU (or is not installed); use device='cpu'")
    n, states = contest.num_pairs, contest.num_states
    matrix = 8.0 * (n + states) ** 2
    what = f"the interior point factors a matrix of {n + states} rows ({n} pairs and {states} states), which"
    if found:
        room = _room_on(found[0])
        if device == "gpu":
            require_memory(GPU_COPIES * matrix, what, room, "the GPU")
        if GPU_COPIES * matrix <= room:
            return found[0]
    require_memory(CPU_COPIES * matrix, what)
    return None


def newton_system(layout: Layout, gpu: Any | None) -> NewtonSystem:
    """K₀ of a contest on the device chosen."""
    return CpuSystem(layout) if gpu is None else GpuSystem(layout, gpu)


def _room_on(device: Any) -> float:
    stats = device.memory_stats() or {}
    return float(stats.get("bytes_limit", np.inf)) - float(stats.get("bytes_in_use", 0))
