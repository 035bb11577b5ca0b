"""The string by which the runtime pulls at a running attempt: why it should stop, and how long it still has.

Invariant: the first reason stands; it may be set and read in any thread. What becomes of the attempt is decided by
the reason, never by the exception that the handler made of it (F34).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Final

from wakeful.errors import JobCancelled, JobDeadlineExceeded, JobInterrupted, LeaseLost

_CANCELLING: Final = Lock()  # one for all: hardly any attempt is cancelled, and then it is held for a moment

StopReason = JobDeadlineExceeded | JobCancelled | JobInterrupted | LeaseLost


class AttemptControl:
    """One attempt's stop reason and deadline; `seconds` count from now on `clock`, a monotonic one."""

    __slots__ = ("_clock", "_expires_at", "_reason")

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._expires_at = clock() + seconds
        self._reason: StopReason | None = None

    def cancel(self, reason: StopReason) -> bool:
        """Ask the attempt to stop for `reason`; False where another reason came first."""
        with _CANCELLING:
            if self._reason is None:
                self._reason = reason
            return self._reason is reason

    @property
    def reason(self) -> StopReason | None:
        """Why the attempt should stop, None while it may go on."""
        return self._reason

    @property
    def cancelled(self) -> bool:
        """Whether the attempt should stop."""
        return self._reason is not None

    def time_left(self) -> float:
        """Give the seconds until the deadline, 0.0 when it has passed."""
        return max(0.0, self._expires_at - self._clock())

    def restart(self, seconds: float) -> None:
        """Count the deadline from now on: what came before was a wait."""
        self._expires_at = self._clock() + seconds

    def stop_if_cancelled(self) -> None:
        """Raise the reason, where there is one: a fresh exception, since many threads may raise it."""
        reason = self._reason
        if reason is not None:
            raise type(reason)(*reason.args)
