"""Stored messages as the outbox makes them, for tests of what is made of them."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from wakeful.store.outbox import Delivery

DELIVERY_ID = UUID("01980f3e-7a10-7cc0-b1f0-3d0c5a4f9e21")
PAYLOAD_VALUE = "a-value-of-the-payload"
ENGLISH = "ValueError: the menu of place 9 has no prices"
KOREAN = "값 오류: 9번 장소의 메뉴에 가격이 없습니다"


def body(message_type: str = "alert.opened", /, **changed: object) -> str:
    """The JSON text of a message; what is given replaces a field of its data."""
    data: dict[str, Any] = {
        "alert_id": 7,
        "kind": "job_dead",
        "severity": "error",
        "title": "COLLECT died: no prices",
        "subject": "place 9",
        "job_type": "COLLECT",
        "job_id": "01980f3e-0000-7cc0-b1f0-3d0c5a4f9e21",
        "dedupe_key": "job_dead:COLLECT:place 9",
        "fingerprint": "COLLECT:ValueError",
        "group": "job_dead:COLLECT:ValueError",
        "occurrences": 37,
        "first_seen": "2026-12-01T05:48:18.126+00:00",
        "last_seen": "2026-12-01T06:12:40+00:00",
        "error": ENGLISH,
        "attempts": {"made": 5, "most": 5},
        "advice": None,
        "payload": None,
        "environment": "production",
        "samples": [{"job_id": f"job {n}", "subject": f"place {n}", "error": ENGLISH} for n in range(1, 4)],
        "links": [
            {"label": "Open job", "url": "https://wakeful.example.com/jobs/1?a=1&b=2"},
            {"label": "Mute an hour", "url": "https://wakeful.example.com/mute/7?until=1h&sig=abc(d)"},
        ],
        "resolved_reason": None,
        "more": 0,
        "alerts": [],
        "details": {"payload": {"key": PAYLOAD_VALUE}},
    }
    document = {"type": message_type, "timestamp": "2026-12-01T06:12:41.5+00:00", "data": data | changed}
    return json.dumps(document, ensure_ascii=False)


def delivery(text: str | None = None, *, attempt: int = 1) -> Delivery:
    """A try of a message."""
    return Delivery(
        delivery_id=DELIVERY_ID,
        alert_id=7,
        kind="job_dead",
        attempt=attempt,
        body=body() if text is None else text,
    )


def digest(number: int = 30, title: str = "COLLECT died") -> str:
    """A summary of several alerts, of which some were left out."""
    alerts = [
        {"alert_id": n, "kind": "job_dead", "severity": "warning", "title": f"{title} {n}", "occurrences": n}
        for n in range(number)
    ]
    return body(
        "alert.digest", alert_id=None, kind="digest", title="30 alerts", alerts=alerts, more=12, samples=[]
    )
