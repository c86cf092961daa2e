"""Teachers from a text such as `noisy:0.1+sign`; teachers.py lists what can be said."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mdcontest.errors import InputError, did_you_mean
from mdcontest.preferences.segment_margins import SegmentMargin
from mdcontest.preferences.teachers import (
    Aggregated,
    Indifferent,
    Noisy,
    Number,
    Probabilistic,
    Sign,
    Skipping,
    Teacher,
)

MOST_PEOPLE = 1000
"""In a whole teacher; aggregated layers within each other multiply."""
MOST_PARTS = 20


@dataclass(frozen=True)
class _Part:
    """One word of a teacher's text and what may come after its colon; the first setting needs no name."""

    settings: Mapping[str, str]
    required: bool = False


BASES = {
    "sign": _Part({}),
    "probabilistic": _Part({"tau": "number", "relative": "number"}),
    "number": _Part({"scale": "number"}),
}
LAYERS = {
    "noisy": _Part({"epsilon": "number"}, required=True),
    "skipping": _Part({"probability": "number", "lowest": "number"}, required=True),
    "indifferent": _Part({"threshold": "number"}, required=True),
    "myopic": _Part({"discount": "number"}, required=True),
    "aggregated": _Part({"people": "count", "majority": "flag"}, required=True),
}


def read_teacher(text: str, margin: SegmentMargin) -> Teacher:
    """The teacher a text describes, who judges by this margin; its name is the text."""
    if (count := text.count("+") + 1) > MOST_PARTS:
        raise InputError(f"the teacher {text[:40]!r}… has {count} parts; at most {MOST_PARTS} are joined")
    *layers, base = [_read_part(part, text) for part in text.split("+")]
    if base[0] not in BASES:
        raise InputError(
            f"the teacher {text!r} ends with {base[0]}, which changes the answers of another: add one of "
            f"{', '.join(BASES)} after it, such as {text}+sign"
        )
    for name, settings in layers:
        if name in BASES:
            raise InputError(f"the teacher {text!r} has {name} before the end; only the last part is one of its kind")
        if name == "myopic":
            margin = replace(margin, discount=settings["discount"])
    if [name for name, _ in layers].count("myopic") > 1:
        raise InputError(f"the teacher {text!r} is myopic twice; say one discount")
    if (people := math.prod(settings.get("people", 1) for _, settings in layers)) > MOST_PEOPLE:
        raise InputError(f"the teacher {text!r} is {people} people; at most {MOST_PEOPLE} are asked")
    return _built([*layers, base], margin, text)


def _built(parts: list[tuple[str, dict[str, Any]]], margin: SegmentMargin, name: str) -> Teacher:
    (kind, settings), rest = parts[0], parts[1:]
    if kind == "aggregated":
        people = [_built(rest, margin, f"{name}#{i + 1}") for i in range(settings["people"])]
        return Aggregated(people, settings.get("majority", False), name)
    if kind == "myopic":
        return _built(rest, margin, name)
    if not rest:
        bases: dict[str, Callable[..., Teacher]] = {"sign": Sign, "probabilistic": Probabilistic, "number": Number}
        return bases[kind](margin, **settings, name=name)
    inner = _built(rest, margin, name)
    if kind == "noisy":
        return Noisy(inner, **settings, name=name)
    layer = Skipping if kind == "skipping" else Indifferent
    return layer(inner, margin, **settings, name=name)


def _read_part(part: str, text: str) -> tuple[str, dict[str, Any]]:
    name, colon, rest = part.strip().partition(":")
    known = {**BASES, **LAYERS}
    if name not in known:
        raise InputError(f"the teacher {text!r} has {name!r}{did_you_mean(name, [*known], 'teachers')}")
    kinds, settings = known[name].settings, dict[str, Any]()
    for entry in rest.split(",") if colon else []:
        key, equals, value = entry.partition("=")
        if not equals:
            key, value = next(iter(kinds), ""), key
        if key not in kinds:
            takes = did_you_mean(key, [*kinds], f"settings of {name}") if kinds else f"; {name} takes none"
            raise InputError(f"the teacher {text!r}: {name} has no setting {entry!r}{takes}")
        if key in settings:
            raise InputError(f"the teacher {text!r}: {key} of {name} is given twice")
        settings[key] = _read_value(value, kinds[key], f"the teacher {text!r}: {key} of {name}")
    if known[name].required and not settings:
        raise InputError(f"the teacher {text!r}: {name} needs {' or '.join(kinds)}, such as {name}:{_example(name)}")
    if name == "aggregated" and "people" not in settings:
        raise InputError(f"the teacher {text!r}: how many people? aggregated:3,majority=true")
    return name, settings


def _example(name: str) -> str:
    return {"aggregated": "3", "myopic": "0.9"}.get(name, "0.1")


def _read_value(value: str, kind: str, what: str) -> Any:
    try:
        if kind == "flag":
            return {"true": True, "yes": True, "false": False, "no": False}[value.lower()]
        number = float(value)
        if kind == "number":
            return number
        if number != int(number) or not 1 <= number <= MOST_PEOPLE:
            raise ValueError
        return int(number)
    except (ValueError, KeyError, OverflowError):
        wanted = {"flag": "true or false", "count": f"a whole number from 1 to {MOST_PEOPLE}", "number": "a number"}
        raise InputError(f"{what} must be {wanted[kind]}, got {value!r}") from None
