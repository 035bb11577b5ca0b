"""What is sent: one JSON object a message, written once and never again; sinks make of it what their receivers read.

Invariant: any alert gives a message: text that can't be carried is replaced, secrets are hidden, nothing raises, and no
value of a payload is in it unless `alerts.payload` asks for it. A digest names a bounded number of alerts, and how many
more there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from wakeful.core import jsontext
from wakeful.core.alert_settings import AlertSettings
from wakeful.core.text import clean
from wakeful.outbox.links import links_of, links_of_digest
from wakeful.outbox.policy import rank
from wakeful.store.alerts import Looked, Story
from wakeful.telemetry.redaction import Redactor

UPDATED: Final = "alert.updated"
DIGEST: Final = "alert.digest"
UNREADABLE: Final = {"unreadable": "the details of this alert are nested too deeply to be sent"}
DIGEST_ENTRIES: Final = 20
_LINE_BYTES: Final = 500

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Composer:
    """Writes messages. `settings` say what all of them show: the environment, and where the page is."""

    settings: AlertSettings
    redactor: Redactor

    def message(self, kind: str, looked: Looked, story: Story, *, severity: str) -> str:
        """Give the message `kind`, such as alert.opened, about an alert as it is now."""
        details = self._decoded(story.body_text)
        known = details if isinstance(details, dict) else {}
        return _document(
            kind,
            looked.now,
            self._head(looked, severity)
            | {
                "job_id": None if looked.job_id is None else str(looked.job_id),
                "dedupe_key": self.redactor.text(looked.dedupe_key),
                "fingerprint": looked.fingerprint,
                "group": self.redactor.text(looked.dedupe_key),
                "error": self._first_line(known.get("last_error", known.get("error"))),
                "attempts": _attempts(known),
                # Of a rule: what events bring may be anybody's payload.
                "advice": known.get("advice") if looked.lasting else None,
                "environment": self.settings.environment,
                "samples": self._samples(story.samples_text),
                "payload": self._payload(story.payload_text),
                "links": links_of(kind, looked, self.settings),
                "resolved_reason": None
                if looked.resolved_reason is None
                else self.redactor.text(looked.resolved_reason),
                "more": 0,
                "alerts": [],
                "details": details,
            },
        )

    def entry(self, looked: Looked, *, severity: str) -> Entry:
        """Give an alert as a line of a digest."""
        return self._head(looked, severity) | {"state": looked.state}

    def digest(self, entries: Sequence[Entry], *, sink: str, title: str, now: datetime, more: int = 0) -> str:
        """Give one message about several alerts, `more` of which are not among `entries`."""
        ordered = sorted(entries, key=lambda one: (-rank(str(one["severity"])), -_number(one["occurrences"])))
        shown = ordered[:DIGEST_ENTRIES]
        head = {
            "alert_id": None,
            "kind": "digest",
            "severity": shown[0]["severity"] if shown else "info",
            "title": title,
            "subject": None,
            "job_type": None,
            "occurrences": sum(_number(one["occurrences"]) for one in entries),
            "first_seen": min((str(one["first_seen"]) for one in entries), default=now.isoformat()),
            "last_seen": max((str(one["last_seen"]) for one in entries), default=now.isoformat()),
        }
        rest: Entry = {
            "job_id": None,
            "dedupe_key": f"digest:{sink}",
            "fingerprint": None,
            "group": f"digest:{sink}",
            "error": None,
            "attempts": None,
            "environment": self.settings.environment,
            "samples": [],
            "payload": None,
            "links": links_of_digest(shown, self.settings, now),
            "resolved_reason": None,
            "more": len(ordered) - len(shown) + more,
            "alerts": shown,
            "details": {},
        }
        return _document(DIGEST, now, head | rest)

    def _head(self, looked: Looked, severity: str) -> Entry:
        return {
            "alert_id": looked.alert_id,
            "kind": looked.kind,
            "severity": severity,
            "title": self.redactor.stored(looked.title),
            "subject": None if looked.subject is None else self.redactor.text(looked.subject),
            "job_type": looked.job_type,
            "occurrences": looked.occurrences,
            "first_seen": looked.first_seen.isoformat(),
            "last_seen": looked.last_seen.isoformat(),
        }

    def _first_line(self, text: object) -> str | None:
        if not isinstance(text, str) or not text.strip():
            return None
        return clean(self.redactor.stored(text).strip().splitlines()[0], _LINE_BYTES)

    def _payload(self, text: str | None) -> str | None:
        return None if text is None else clean(self.redactor.stored(text), _LINE_BYTES)

    def _samples(self, text: str) -> list[dict[str, object]]:
        """The latest occurrences; texts are cut only here, when their secrets are hidden."""
        try:
            found = jsontext.loads(text)
        except (ValueError, RecursionError):
            return []
        return [
            {
                "job_id": one.get("job_id"),
                "subject": None if one.get("subject") is None else self.redactor.stored(str(one["subject"])),
                "error": self._first_line(one.get("error")),
            }
            for one in (found if isinstance(found, list) else [])
            if isinstance(one, dict)
        ]

    def _details(self, value: object) -> object:
        shown = self.redactor.value(value)
        if isinstance(value, dict) and isinstance(shown, dict) and isinstance(value.get("last_error"), str):
            shown["last_error"] = self.redactor.stored(value["last_error"])
        return shown

    def _decoded(self, text: str) -> object:
        try:
            value = self._details(jsontext.loads(text))
            jsontext.dumps([[[[value]]]])  # deeper than it will stand in a message
        except (ValueError, RecursionError):
            return UNREADABLE
        return value


def entries_of(bodies: Iterable[str]) -> tuple[list[Entry], int]:
    """Give the alerts that messages are about, each once, as lines of a digest; and how many more they do not name.

    A message that can't be read, as another version may have written it, is one more.
    """
    entries: dict[object, Entry] = {}
    more = 0
    for data in map(_data, bodies):
        more += _number(data.get("more"))
        named = data.get("alerts")
        for one in named if isinstance(named, list) and named else [data]:
            if isinstance(one, dict) and isinstance(one.get("alert_id"), int):
                entries[one["alert_id"]] = {
                    name: one.get(name)
                    for name in (
                        *("alert_id", "kind", "severity", "title", "subject", "job_type", "occurrences"),
                        *("first_seen", "last_seen", "state"),
                    )
                }
    return list(entries.values()), more


def _data(body: str) -> Mapping[str, Any]:
    try:
        message = jsontext.loads(body)
    except (ValueError, RecursionError):
        return {"more": 1}
    data = message.get("data") if isinstance(message, dict) else None
    return data if isinstance(data, dict) else {"more": 1}


def _document(kind: str, now: datetime, data: Mapping[str, object]) -> str:
    return jsontext.dumps({"type": kind, "timestamp": now.isoformat(), "data": data})


def _attempts(details: Mapping[str, Any]) -> dict[str, int] | None:
    made, most = details.get("attempts"), details.get("max_attempts")
    if isinstance(made, int) and isinstance(most, int):
        return {"made": made, "most": most}
    return None


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
