"""Specimens: alerts as rules make them, for people who want to see a card before there is a reason for one.

Invariant: nothing here is stored, and nothing of it is somebody's: names and errors are made up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final
from uuid import UUID, uuid4

from wakeful.core.alert_settings import AlertSettings
from wakeful.core.links import SPECIMEN
from wakeful.outbox.links import TEST
from wakeful.outbox.message import Composer
from wakeful.outbox.rules import RULES
from wakeful.outbox.rules.evaluating import condition_of
from wakeful.outbox.rules.rule import Rule
from wakeful.store.alerts import Looked, Story
from wakeful.store.outbox import Delivery
from wakeful.telemetry.redaction import Redactor

_JOB: Final = UUID("01980f3e-7a10-7cc0-b1f0-3d0c5a4f9e21")
_DEATH: Final = (
    '{"queue": "default", "attempts": 5, "max_attempts": 5, "run_no": 5, "lost": 0,'
    ' "last_error": "TimeoutError: the map provider did not answer within 10 s"}'
)
_DEATHS: Final = (
    '[{"job_id": "01980f3e-7a10-7cc0-b1f0-3d0c5a4f9e21", "subject": "place 9",'
    ' "error": "TimeoutError: the map provider did not answer within 10 s"},'
    ' {"job_id": "01980f3e-7a0c-7e15-8d3a-52f1c06b7a94", "subject": "place 31",'
    ' "error": "TimeoutError: the map provider did not answer within 10 s"}]'
)
_FAILED: Final = (
    '{"queue": "default", "attempts": 1, "max_attempts": 5, "run_no": 1,'
    ' "last_error": "ConnectionError: the site\'s server refused the upload"}'
)

Specimen = tuple[Looked, Story]


def names() -> tuple[str, ...]:
    """The rules of which there are specimens."""
    return (*_EVENTS, *(rule.name for rule in RULES))


def specimen_of(name: str, settings: AlertSettings, redactor: Redactor, *, now: datetime) -> Delivery:
    """Give the message alert.opened as a rule makes it. Raises KeyError for a rule that is unknown."""
    looked, story = _specimen(name, now)
    body = Composer(settings=settings, redactor=redactor).message(
        "alert.opened", looked, story, severity=looked.severity
    )
    return Delivery(delivery_id=uuid4(), alert_id=looked.alert_id, kind=name, attempt=1, body=body)


def trial(settings: AlertSettings, redactor: Redactor, *, now: datetime) -> Delivery:
    """Give a message that only tests a sink: it says so, and is about nothing."""
    looked = _looked(
        now, kind="test", title="This is a test of Wakeful's alerts: nothing has happened", severity="info"
    )
    story = Story(body_text="{}", samples_text="[]")
    body = Composer(settings=settings, redactor=redactor).message(TEST, looked, story, severity="info")
    return Delivery(delivery_id=uuid4(), alert_id=None, kind="test", attempt=1, body=body)


def _specimen(name: str, now: datetime) -> Specimen:
    if name in _EVENTS:
        return _EVENTS[name](now)
    rule = {one.name: one for one in RULES}[name]
    return _condition(rule, now)


def _condition(rule: Rule, now: datetime) -> Specimen:
    held = condition_of(rule, rule.example, None)
    looked = _looked(
        now,
        kind=rule.name,
        title=held.title,
        severity=held.severity,
        key=held.key,
        job_type=held.job_type,
        subject=held.subject,
        lasting=True,
    )
    return looked, Story(body_text=held.details_text, samples_text="[]")


def _death(now: datetime) -> Specimen:
    looked = _looked(
        now,
        kind="job_dead",
        title="COLLECT died: TimeoutError: the map provider did not answer within 10 s",
        severity="error",
        key="job_dead:COLLECT:TimeoutError@shop.places:fetch",
        job_type="COLLECT",
        occurrences=12,
        job_id=_JOB,
    )
    return looked, Story(body_text=_DEATH, samples_text=_DEATHS)


def _failure(now: datetime) -> Specimen:
    looked = _looked(
        now,
        kind="job_failed",
        title="PUBLISH failed and runs again: ConnectionError: the site's server refused the upload",
        severity="critical",
        key="job_failed:PUBLISH:ConnectionError",
        job_type="PUBLISH",
        subject="place 9",
        job_id=_JOB,
    )
    return looked, Story(body_text=_FAILED, samples_text="[]")


def _hand_back(now: datetime) -> Specimen:
    looked = _looked(
        now,
        kind="never_finishes",
        title="VISION was handed back 5 times and never finished",
        severity="warning",
        key="never_finishes:VISION",
        job_type="VISION",
        subject="place 9",
        job_id=_JOB,
    )
    return looked, Story(body_text='{"queue": "default", "handed_back": 5, "run_no": 5}', samples_text="[]")


_EVENTS: Final[Mapping[str, Callable[[datetime], Specimen]]] = MappingProxyType(
    {"job_dead": _death, "job_failed": _failure, "never_finishes": _hand_back}
)


def _looked(
    now: datetime,
    *,
    kind: str,
    title: str,
    severity: str,
    key: str | None = None,
    job_type: str | None = None,
    subject: str | None = None,
    occurrences: int = 1,
    job_id: UUID | None = None,
    lasting: bool = False,
) -> Looked:
    return Looked(
        alert_id=int(SPECIMEN),
        dedupe_key=key or kind,
        kind=kind,
        job_type=job_type,
        fingerprint=key or kind,
        title=title,
        severity=severity,
        subject=subject,
        job_id=job_id,
        occurrences=occurrences,
        first_seen=now - timedelta(seconds=10),
        last_seen=now,
        lasting=lasting,
        state="open",
        opened_at=now,
        resolved_at=None,
        resolved_reason=None,
        queue=None,
        job_owner=None,
        muted_until=None,
        now=now,
    )
