"""Quiet hours of a sink: "22:00-07:00" in a time zone, and when they are over.

Invariant: local times of the zone, so that they mean the same in summer and winter; a span that ends before it begins
goes over midnight.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_SPAN: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """A span of each day."""

    begin: time
    end: time
    zone: tzinfo

    def over_at(self, now: datetime) -> datetime | None:
        """Give when the quiet that holds at `now` is over; None where none holds."""
        local = now.astimezone(self.zone)
        clock = local.time().replace(tzinfo=None)
        over_midnight = self.begin > self.end
        in_span = (
            (clock >= self.begin or clock < self.end) if over_midnight else (self.begin <= clock < self.end)
        )
        if not in_span:
            return None
        day = local.date() + timedelta(days=1 if over_midnight and clock >= self.begin else 0)
        end = datetime.combine(day, self.end, self.zone)
        # Where clocks are put back, there is the same time twice, and the first of them may be over.
        return max(end.astimezone(now.tzinfo), end.replace(fold=1).astimezone(now.tzinfo))


def quiet_hours(text: str, zone: str) -> QuietHours:
    """Read a span and a zone. Raises ValueError."""
    match = _SPAN.fullmatch(text.strip())
    if match is None or match.groups()[:2] == match.groups()[2:]:
        raise ValueError(f'{text!r} is no span of the day, such as "22:00-07:00"')
    begin, end = time(int(match[1]), int(match[2])), time(int(match[3]), int(match[4]))
    try:
        return QuietHours(begin=begin, end=end, zone=_zone(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f'{zone!r} is not a time zone known here, such as "Europe/Berlin"') from None


def _zone(name: str) -> tzinfo:
    # There may be no data on zones where we run; of this one none is needed.
    return UTC if name == "UTC" else ZoneInfo(name)
