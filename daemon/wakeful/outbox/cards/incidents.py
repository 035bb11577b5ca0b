"""An event of PagerDuty's Events API, version 2: an incident an alert, opened, acknowledged and resolved by its key."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from wakeful.outbox.cards import telling
from wakeful.outbox.cards.document import Message, is_time, read
from wakeful.outbox.cards.shortening import Room, cut, fitting

LARGEST_BYTES: Final = 200_000  # it takes 512 KB; nobody reads that much
_SUMMARY: Final = 300  # of the 1,024 that it takes; it is read aloud, and shown by a lock screen
_SOURCE: Final = 255
_ERROR: Final = 1000
_ACTIONS: Final[Mapping[str, str]] = {"alert.resolved": "resolve", "alert.acknowledged": "acknowledge"}


def pagerduty_event(body: str, routing_key: str, most: int = LARGEST_BYTES) -> bytes:
    """Give the bytes to post for a stored message. Raises ValueError where it is none."""
    message = read(body)
    return fitting(lambda room: _event(message, room, routing_key), most=most)


def dedup_key(message: Message) -> str:
    """Give the key of the incident: the same for all messages about an alert, another for another installation's."""
    notice = message.notice
    told = "\0".join((notice.environment, notice.dedupe_key or notice.group, notice.kind))
    return f"wakeful/{notice.alert_id or 'all'}/{hashlib.sha256(told.encode()).hexdigest()[:24]}"[:255]


def _event(message: Message, room: Room, routing_key: str) -> dict[str, Any]:
    action = _ACTIONS.get(message.type, "trigger")
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": action,
        "dedup_key": dedup_key(message),
    }
    if action != "trigger":
        return event
    notice = message.notice
    links = [{"href": link.url, "text": cut(link.label, _SOURCE)} for link in notice.links]
    return event | {"client": "Wakeful", "payload": _payload(message, room), "links": links}


def _payload(message: Message, room: Room) -> dict[str, Any]:
    notice = message.notice
    told = {
        **{fact.label: fact.value for fact in telling.times(message, room)},
        "Last error": cut(notice.error, min(room.text, _ERROR)),
        **{fact.label: fact.value for fact in telling.facts(message, room)},
        "Environment": cut(notice.environment, _SOURCE),
        "Jobs": list(telling.samples(message, room)),
        "Alerts": list(telling.others(message, room)),
        "Note": telling.note(message),
    }
    known = {
        "timestamp": message.timestamp if is_time(message.timestamp) else "",
        "component": cut(notice.job_type, _SOURCE),
        "group": cut(notice.group, _SOURCE),
        "class": cut(notice.kind, _SOURCE),
    }
    return {
        "summary": cut(notice.title, _SUMMARY),
        "source": cut(f"wakeful {notice.environment}".strip(), _SOURCE),
        "severity": notice.severity,
        "custom_details": {name: value for name, value in told.items() if value},
    } | {name: value for name, value in known.items() if value}
