"""An event of PagerDuty's Events API, version 2: an incident an alert, opened, acknowledged and resolved by its key."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from wakeful.outbox.cards import telling
from wakeful.outbox.cards.document import LONGEST_TEXT, Message, read
from wakeful.outbox.cards.shortening import Room, cut, fitting

LARGEST_BYTES: Final = 200_000  # it takes 512 KB; nobody reads that much
_SUMMARY: Final = 1024
_SOURCE: Final = 255
_ACTIONS: Final[Mapping[str, str]] = {"alert.resolved": "resolve", "alert.acknowledged": "acknowledge"}


def pagerduty_event(body: str, routing_key: str) -> bytes:
    """Give the bytes to post for a stored message. Raises ValueError where it is none."""
    message = read(body)
    return fitting(lambda room: _event(message, room, routing_key), most=LARGEST_BYTES)


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
    links = [{"href": link.url, "text": link.label} for link in notice.links]
    return event | {"client": "Wakeful", "payload": _payload(message, room), "links": links}


def _payload(message: Message, room: Room) -> dict[str, Any]:
    notice = message.notice
    details: dict[str, Any] = {fact.label: fact.value for fact in telling.facts(message, room)}
    told = {
        "Last error": cut(notice.error, min(room.text, LONGEST_TEXT)),
        "Jobs": list(telling.samples(message, room)),
        "Alerts": list(telling.others(message, room)),
        "Note": telling.note(message),
    }
    known = {
        "timestamp": message.timestamp,
        "component": cut(notice.job_type, _SOURCE),
        "group": cut(notice.group, _SOURCE),
        "class": cut(notice.kind, _SOURCE),
    }
    return {
        "summary": cut(notice.title, _SUMMARY),
        "source": cut(f"wakeful {notice.environment}".strip(), _SOURCE),
        "severity": notice.severity,
        "custom_details": details | {name: value for name, value in told.items() if value},
    } | {name: value for name, value in known.items() if value}
