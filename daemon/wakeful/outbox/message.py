"""What is sent about an alert that was opened: one JSON object, written once and never again.

Invariant: any alert gives a message: text that can't be carried is replaced, secrets are hidden, nothing raises.
"""

from __future__ import annotations

from typing import Final

from wakeful.core import jsontext
from wakeful.store.outbox import Alert
from wakeful.telemetry.redaction import Redactor

OPENED: Final = "alert.opened"
UNREADABLE: Final = {"unreadable": "the details of this alert are nested too deeply to be sent"}


def opening_message(alert: Alert, redactor: Redactor) -> str:
    """Give the JSON text ``{"type": "alert.opened", "timestamp": …, "data": {…}}`` for a new alert."""
    return jsontext.dumps(
        {
            "type": OPENED,
            "timestamp": alert.last_seen.isoformat(),
            "data": {
                "alert_id": alert.alert_id,
                "kind": alert.kind,
                "severity": alert.severity,
                "title": redactor.text(alert.title),
                "subject": None if alert.subject is None else redactor.text(alert.subject),
                "job_type": alert.job_type,
                "job_id": None if alert.job_id is None else str(alert.job_id),
                "dedupe_key": redactor.text(alert.dedupe_key),
                "fingerprint": alert.fingerprint,
                "occurrences": alert.occurrences,
                "first_seen": alert.first_seen.isoformat(),
                "last_seen": alert.last_seen.isoformat(),
                "details": _details(alert.body_text, redactor),
            },
        }
    )


def _details(text: str, redactor: Redactor) -> object:
    try:
        details = redactor.value(jsontext.loads(text))
        jsontext.dumps(details)
    except (ValueError, RecursionError):
        return UNREADABLE
    return details
