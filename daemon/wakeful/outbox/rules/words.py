"""Words that several rules need: times as people say them, and what stands in details."""

from __future__ import annotations

from wakeful.core import jsontext
from wakeful.core.durations import format_duration
from wakeful.store.conditions import Found


def span(seconds: float) -> str:
    """Give a time span in whole seconds or minutes: 45s, 12m."""
    whole = round(seconds)
    return format_duration(float(whole if whole < 600 else whole // 60 * 60))


def detail(found: Found, name: str) -> object:
    """Give a value of the details, or None."""
    details = jsontext.loads(found.details_text)
    return details.get(name) if isinstance(details, dict) else None
