"""The least that can be said of an alert: for one whose details could not be rendered, or were refused as they are.

Invariant: it is made of what the daemon itself wrote (numbers, names, times) and of no text of anybody else, each of
which may be what went wrong; it has every field of a message, so that whoever reads messages reads it, too. What it is
about stays the same: an incident that was opened with details is resolved without.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from wakeful.core import jsontext
from wakeful.core.text import clean
from wakeful.store.alerts import Looked
from wakeful.store.outbox import Delivery
from wakeful.telemetry.redaction import Redactor

DETAILS: Final = {"unreadable": "the details of this alert could not be rendered, or were refused"}
_NAME_BYTES: Final = 200
_KEY_BYTES: Final = 1000
_EMPTY: Final[Mapping[str, object]] = {
    **dict.fromkeys(
        (
            "job_id",
            "fingerprint",
            "subject",
            "error",
            "attempts",
            "advice",
            "payload",
            "environment",
            "resolved_reason",
        )
    ),
    "samples": [],
    "links": [],
    "more": 0,
    "alerts": [],
    "details": DETAILS,
}


def bare_message(
    kind: str, looked: Looked, *, severity: str, environment: str | None, redactor: Redactor
) -> str:
    """Give the message `kind`, such as alert.opened, about an alert of which nothing else can be said."""
    known = {
        "alert_id": looked.alert_id,
        "kind": looked.kind,
        "severity": severity,
        "job_type": looked.job_type,
        "occurrences": looked.occurrences,
        "first_seen": looked.first_seen.isoformat(),
        "last_seen": looked.last_seen.isoformat(),
        "dedupe_key": redactor.text(looked.dedupe_key),
        "environment": environment,
    }
    return _document(kind, looked.now.isoformat(), known)


def bare_entry(looked: Looked, *, severity: str) -> dict[str, object]:
    """Give an alert of which nothing else can be said as a line of a digest."""
    return {
        "alert_id": looked.alert_id,
        "kind": looked.kind,
        "severity": severity,
        "title": _title(looked.kind, looked.job_type),
        "subject": None,
        "job_type": looked.job_type,
        "occurrences": looked.occurrences,
        "first_seen": looked.first_seen.isoformat(),
        "last_seen": looked.last_seen.isoformat(),
        "state": looked.state,
    }


def without_details(delivery: Delivery, now: datetime) -> str:
    """Give what is sent in the place of a message that is refused as it is, or that no sink can read."""
    message = _read(delivery.body)
    data = message.get("data")
    known = data if isinstance(data, dict) else {}
    own = {"alert_id": delivery.alert_id, "kind": known.get("kind") or delivery.kind}
    kind = _name(message.get("type")) or "alert.opened"
    return _document(kind, _name(message.get("timestamp")) or now.isoformat(), {**known, **own})


def _document(kind: str, timestamp: str, known: Mapping[str, object]) -> str:
    what = _name(known.get("kind")) or "alert"
    job_type = _name(known.get("job_type"))
    key = clean(known.get("dedupe_key") or f"alert:{_number(known.get('alert_id'))}", _KEY_BYTES)
    data = {
        **_EMPTY,
        "alert_id": _number(known.get("alert_id")),
        "kind": what,
        "severity": _name(known.get("severity")) or "error",
        "title": _title(what, job_type),
        "job_type": job_type,
        "occurrences": _number(known.get("occurrences")) or 1,
        "first_seen": _name(known.get("first_seen")) or timestamp,
        "last_seen": _name(known.get("last_seen")) or timestamp,
        "dedupe_key": key,
        "group": key,
        "environment": _name(known.get("environment")),
    }
    return jsontext.dumps({"type": kind, "timestamp": timestamp, "data": data})


def _title(kind: str, job_type: str | None) -> str:
    about = kind if job_type is None else f"{kind} of {job_type}"
    return f"{about}: its details could not be rendered"


def _read(body: str) -> Mapping[str, object]:
    try:
        message = jsontext.loads(body)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _name(value: object) -> str | None:
    return clean(value, _NAME_BYTES) if isinstance(value, str) and value else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
