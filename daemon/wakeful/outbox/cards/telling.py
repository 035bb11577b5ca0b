"""What a card says, in words, for every vendor: what happened, how often, since when, to what, and what is next.

Invariant: plain texts only, not escaped for anything; of a payload nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from wakeful.outbox.cards.document import Message, Notice, Sample
from wakeful.outbox.cards.shortening import Room, cut

RESOLVED: Final = "alert.resolved"
TEST: Final = "alert.test"
_ENVIRONMENT: Final = 60

_STATES: Final[Mapping[str, str]] = {
    "alert.opened": "new",
    "alert.updated": "goes on",
    "alert.reminder": "still open",
    RESOLVED: "resolved",
    "alert.acknowledged": "acknowledged",
    "alert.digest": "summary",
    TEST: "test",
}
_SIGNS: Final[Mapping[str, str]] = {
    "info": "\N{LARGE BLUE CIRCLE}",
    "warning": "\N{LARGE YELLOW CIRCLE}",
    "error": "\N{LARGE RED CIRCLE}",
    "critical": "\N{POLICE CARS REVOLVING LIGHT}",
}
_RESOLVED_SIGN: Final = "\N{WHITE HEAVY CHECK MARK}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing to know: what it is, and its value."""

    label: str
    value: str


def sign(message: Message) -> str:
    """Give a sign by which a severity is seen from afar."""
    return _RESOLVED_SIGN if is_resolved(message) else _SIGNS[message.notice.severity]


def is_resolved(message: Message) -> bool:
    """Whether this says that it is over."""
    return message.type == RESOLVED


def state(message: Message) -> str:
    """Give the line above or below the title: severity, what is new, environment."""
    notice = message.notice
    parts = (notice.severity.upper(), _STATES.get(message.type, "new"), cut(notice.environment, _ENVIRONMENT))
    return " · ".join(part for part in parts if part)


def facts(message: Message, room: Room) -> tuple[Fact, ...]:
    """Give what is known, the most important first."""
    notice = message.notice
    known = (
        ("How often", how_often(notice)),
        ("Since", when(notice.first_seen)),
        ("Last", when(notice.last_seen) if notice.occurrences > 1 else ""),
        ("Attempts", notice.attempts),
        ("Subject", notice.subject),
        ("Job type", notice.job_type),
        ("Job", notice.job_id),
        ("Environment", notice.environment),
        ("Over because", notice.resolved_reason),
    )
    return tuple(Fact(label=label, value=cut(value, min(room.text, 300))) for label, value in known if value)


def samples(message: Message, room: Room) -> tuple[str, ...]:
    """Give a line for each of some jobs that it is about, where it is about several."""
    found = message.notice.samples
    if len(found) < 2:
        return ()
    lines = [cut(_sample_line(one), min(room.text, 300)) for one in found[: room.entries]]
    return (*lines, *_left(len(found) - len(lines), "job"))


def others(message: Message, room: Room) -> tuple[str, ...]:
    """Give a line for each alert of a summary, and how many more there are."""
    notice = message.notice
    lines = [cut(_alert_line(one), min(room.text, 300)) for one in notice.alerts[: room.entries]]
    return (*lines, *_left(len(notice.alerts) - len(lines) + notice.more, "alert"))


def how_often(notice: Notice) -> str:
    """Give the count in words; nothing where it is not known."""
    if not notice.occurrences:
        return ""
    return "once" if notice.occurrences == 1 else f"{notice.occurrences:,} times"


def when(text: str) -> str:
    """Give a time of ISO 8601 as people write it, in UTC; another text as it is."""
    try:
        at = datetime.fromisoformat(text)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return text
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def note(message: Message) -> str:
    """Give what a message needs said beside its facts: that a test needs a person."""
    if message.type != TEST:
        return ""
    return "This is a test. Only a person who sees it here knows that alerts arrive."


def _sample_line(sample: Sample) -> str:
    return " · ".join(part for part in (sample.subject, sample.error, sample.job_id) if part) or "a job"


def _alert_line(notice: Notice) -> str:
    over = notice.state == "resolved"
    told = f"{_RESOLVED_SIGN if over else _SIGNS[notice.severity]} {notice.title}"
    notes = (how_often(notice) if notice.occurrences > 1 else "", "resolved" if over else "")
    noted = ", ".join(note for note in notes if note)
    return f"{told} ({noted})" if noted else told


def _left(number: int, what: str) -> Sequence[str]:
    if number <= 0:
        return ()
    return (f"… and {number:,} more {what}{'' if number == 1 else 's'}",)
