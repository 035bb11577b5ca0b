"""The progress of one attempt: its steps as a document, and when that document is written.

Invariant: a change of a step's status is stored before the step is entered or left; percent and message wait for at
most one write a second. Only the attempt that owns the job writes: after one refusal every further call raises
LeaseLost. Times are the database's, through the clock that the runtime passes; secrets are hidden by what it passes as
`hide` (R12). Who opens a step is `handlers.steps`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from threading import Lock
from typing import Final, Protocol

import anyio

from wakeful.core import jsontext
from wakeful.core.text import clean
from wakeful.errors import LeaseLost, StoreError, StoreUnavailable
from wakeful.handlers.control import AttemptControl
from wakeful.handlers.declaring import STEP_NAME_LIMIT_BYTES, STEPS_LIMIT

THROTTLE_SECONDS: Final = 1.0
MESSAGE_LIMIT_BYTES: Final = 500
# Secrets are hidden before a text is cut: half of one would not be found.
HIDDEN_WITHIN_BYTES: Final = 16 * 1024
IMPLICIT_STEP: Final = "run"


class ProgressWriter(Protocol):
    """Where documents go: the store, bound to one claim."""

    async def write(self, document: str) -> bool:
        """Store JSON text; False where the claim holds no longer. Raises StoreUnavailable. Has a deadline."""
        ...

    async def available(self) -> None:
        """Wait until the database may be asked again."""
        ...


@dataclass(slots=True)
class _Entry:
    """One step as it is shown. `inside` counts who is in it: it may be entered by several at once."""

    name: str
    status: str = "pending"
    started_at: str | None = None
    finished_at: str | None = None
    percent: float | None = None
    message: str | None = None
    error: str | None = None
    inside: int = 0

    def document(self) -> dict[str, object]:
        return {
            "name": self.name,
            "status": self.status,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "percent": self.percent,
            "message": self.message,
            "error": self.error,
        }


class Progress:
    """The progress document of one attempt. Marks may come from any thread, writes happen on the daemon's loop."""

    __slots__ = (
        "_attempt",
        "_changes",
        "_clock",
        "_control",
        "_entered",
        "_entries",
        "_hide",
        "_lock",
        "_lost",
        "_now",
        "_omitted",
        "_on_mark",
        "_writer",
        "_writing",
        "_written",
        "_written_at",
    )

    def __init__(
        self,
        writer: ProgressWriter,
        control: AttemptControl,
        *,
        attempt: int,
        steps: Sequence[str],
        database_now: Callable[[], datetime],
        on_mark: Callable[[Progress], None] | None = None,
        hide: Callable[[str], str] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer = writer
        self._control = control
        self._attempt = attempt
        self._now = database_now
        self._on_mark = on_mark
        self._hide = hide
        self._clock = clock
        self._lock = Lock()
        self._writing = anyio.Lock()
        self._entries = {name: _Entry(name) for name in steps}
        self._entered: list[str] = []
        self._omitted = 0
        self._changes = 0
        self._written = 0
        self._written_at = -math.inf
        self._lost = False

    async def begin(self) -> None:
        """Store the declared steps before the handler starts; nothing is written for a type that declares none."""
        if self._entries:
            with self._lock:
                self._changes += 1
            await self._store(self._changes)

    async def enter(self, name: str) -> None:
        """Store that a step runs; waits through an outage. Raises LeaseLost, and the reason of an attempt that ends."""
        self._control.stop_if_cancelled()
        await self._store(self._mark_entered(clean(name, STEP_NAME_LIMIT_BYTES)))

    async def leave(self, name: str, *, error: str | None) -> None:
        """Store that a step has ended, well or (with `error`) not.

        After an error, or when the attempt is to stop, one try must do and its failure is not raised: what the handler
        raises says more. Else as `enter`.
        """
        change = self._mark_left(clean(name, STEP_NAME_LIMIT_BYTES), error)
        if error is None and not self._control.cancelled:
            await self._store(change)
        else:
            with suppress(StoreError):
                await self._write(change)

    def mark(self, name: str | None, percent: float | None, message: str | None) -> None:
        """Note percent and message of a step, of the one entered last where none is named; thread-safe, no write."""
        shown = percent_of(percent)
        text = None if message is None else self._shown(message)
        self._raise_if_lost()
        with self._lock:
            entry = self._entry(self._current() if name is None else clean(name, STEP_NAME_LIMIT_BYTES))
            if entry.status == "pending":
                self._start(entry)
            entry.percent = entry.percent if percent is None else shown
            entry.message = entry.message if message is None else text
            self._changes += 1
        if self._on_mark is not None:
            self._on_mark(self)

    @property
    def waiting(self) -> bool:
        """Whether something is not written yet."""
        return self._changes > self._written

    @property
    def due(self) -> bool:
        """Whether something is not written yet, and the last write is long enough ago."""
        return self.waiting and self._clock() - self._written_at >= THROTTLE_SECONDS

    async def flush_if_due(self) -> None:
        """Write what was marked, if it may be written now; an outage only delays it. Raises LeaseLost."""
        self._raise_if_lost()
        if self.due:
            with suppress(StoreUnavailable):
                await self._write(self._changes)

    async def flush(self) -> None:
        """Write what is not written yet, at once. Raises LeaseLost and StoreUnavailable."""
        if self.waiting:
            await self._write(self._changes)

    async def close(self, error: str | None) -> None:
        """End the steps that still run, with the attempt's error if it has one, and flush. Raises like `flush`."""
        with self._lock:
            for entry in self._entries.values():
                if entry.status == "running":
                    self._end(entry, error)
                    self._changes += 1
        await self.flush()

    def document(self) -> str:
        """Give the document as JSON text: ``{"attempt": n, "steps": [...]}``, with "omitted" past a hundred steps."""
        with self._lock:
            shown: dict[str, object] = {
                "attempt": self._attempt,
                "steps": [entry.document() for entry in self._entries.values()],
            }
            if self._omitted:
                shown["omitted"] = self._omitted
        return jsontext.dumps(shown)

    def _mark_entered(self, name: str) -> int:
        with self._lock:
            entry = self._entry(name)
            self._omitted += name not in self._entries
            entry.inside += 1
            self._start(entry)
            self._entered.append(name)
            self._changes += 1
            return self._changes

    def _mark_left(self, name: str, error: str | None) -> int:
        with self._lock:
            entry = self._entry(name)
            entry.inside = max(0, entry.inside - 1)
            self._entered.reverse()
            with suppress(ValueError):
                self._entered.remove(name)
            self._entered.reverse()
            if error is not None or (entry.inside == 0 and entry.status == "running"):
                self._end(entry, error)
            self._changes += 1
            return self._changes

    def _current(self) -> str:
        return self._entered[-1] if self._entered else IMPLICIT_STEP

    def _entry(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            entry = _Entry(name)
            if len(self._entries) < STEPS_LIMIT:
                self._entries[name] = entry
        return entry

    def _start(self, entry: _Entry) -> None:
        if entry.status != "running":
            entry.status, entry.started_at = "running", self._time()
            entry.finished_at = entry.percent = entry.message = entry.error = None

    def _end(self, entry: _Entry, error: str | None) -> None:
        entry.status = "done" if error is None else "failed"
        entry.finished_at = self._time()
        entry.error = None if error is None else self._shown(error)
        if error is None and entry.percent is not None:
            entry.percent = 100.0

    def _shown(self, text: str) -> str:
        return clean(self._hide(clean(text, HIDDEN_WITHIN_BYTES)), MESSAGE_LIMIT_BYTES)

    def _time(self) -> str:
        return self._now().isoformat(timespec="milliseconds")

    def _raise_if_lost(self) -> None:
        if self._lost:
            raise LeaseLost("this attempt has lost its job: another claim holds it, or none")

    async def _store(self, change: int) -> None:
        """Write until it is written: a status that the database has not seen was never shown to anybody."""
        while True:
            try:
                return await self._write(change)
            except StoreUnavailable:
                self._control.stop_if_cancelled()
                await self._writer.available()

    async def _write(self, change: int) -> None:
        # A handler that is being cancelled still says so: the write has its own deadline (R11).
        with anyio.CancelScope(shield=True):
            async with self._writing:
                self._raise_if_lost()
                if self._written >= change:
                    return
                newest, document = self._changes, self.document()
                self._written_at = self._clock()
                self._lost = not await self._writer.write(document)
                self._raise_if_lost()
                self._written = newest


def percent_of(percent: float | None) -> float | None:
    """Give a percentage as it is shown, from 0 to 100; raises TypeError and ValueError for what is none."""
    if percent is None:
        return None
    if isinstance(percent, bool) or not isinstance(percent, int | float | Decimal):
        raise TypeError(f"percent is a {type(percent).__name__}, not a number from 0 to 100")
    if math.isnan(percent):
        raise ValueError("percent is not a number")
    return round(float(min(100, max(0, percent))), 1)
