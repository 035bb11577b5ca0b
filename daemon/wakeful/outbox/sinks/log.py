"""Alerts as lines of the log: for who reads logs, and where nothing else is configured.

The line is the event `alert.told`; the log of the process decides how it looks, and hides secrets.
"""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.core import jsontext
from wakeful.outbox.sinks.protocol import Answer, Failed, Sent
from wakeful.store.outbox import Delivery
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import ALERT_TOLD

_SHOWN = ("alert_id", "kind", "severity", "title", "subject", "job_type", "job_id", "occurrences")


@dataclass(frozen=True, slots=True)
class LogSink:
    """Writes each alert as one event of the process's telemetry."""

    name: str
    telemetry: Telemetry
    timeout: float = 1.0
    pace: float = 0.0

    async def send(self, delivery: Delivery) -> Answer:
        """Emit the line."""
        message = jsontext.loads(delivery.body)
        data = message.get("data") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(data, dict):
            return Failed(reason="the message is not an alert", permanent=True)
        shown = {field: data.get(field) for field in _SHOWN}
        self.telemetry.emit(
            ALERT_TOLD,
            sink=self.name,
            delivery_id=str(delivery.delivery_id),
            message=message.get("type"),
            **shown,
        )
        return Sent("logged")
