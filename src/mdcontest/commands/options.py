"""Flags made from the settings, and texts people type: seeds, steps, values."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from mdcontest.errors import InputError
from mdcontest.settings import Settings, read_seeds

OTHER_DEFAULTS = (
    "The defaults are those of most tasks: a task with recommended settings (RPSCorridor), SPPO and --preset go before "
    "them, and what is given here before all."
)
"""What `--help` says of them together."""


def add_settings(parser: argparse.ArgumentParser) -> None:
    """One flag a setting, e.g. --gae-lambda 0.9; what is not given stays as the preset or the default has it."""
    group = parser.add_argument_group("settings of the algorithm", OTHER_DEFAULTS)
    for item in fields(Settings):
        help = f"{item.metadata['help']} (default {shown(item.default)})"
        group.add_argument(
            f"--{item.name.replace('_', '-')}",
            dest=f"setting_{item.name}",
            metavar="|".join(item.metadata["choices"]) or _kind(item.default),
            type=reader_of(item.name, item.default),
            help=help.replace("%", "%%"),
        )


def given_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that were given as flags."""
    found = {item.name: getattr(options, f"setting_{item.name}") for item in fields(Settings)}
    return {name: (None if value == "none" else value) for name, value in found.items() if value is not None}


def shown(default: Any) -> str:
    """A default as one would type it."""
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return (
        {True: "true", False: "false", None: "none"}.get(default, str(default))
        if isinstance(default, bool | None)
        else f"{default:g}"
        if isinstance(default, float)
        else str(default)
    )


def _kind(default: Any) -> str:
    if isinstance(default, bool):
        return "true|false"
    return {int: "N", float: "X", tuple: "N,N"}.get(type(default), "N")


def reader_of(name: str, default: Any) -> Callable[[str], Any]:
    """How the text of a flag becomes a value."""

    def read(text: str) -> Any:
        try:
            if isinstance(default, bool):
                return {"true": True, "false": False, "yes": True, "no": False}[text.lower()]
            if isinstance(default, tuple):
                return tuple(int(part) for part in text.split(","))
            if isinstance(default, str):
                return text
            if default is None and text == "none":
                return "none"
            number = float(text.replace("_", ""))
            return int(number) if isinstance(default, int | None) and number == int(number) else number
        except (ValueError, KeyError, OverflowError):
            raise argparse.ArgumentTypeError(f"{text!r} is no value for {name}") from None

    return read


def seeds(text: str) -> list[int]:
    """0-9, 0,2,5 or 3, or several of those with commas."""
    try:
        return read_seeds(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def steps(text: str) -> int:
    """A whole number of steps, 1e6 and 1_000_000 included."""
    try:
        number = float(text.replace("_", ""))
        if not 1 <= number <= 1e15:
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of steps; write 1e6 or 1000000") from None
    return int(number)


def whole_number(text: str) -> int:
    """A whole number, at least 1; 1e5 and 100_000 included."""
    try:
        return steps(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1") from None


def steps_or_none(text: str) -> int:
    """Steps, or 0 for none."""
    return 0 if text == "0" else steps(text)


def key_values(pairs: list[str], flag: str = "--task-setting") -> dict[str, Any]:
    """theta=1.5 direction=clockwise → a dictionary; values are JSON where they can be, else text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise InputError(f"{flag} {pair}: write KEY=VALUE")
        if key in found:
            together = f"; give all its values at once, {flag} {key}=V,W" if flag == "--grid" else "; leave one out"
            raise InputError(f"{flag} names {key} twice{together}")
        found[key] = json_or_text(value)
    return found


def json_or_text(text: str) -> Any:
    """1.5, true and [1, 2] as what they are, anything else as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
