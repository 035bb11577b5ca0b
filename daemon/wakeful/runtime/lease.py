"""The lease of this instance, as every part of the process may ask for it: who we are, and since when we are silent.

Invariant: silence counts from the time at which the last successful beat was *sent*, on a clock that runs in suspend,
so this process never believes itself alive for longer than the database does (I1). An instance that was deposed is
never alive again; the process takes a new id.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from threading import Lock
from typing import Final

START_UNTIL: Final = 0.6
INTERRUPT_AT: Final = 0.8
EXIT_AT: Final = 0.95

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def suspended_clock() -> float:
    """Seconds on a clock that goes on while the machine is suspended, where the system has one."""
    return time.clock_gettime(_CLOCK)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who claims: the instance id and its incarnation."""

    instance_id: int
    incarnation: int

    @property
    def pair(self) -> tuple[int, int]:
        """Both, as the statements take them."""
        return self.instance_id, self.incarnation


def new_incarnation() -> int:
    """A random 63-bit number, above 0."""
    return secrets.randbits(63) | 1


def new_token() -> int:
    """A claim token: a random 63-bit number, above 0, made before its statement is sent (I4)."""
    return secrets.randbits(63) | 1


class Lease:
    """Thread-safe: the beat's thread writes it, everybody reads it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner: Owner | None = None
        self._sent = suspended_clock()
        self._unanswered = False

    @property
    def owner(self) -> Owner | None:
        """Who we are now; None before the registration, and between being deposed and the next one."""
        return self._owner

    @property
    def unanswered(self) -> bool:
        """Whether the last beat was sent and has had no answer: the database, or the way there, is in trouble."""
        return self._unanswered

    def sending(self) -> None:
        """A beat is about to be sent."""
        self._unanswered = True

    def registered(self, owner: Owner, *, sent: float) -> None:
        """A row for us was committed; `sent` is when the statement was sent."""
        with self._lock:
            self._owner, self._sent, self._unanswered = owner, sent, False

    def beaten(self, owner: Owner, *, sent: float) -> None:
        """A beat of `owner` got through; `sent` is when it was sent."""
        with self._lock:
            self._unanswered = False
            if self._owner == owner:
                self._sent = max(self._sent, sent)

    def deposed(self, owner: Owner) -> bool:
        """`owner` was taken for dead; True if that was us until now."""
        with self._lock:
            if self._owner != owner:
                return False
            self._owner = None
            return True

    def silent(self) -> float:
        """Seconds since the last successful beat was sent."""
        return suspended_clock() - self._sent

    def may_start(self, lease: float) -> bool:
        """Whether a job with this lease may still be started or claimed."""
        # Asked for each job, so without a call of `silent`.
        return self._owner is not None and time.clock_gettime(_CLOCK) - self._sent < START_UNTIL * lease
