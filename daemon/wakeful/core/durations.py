"""Durations as people write them ("30s", "1h30m", 5, a timedelta), as float seconds.

Invariant: what comes out is finite, not negative and no longer than ten years, so that it fits an interval of
PostgreSQL and a timer of the event loop. Whether zero makes sense is for the caller to say.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Final

LONGEST_SECONDS: Final = 3650 * 86400.0

_SECONDS_OF_UNIT: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])", re.ASCII)
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern}\s*)+", re.ASCII)
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_HINT: Final = 'write "250ms", "30s", "5m", "1h30m", "7d" or a number of seconds'


def parse_duration(value: object) -> float:
    """Give a duration in seconds. Raises ValueError, whose message says how a duration is written."""
    if isinstance(value, timedelta):
        return _checked(value.total_seconds(), value)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{_shown(value)} is not a duration: {_HINT}")
    if isinstance(value, str):
        return _checked(_parse_text(value), value)
    return _checked(_as_float(value), value)


def format_duration(seconds: float) -> str:
    """Give seconds in the largest unit that divides them: 600.0 -> "10m", 0.25 -> "250ms", 90.5 -> "90.5s"."""
    milliseconds = round(seconds * 1000)
    if milliseconds == 0:
        return "0s"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms" if milliseconds < 1000 else f"{milliseconds / 1000:g}s"


def _parse_text(text: str) -> float:
    stripped = text.strip().lower()
    if len(stripped) > 40:
        raise ValueError(f"{_shown(text)} is not a duration: {_HINT}")
    if _NUMBER.fullmatch(stripped):
        return float(stripped)
    if not _WHOLE.fullmatch(stripped):
        raise ValueError(f"{_shown(text)} is not a duration: {_HINT}")
    return math.fsum(float(amount) * _SECONDS_OF_UNIT[unit] for amount, unit in _PART.findall(stripped))


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # an int beyond the floats: too long like any other
        return math.inf


def _checked(seconds: float, value: object) -> float:
    if math.isnan(seconds):
        raise ValueError(f"{_shown(value)} is not a duration: {_HINT}")
    if seconds < 0:
        raise ValueError(f"{_shown(value)} is negative; a duration is zero or more")
    if seconds > LONGEST_SECONDS:
        raise ValueError(f"{_shown(value)} is too long; a duration is at most ten years")
    return seconds


def _shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return "an integer of many digits"  # its digits may be beyond what Python prints
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
