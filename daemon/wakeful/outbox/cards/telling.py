"""What a card says, in words, for every vendor: what happened, how often, since when, to what, and what is next.

Invariant: plain texts only, not escaped for anything; of a payload nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from wakeful.outbox.cards.document import Message, Notice, Sample, is_time
from wakeful.outbox.cards.shortening import Room, cut

# Of a title and of an error so many characters are shown in a chat: more would push all else off a phone.
TITLE_SHOWN: Final = 150
ERROR_SHOWN: Final = 600
RESOLVED: Final = "alert.resolved"
TEST: Final = "alert.test"
DIGEST: Final = "alert.digest"
_ENVIRONMENT: Final = 60
_UNITS: Final = ((1440, "d"), (60, "h"), (1, "min"))
_FACT: Final = 300
_LINE: Final = 120  # two or three lines of a phone
_REST: Final = 50
_SHORTEST: Final = 12
_SEEN_AT_ONCE: Final = 140  # a title of so many characters is shortened by nobody
_REASONS: Final[Mapping[str, str]] = {"quiet": "it has not happened again"}

_STATES: Final[Mapping[str, str]] = {
    "alert.opened": "new",
    "alert.updated": "goes on",
    "alert.reminder": "still open",
    "alert.acknowledged": "acknowledged",
    DIGEST: "summary",
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
    now = (notice.severity.upper(), _STATES.get(message.type, "new"))
    if is_resolved(message):
        now = ("RESOLVED", f"was {notice.severity}")
    parts = (*now, cut(notice.environment, _ENVIRONMENT))
    return " · ".join(part for part in parts if part)


def times(message: Message, room: Room) -> tuple[Fact, ...]:
    """Give why it is over, how often it happened, since when, and what to do. They stand before the error."""
    notice = message.notice
    over = _REASONS.get(notice.resolved_reason, notice.resolved_reason)
    known = (
        ("Over because", over),
        ("How often", how_often(notice)),
        ("Since", " ".join(part for part in (when(notice.first_seen), _so_far(message)) if part)),
        ("Last", when(notice.last_seen) if notice.occurrences > 1 else ""),
        ("What to do", "" if is_resolved(message) else notice.advice),
    )
    return _known(known, room)


def facts(message: Message, room: Room) -> tuple[Fact, ...]:
    """Give what it is about, the most important first."""
    notice = message.notice
    known = (
        ("Attempts", notice.attempts),
        ("Subject", notice.subject),
        ("Job type", notice.job_type),
        ("Job", notice.job_id),
        ("Payload", "" if is_resolved(message) else notice.payload),
    )
    return _known(known, room)


def error(message: Message, most: int, *, size: Callable[[str], int] = len) -> str:
    """Give the error, shortened; nothing where the title has the whole of it, as that of a death often does."""
    notice = message.notice
    said = len(notice.title) <= _SEEN_AT_ONCE and notice.title.endswith(notice.error)
    return "" if said else cut(notice.error, most, size=size)


def samples(message: Message, room: Room, *, size: Callable[[str], int] = len) -> tuple[str, ...]:
    """Give a line for each of some jobs that it is about, where it is about several."""
    found = message.notice.samples
    if len(found) < 2:
        return ()
    lines = [cut(_sample_line(one, message.notice), min(room.text, _LINE)) for one in found[: room.entries]]
    shown = _within(lines, room.lines, size)
    return (*shown, *_left(len(found) - len(shown), "job"))


def others(message: Message, room: Room, *, size: Callable[[str], int] = len) -> tuple[str, ...]:
    """Give a line for each alert of a summary, and how many more there are."""
    notice = message.notice
    lines = [_alert_line(one, min(room.text, _LINE)) for one in notice.alerts[: room.entries]]
    shown = _within(lines, room.lines, size)
    return (*shown, *_left(len(notice.alerts) - len(shown) + notice.more, "alert"))


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


def _so_far(message: Message) -> str:
    """Give for how long it has gone on when the message was made, so that nobody has to reckon in another time zone."""
    if is_resolved(message) or not (is_time(message.notice.first_seen) and is_time(message.timestamp)):
        return ""
    made, first = (datetime.fromisoformat(text) for text in (message.timestamp, message.notice.first_seen))
    minutes = int((made - first).total_seconds()) // 60
    number, unit = next((minutes // size, unit) for size, unit in _UNITS if minutes >= 2 * size or size == 1)
    return f"(for {number} {unit})" if number > 0 else ""


def note(message: Message) -> str:
    """Give what a message needs said beside its facts: that a test needs a person."""
    if message.type != TEST:
        return ""
    return "This is a test. Only a person who sees it here knows that alerts arrive."


def _known(found: Iterable[tuple[str, str]], room: Room) -> tuple[Fact, ...]:
    return tuple(
        Fact(label=label, value=cut(value, min(room.text, _FACT))) for label, value in found if value
    )


def _sample_line(sample: Sample, notice: Notice) -> str:
    """Give what tells this job from the others: its subject or its error, or else its id."""
    subject = "" if sample.subject == notice.subject else sample.subject
    error = "" if sample.error == notice.error else sample.error
    return "• " + (" · ".join(part for part in (subject, error) if part) or sample.job_id or "a job")


def _alert_line(notice: Notice, most: int) -> str:
    """Give an alert of a summary: its title is shortened, its count is not."""
    over = notice.state == "resolved"
    notes = (how_often(notice) if notice.occurrences > 1 else "", "resolved" if over else "")
    noted = ", ".join(note for note in notes if note)
    ending = f" ({noted})" if noted else ""
    sign_of_it = _RESOLVED_SIGN if over else _SIGNS[notice.severity]
    return f"{sign_of_it} {cut(notice.title, max(most - len(ending), _SHORTEST))}{ending}"


def _within(lines: Sequence[str], most: int, size: Callable[[str], int]) -> Sequence[str]:
    """Give the first of some lines that fit, with room for the one that counts the rest."""
    left = most - _REST
    for number, line in enumerate(lines):
        left -= size(line) + 1
        if left < 0:
            return lines[:number]
    return lines


def _left(number: int, what: str) -> Sequence[str]:
    if number <= 0:
        return ()
    return (f"… and {number:,} more {what}{'' if number == 1 else 's'}",)
