"""Alerts as lines of the log: for who reads logs, and where nothing else is configured.

The line is the event `alert.told`; the log of the process decides how it looks, and hides secrets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wakeful.outbox.cards.document import read
from wakeful.outbox.cards.shortening import cut
from wakeful.outbox.sinks.protocol import Answer, Failed, Sent
from wakeful.store.outbox import Delivery
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import ALERT_TOLD

_LINE: Final = 500


@dataclass(frozen=True, slots=True)
class LogSink:
    """Writes each alert as one event of the process's telemetry."""

    name: str
    telemetry: Telemetry
    timeout: float = 1.0
    pace: float = 0.0

    async def send(self, delivery: Delivery) -> Answer:
        """Emit the line."""
        try:
            message = read(delivery.body)
        except ValueError as error:
            return Failed(reason=f"no line can be made of it: {error}", permanent=True)
        notice = message.notice
        self.telemetry.emit(
            ALERT_TOLD,
            sink=self.name,
            delivery_id=str(delivery.delivery_id),
            message=message.type,
            alert_id=delivery.alert_id,
            kind=cut(notice.kind, _LINE),
            severity=notice.severity,
            title=cut(notice.title, _LINE),
            subject=cut(notice.subject, _LINE) or None,
            job_type=cut(notice.job_type, _LINE) or None,
            job_id=cut(notice.job_id, _LINE) or None,
            occurrences=notice.occurrences,
            first_seen=notice.first_seen or None,
            advice=cut(notice.advice, _LINE) or None,
            error=cut(notice.error, _LINE) or None,
            attempts=notice.attempts or None,
            resolved_reason=cut(notice.resolved_reason, _LINE) or None,
            environment=cut(notice.environment, _LINE) or None,
        )
        return Sent("logged")
