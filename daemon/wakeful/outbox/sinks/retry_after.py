"""How long a server asks to wait: the header Retry-After in the forms that servers really use, and vendors' own ways.

Invariant: what comes out is a finite, positive number of seconds of at most an hour, or None. A date is compared with
the server's own clock where it tells it, since ours may be wrong. Of several the longest counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

LONGEST_SECONDS: Final = 3600.0

_NUMBER: Final = re.compile(r"\d{1,20}(\.\d{1,9})?", re.ASCII)


def retry_after(value: str | None, *, server_date: str | None, now: datetime) -> float | None:
    """Give the seconds that `value` asks for: "120", "1.5", or a date. None where it asks for nothing readable."""
    text = (value or "").strip()
    if _NUMBER.fullmatch(text):
        seconds = float(text)
    else:
        at = _date(text)
        if at is None:
            return None
        seconds = (at - (_date(server_date or "") or now)).total_seconds()
    return min(seconds, LONGEST_SECONDS) if seconds > 0 else None


def in_seconds(milliseconds: str) -> str:
    """Give a number of milliseconds as one of seconds, both as texts; nothing where it is none."""
    text = milliseconds.strip()
    return f"{float(text) / 1000:.3f}" if _NUMBER.fullmatch(text) else ""


def longest_wait(values: Iterable[str], body: str, *, server_date: str | None, now: datetime) -> float | None:
    """Give the longest of what some headers and a body like ``{"retry_after": 0.65}`` ask for."""
    asked = (*values, wait_in(body))
    found = [retry_after(value, server_date=server_date, now=now) for value in asked]
    return max((seconds for seconds in found if seconds is not None), default=None)


def wait_in(body: str) -> str | None:
    """Give `retry_after` of a JSON object as text, as in ``{"retry_after": 0.65}``; None where there is none."""
    try:
        document = json.loads(body, parse_float=str, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    value = document.get("retry_after") if isinstance(document, dict) else None
    return value if isinstance(value, str) else None


def _date(text: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
