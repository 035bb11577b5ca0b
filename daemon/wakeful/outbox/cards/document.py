"""The stored message, read for people: every field checked, every text cleaned, what is unknown left out.

Invariant: whatever stands in the document, reading gives values that can be shown: one line a text, without control
characters, marks that turn the direction of what follows, or lone surrogates, none longer than `LONGEST_TEXT`, and
empty where nobody would see anything.
What an event brings stands in `details`, which is not read here. Only a document that is no message is a ValueError.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

from wakeful.core import jsontext
from wakeful.outbox.cards.shortening import cut

LONGEST_TEXT: Final = 4000
LONGEST_URL: Final = 1000
MOST_SAMPLES: Final = 20
MOST_LINKS: Final = 6
SEVERITIES: Final = ("info", "warning", "error", "critical")

MOST_MARKS: Final = 8  # on one letter; more would be written over the lines above and below

_UNSHOWN: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# What turns the direction of the rest, and what nobody sees but that keeps a search from finding a word.
_TURNING: Final = re.compile("[\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_BLANK_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cn", "Mn", "Me", "Zs", "Zl", "Zp"})
_BLANK_LETTERS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_UNLINKED: Final = re.compile(r"[\s<>|\"\\^`{}\x00-\x20\x7f-\x9f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Where a button leads: an address of http or https."""

    label: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One of the jobs that an alert is about."""

    job_id: str
    subject: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What is said about one alert, or about several. An empty text is one that is not known."""

    alert_id: str
    kind: str
    severity: str
    title: str
    subject: str
    job_type: str
    job_id: str
    dedupe_key: str
    group: str
    occurrences: int
    first_seen: str
    last_seen: str
    error: str
    attempts: str
    advice: str
    payload: str
    environment: str
    resolved_reason: str
    state: str
    more: int
    samples: tuple[Sample, ...]
    links: tuple[Link, ...]
    alerts: tuple[Notice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One stored message: its type, such as alert.opened, and when it was made."""

    type: str
    timestamp: str
    notice: Notice


def read(body: str) -> Message:
    """Read the JSON text of a message. Raises ValueError where it is none."""
    try:
        document = jsontext.loads(body)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    data = document.get("data") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(data, dict):
        raise ValueError("the message is not an alert")
    return Message(
        type=line(document.get("type")) or "alert.opened",
        timestamp=line(document.get("timestamp")),
        notice=_notice(data, deep=True),
    )


def line(value: object) -> str:
    """Give a text or a number as one line that can be shown; anything else is the empty text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    text = str(value)[: 2 * LONGEST_TEXT]
    shown = _SURROGATE.sub("\ufffd", _TURNING.sub("", _UNSHOWN.sub(" ", text))).strip()
    if shown.isascii():
        return cut(shown, LONGEST_TEXT)
    return cut(_with_few_marks(shown), LONGEST_TEXT) if any(map(_is_seen, shown)) else ""


def is_time(text: str) -> bool:
    """Whether a text is a time of ISO 8601 with its zone, as vendors take it."""
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _is_seen(character: str) -> bool:
    return unicodedata.category(character) not in _BLANK_CATEGORIES and character not in _BLANK_LETTERS


def _with_few_marks(text: str) -> str:
    kept: list[str] = []
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        if marks <= MOST_MARKS:
            kept.append(character)
    return "".join(kept)


def _notice(data: Mapping[str, object], *, deep: bool) -> Notice:
    severity = line(data.get("severity")).lower()
    kind = line(data.get("kind")) or "alert"
    return Notice(
        alert_id=line(data.get("alert_id")),
        kind=kind,
        severity=severity if severity in SEVERITIES else "error",
        title=line(data.get("title")) or kind,
        subject=line(data.get("subject")),
        job_type=line(data.get("job_type")),
        job_id=line(data.get("job_id")),
        dedupe_key=line(data.get("dedupe_key")),
        group=line(data.get("group")),
        occurrences=_count(data.get("occurrences")),
        first_seen=line(data.get("first_seen")),
        last_seen=line(data.get("last_seen")),
        error=_last_line(data.get("error")),
        attempts=_attempts(data.get("attempts")),
        advice=line(data.get("advice")),
        payload=line(data.get("payload")),
        environment=line(data.get("environment")),
        resolved_reason=line(data.get("resolved_reason")),
        state=line(data.get("state")),
        more=_count(data.get("more")),
        samples=tuple(map(_sample, _tables(data.get("samples"))[:MOST_SAMPLES])),
        links=_links(data.get("links")),
        alerts=tuple(_notice(one, deep=False) for one in _tables(data.get("alerts"))) if deep else (),
    )


def _last_line(value: object) -> str:
    """Give the last line of an error, which names it; the lines above it are the way there."""
    if not isinstance(value, str):
        return line(value)
    lines = [one for one in value[-2 * LONGEST_TEXT :].splitlines() if one.strip()]
    if not lines:
        return ""
    # A single line is cut at its end and not at its start, whatever its length.
    return line(value.strip()) if len(lines) == 1 else line(lines[-1])


def _attempts(value: object) -> str:
    if not isinstance(value, dict):
        return ""
    made, most = line(value.get("made")), line(value.get("most"))
    return f"{made} of {most}" if made and most else made


def _sample(value: Mapping[str, object]) -> Sample:
    return Sample(
        job_id=line(value.get("job_id")),
        subject=line(value.get("subject")),
        error=_last_line(value.get("error")),
    )


def _links(value: object) -> tuple[Link, ...]:
    found = []
    for entry in _tables(value):
        url = entry.get("url")
        if isinstance(url, str) and _is_web_address(url):
            found.append(Link(label=line(entry.get("label")) or "Open", url=url))
    return tuple(found[:MOST_LINKS])


def _is_web_address(url: str) -> bool:
    if len(url) > LONGEST_URL or _UNLINKED.search(url) or _SURROGATE.search(url):
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def _tables(value: object) -> list[Mapping[str, object]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return 0
    return min(value, 10**15)
