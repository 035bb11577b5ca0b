"""What a name may be: job types, queues, subjects, keys, priorities, the same in Python as in `wakeful.enqueue`.

Invariant: what passes here is accepted by the SQL functions too; their limits are these.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final

PRIORITIES: Final = ("interactive", "normal", "batch")
SEVERITIES: Final = ("info", "warning", "error", "critical")

NAME_LIMIT_BYTES: Final = 200
KEY_LIMIT_BYTES: Final = 1000
MAX_ATTEMPTS_LIMIT: Final = 1000
LONGEST_DEADLINE_SECONDS: Final = 30 * 86400.0

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def name_problem(value: object, limit_bytes: int = NAME_LIMIT_BYTES) -> str | None:
    """Say what keeps `value` from being a name ("is empty"), or give None."""
    if not isinstance(value, str):
        return f"is a {type(value).__name__}, not a string"
    if not value:
        return "is empty"
    if _CONTROL.search(value):
        return "contains a control character"
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        return "contains a lone surrogate, which is not valid Unicode"
    return f"is {size} bytes long; at most {limit_bytes} are allowed" if size > limit_bytes else None


def max_attempts_problem(value: object) -> str | None:
    """Say what keeps `value` from being a number of attempts, or give None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return f"is a {type(value).__name__}, not a whole number"
    return None if 1 <= value <= MAX_ATTEMPTS_LIMIT else f"is out of range; use 1 to {MAX_ATTEMPTS_LIMIT}"


def deadline_problem(seconds: float) -> str | None:
    """Say what keeps `seconds` from being the longest time that one attempt may run, or give None."""
    return (
        None if 0 < seconds <= LONGEST_DEADLINE_SECONDS else "is out of range; more than 0, at most 30 days"
    )


def priority_problem(value: object) -> str | None:
    """Say what keeps `value` from being a priority, or give None."""
    if value in PRIORITIES:
        return None
    hint = did_you_mean(value, PRIORITIES) if isinstance(value, str) else ""
    return f"is none of {', '.join(PRIORITIES)}{hint}"


def did_you_mean(name: str, known: tuple[str, ...]) -> str:
    """Give ", did you mean 'x'?" where a known name is close, else nothing."""
    close = get_close_matches(name, known, n=1)
    return f", did you mean {close[0]!r}?" if close else ""
