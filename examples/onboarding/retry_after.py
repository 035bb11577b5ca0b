"""Reading a `Retry-After` header: seconds or a date, as RFC 9110 allows both. The crawler and the provider share it."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

LONGEST_SECONDS: Final = 86_400.0


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds from `now`, between 0 and a day; None when the header is missing or says nothing that can be read."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), LONGEST_SECONDS)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min(max((aware - now).total_seconds(), 0.0), LONGEST_SECONDS)
