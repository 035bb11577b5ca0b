"""What a handler asks for beside its result: follow-up jobs, alerts, reasons why it did with less.

Invariant: it is kept, not sent; the runtime commits it with the job's finish, or drops it with the attempt. Each value
is checked in the handler's own line, so that the finish is not refused for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Final

from wakeful.core import jsontext
from wakeful.core.alert_rules import RESERVED_KINDS
from wakeful.core.names import KEY_LIMIT_BYTES, SEVERITIES, did_you_mean, name_problem
from wakeful.core.outcome import AlertRequest, FollowUp
from wakeful.core.text import clean
from wakeful.errors import LeaseLost
from wakeful.handlers.options import EnqueueOptions
from wakeful.handlers.plain import encode_object

FOLLOW_UPS_LIMIT: Final = 10_000
FOLLOW_UPS_LIMIT_BYTES: Final = 64 * 1024 * 1024
ALERTS_LIMIT: Final = 100
ALERT_BODY_LIMIT_BYTES: Final = 64 * 1024
DEGRADED_LIMIT: Final = 50
REASON_LIMIT_BYTES: Final = 500

_KIND: Final = re.compile(r"[a-z][a-z0-9_.]{0,99}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffered:
    """What one attempt has asked for, in its order."""

    follow_ups: tuple[FollowUp, ...] = ()
    alerts: tuple[AlertRequest, ...] = ()
    degraded: tuple[str, ...] = ()


NOTHING: Final = Buffered()
Asked = FollowUp | AlertRequest | str


class Buffer:
    """Collects for one attempt, in any thread, until it is closed; `on_added` hears of each thing in its order."""

    __slots__ = ("_alerts", "_bytes", "_closed", "_degraded", "_follow_ups", "_lock", "_on_added")

    def __init__(self, on_added: Callable[[Asked], None] = lambda _asked: None) -> None:
        self._lock = Lock()
        self._on_added = on_added
        self._follow_ups: list[FollowUp] = []
        self._alerts: list[AlertRequest] = []
        self._degraded: list[str] = []
        self._bytes = 0
        self._closed = False

    def close(self) -> Buffered:
        """Give what was collected; whoever adds after that is told that the attempt is over."""
        with self._lock:
            self._closed = True
            return Buffered(
                follow_ups=tuple(self._follow_ups), alerts=tuple(self._alerts), degraded=tuple(self._degraded)
            )

    def add_follow_up(self, follow_up: FollowUp) -> None:
        """Keep a job to enqueue with the finish; raises ValueError past the bounds."""
        size = len(follow_up.payload_text) + len(follow_up.options_text)
        with self._lock:
            self._refuse_if_closed()
            if len(self._follow_ups) >= FOLLOW_UPS_LIMIT or self._bytes + size > FOLLOW_UPS_LIMIT_BYTES:
                raise ValueError(
                    f"one job enqueues at most {FOLLOW_UPS_LIMIT} others, of 64 MiB together; "
                    "enqueue one that enqueues the rest"
                )
            self._bytes += size
            self._follow_ups.append(follow_up)
            self._on_added(follow_up)

    def add_alert(self, alert: AlertRequest) -> None:
        """Keep an alert to raise when the job is settled; raises ValueError past the bound."""
        with self._lock:
            self._refuse_if_closed()
            if len(self._alerts) >= ALERTS_LIMIT:
                raise ValueError(f"one job raises at most {ALERTS_LIMIT} alerts")
            self._alerts.append(alert)
            self._on_added(alert)

    def add_degraded(self, reason: object) -> None:
        """Keep a reason, cleaned; said twice it counts once, and past the bound it is dropped."""
        text = clean(reason, REASON_LIMIT_BYTES)
        with self._lock:
            self._refuse_if_closed()
            if text not in self._degraded and len(self._degraded) < DEGRADED_LIMIT:
                self._degraded.append(text)
                self._on_added(text)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise LeaseLost("this attempt is over: what it asks for now would reach nobody")


def follow_up(job_type: str, payload_text: str, options: EnqueueOptions) -> FollowUp:
    """Give a checked follow-up job; raises ValueError."""
    if problem := name_problem(job_type):
        raise ValueError(f"job type {problem}")
    return FollowUp(
        job_type=job_type, payload_text=payload_text, options_text=jsontext.dumps(options.document())
    )


def alert_request(
    kind: str,
    *,
    title: object,
    severity: str,
    dedupe_key: str | None,
    subject: object,
    body: object,
) -> AlertRequest:
    """Give a checked alert; title and subject may hold any text and are cleaned. Raises ValueError."""
    if not _KIND.fullmatch(kind):
        raise ValueError(
            f"alert kind {kind!r}: use small letters, digits, dots and underscores: publish_failed"
        )
    if kind in RESERVED_KINDS:
        raise ValueError(
            f"alert kind {kind!r} is one of Wakeful's own: use a name of your own, such as shop.{kind}"
        )
    if severity not in SEVERITIES:
        hint = did_you_mean(str(severity), SEVERITIES)
        raise ValueError(f"severity {severity!r} is none of {', '.join(SEVERITIES)}{hint}")
    if dedupe_key is not None and (problem := name_problem(dedupe_key, KEY_LIMIT_BYTES)):
        raise ValueError(f"dedupe_key {problem}")
    first, colon, _ = (dedupe_key or "").partition(":")
    if colon and first in RESERVED_KINDS:
        raise ValueError(
            f"dedupe_key begins as those of Wakeful's own alerts do, with {first!r}: use another"
        )
    return AlertRequest(
        kind=kind,
        title=one_line(title) or kind,
        severity=severity,
        dedupe_key=dedupe_key,
        subject=None if subject is None else one_line(subject) or None,
        body_text=encode_object(body, ALERT_BODY_LIMIT_BYTES, "the alert's body"),
    )


def one_line(text: object) -> str:
    """Give a text as a name that the database takes: one line, clean, bounded."""
    return _CONTROL.sub(" ", clean(text, KEY_LIMIT_BYTES)).strip()
