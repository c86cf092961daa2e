"""Pictures and pages. Needs the extra "report": pip install 'mdcontest[report]'."""

from __future__ import annotations

from mdcontest.errors import InputError

try:
    import jinja2 as _jinja2  # noqa: F401
    import matplotlib as _matplotlib  # noqa: F401
except ImportError as _error:
    raise InputError(f"reports need {_error.name}; install it with: pip install 'mdcontest[report]'") from None
