"""What became of one attempt, as a value: the executor decides it, the finisher writes it.

Every text here is already clean and within its limit (`core.text`), every JSON text already encoded and checked.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorEntry:
    """One failure as it is stored: `last_error` is `summary`, the history keeps the rest.

    `fingerprint` tells one bug from another in the alerts; None: its `type` does.
    """

    type: str
    message: str
    traceback: str | None = None
    fingerprint: str | None = None

    @property
    def summary(self) -> str:
        """The one line that an operator reads first."""
        return f"{self.type}: {self.message}" if self.message else self.type


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """A job enqueued in the transaction that finishes its parent. Options as in `wakeful.enqueue`, JSON text."""

    job_type: str
    payload_text: str
    options_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRequest:
    """An alert raised by a handler, written in the transaction that settles its job. `body_text` is a JSON object."""

    kind: str
    title: str
    severity: str
    dedupe_key: str | None
    subject: str | None
    body_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The handler returned. `result_text` is JSON; `degraded` says with what less it made do."""

    result_text: str
    degraded: tuple[str, ...] = ()
    history: bool = True
    follow_ups: tuple[FollowUp, ...] = ()
    alerts: tuple[AlertRequest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The attempt failed: PENDING after `delay` seconds while attempts are left and `retry` is true, else DEAD."""

    error: ErrorEntry
    delay: float
    retry: bool = True
    alerts: tuple[AlertRequest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snoozed:
    """Run again after `delay` seconds, attempt returned."""

    delay: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedBack:
    """Interrupted by our own stop: attempt returned; claimable again after `delay` seconds (0: at once)."""

    delay: float = 0.0
    counted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """CANCELLED: discarded by its handler, or cancelled on request while it ran."""

    reason: str
    alerts: tuple[AlertRequest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """Our own lease was about to run out: the job is given up as a lost owner's, attempt returned, `lost` counted."""

    reason: str


Outcome = Done | Failed | Snoozed | HandedBack | Discarded | Fenced
