"""Converters from a JSON value to one scalar of a payload: numbers, text, times, identifiers, choices.

Invariant: a converter never raises and never changes a value silently (an int becomes a float only when the float is
the same number); it notes a problem, which names kinds and never the value itself: it may be a secret.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from types import MappingProxyType
from typing import Final
from uuid import UUID

from wakeful.core.durations import parse_duration

Problems = list[tuple[str, str]]
Converter = Callable[[object, str, Problems], object]


def kind_of(value: object) -> str:
    """Name the JSON kind of a value: "a string", "an object" …"""
    if isinstance(value, bool):
        return "a boolean"
    for kind, types in _KINDS:
        if isinstance(value, types):
            return kind
    return "null" if value is None else f"a {type(value).__name__}"


def refuse(value: object, path: str, problems: Problems, *, expected: str) -> object:
    """Note that `value` is not what was expected; gives None in its place."""
    problems.append((path, f"expected {expected}, got {kind_of(value)}"))
    return None


def convert_any(value: object, _path: str, _problems: Problems) -> object:
    """Take any JSON value as it is."""
    return value


def convert_none(value: object, path: str, problems: Problems) -> object:
    """Take null only."""
    return None if value is None else refuse(value, path, problems, expected="null")


def convert_bool(value: object, path: str, problems: Problems) -> object:
    """Take true and false only."""
    return value if isinstance(value, bool) else refuse(value, path, problems, expected="a boolean")


def convert_int(value: object, path: str, problems: Problems) -> object:
    """Take an integer only: 1.0 is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return refuse(value, path, problems, expected="an integer")


def convert_float(value: object, path: str, problems: Problems) -> object:
    """Take a number: an integer only if a float holds it exactly, a long decimal as the nearest float."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return refuse(value, path, problems, expected="a number")
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf
    if not math.isfinite(nearest) or (isinstance(value, int) and int(nearest) != value):
        problems.append((path, "the number does not fit a float"))
    return nearest


def convert_decimal(value: object, path: str, problems: Problems) -> object:
    """Take a number, or a string of digits, digit by digit."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return refuse(value, path, problems, expected="a number")
    try:
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    except InvalidOperation:
        return refuse(value, path, problems, expected="a number")
    return number if number.is_finite() else refuse(value, path, problems, expected="a number")


def convert_str(value: object, path: str, problems: Problems) -> object:
    """Take a string only."""
    return value if isinstance(value, str) else refuse(value, path, problems, expected="a string")


def _convert_duration(value: object, path: str, problems: Problems) -> object:
    if not isinstance(value, Decimal):
        try:
            return timedelta(seconds=parse_duration(value))
        except ValueError:
            pass
    return refuse(value, path, problems, expected='a duration such as "30s" or a number of seconds')


def _from_text(expected: str, read: Callable[[str], object]) -> Converter:
    def convert(value: object, path: str, problems: Problems) -> object:
        if not isinstance(value, str):
            return refuse(value, path, problems, expected=expected)
        try:
            return read(value)
        except ValueError:
            problems.append((path, f"expected {expected}; the string is none"))
            return None

    return convert


def enum_converter(choices: type[Enum]) -> Converter:
    """Take the value of a member, give the member."""
    return choice_converter(tuple((member.value, member) for member in choices))


def choice_converter(choices: tuple[tuple[object, object], ...]) -> Converter:
    """Take one of the first values, give the second that goes with it."""
    expected = f"one of {', '.join(repr(given) for given, _meant in choices)}"

    def convert(value: object, path: str, problems: Problems) -> object:
        for given, meant in choices:
            # True == 1 in Python, not in JSON.
            if given == value and isinstance(given, bool) == isinstance(value, bool):
                return meant
        problems.append((path, f"expected {expected}"))
        return None

    return convert


_KINDS: Final = (
    ("an integer", int),
    ("a number", (float, Decimal)),
    ("a string", str),
    ("an array", (list, tuple)),
    ("an object", Mapping),
)

SCALARS: Final[Mapping[object, Converter]] = MappingProxyType(
    {
        object: convert_any,
        type(None): convert_none,
        bool: convert_bool,
        int: convert_int,
        float: convert_float,
        Decimal: convert_decimal,
        str: convert_str,
        timedelta: _convert_duration,
        datetime: _from_text("a time in ISO 8601", datetime.fromisoformat),
        date: _from_text("a date in ISO 8601", date.fromisoformat),
        time: _from_text("a time of day in ISO 8601", time.fromisoformat),
        UUID: _from_text("a UUID", UUID),
    }
)
