"""Parts of the package that need more than its core: what to install when it is not there."""

from __future__ import annotations

from importlib.util import find_spec

from mdcontest.errors import InputError

LEARNING = ("jax", "optax", "gymnasium", "safetensors", "pyarrow")


def require_learning() -> None:
    """An error that names the command, where training's packages are missing."""
    missing = [name for name in LEARNING if find_spec(name) is None]
    if missing:
        raise InputError(f"training needs {', '.join(missing)}, not installed here: pip install 'mdcontest[learn]'")
