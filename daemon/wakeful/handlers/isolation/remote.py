"""The progress of an attempt as its handler's process sees it: told to the daemon, which owns and writes it.

Invariant: a step is entered and left only after the daemon has stored that; percent and message are sent five times a
second at most, and never after the end of the step that they are about. All rules of what is stored are the daemon's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from itertools import count
from threading import Lock
from types import MappingProxyType
from typing import Final

from wakeful import errors
from wakeful.core.text import clean
from wakeful.errors import LeaseLost, WakefulError
from wakeful.handlers.isolation.frames import Frame, optional_text_of
from wakeful.handlers.isolation.sending import Outlet
from wakeful.handlers.progress import HIDDEN_WITHIN_BYTES, percent_of

SENT_EVERY_SECONDS: Final = 0.2

_RAISED: Final[Mapping[str, Callable[[str], WakefulError]]] = MappingProxyType(
    {
        kind.__name__: kind
        for kind in (
            errors.LeaseLost,
            errors.JobCancelled,
            errors.JobDeadlineExceeded,
            errors.JobInterrupted,
            errors.StoreUnavailable,
        )
    }
)


def raised_by_daemon(frame: Frame, name: str = "error") -> WakefulError:
    """Give the exception that a frame of the daemon's names, with its message."""
    kind = _RAISED.get(optional_text_of(frame, name) or "", WakefulError)
    return kind(optional_text_of(frame, "message") or "")


class RemoteProgress:
    """The progress of one attempt; like `Progress`, marks may come from any thread, the rest from the loop."""

    __slots__ = ("_answers", "_armed", "_lock", "_loop", "_lost", "_marks", "_numbers", "_outlet", "_sent_at")

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._marks: dict[str | None, dict[str, object]] = {}
        self._answers: dict[int, asyncio.Future[Frame]] = {}
        self._numbers = count(1)
        self._sent_at = 0.0
        self._armed = False
        self._lost = ""

    async def begin(self) -> None:
        """The daemon has stored the declared steps already."""

    async def enter(self, name: str) -> None:
        """Have it stored that a step runs. Raises what `Progress.enter` raises."""
        await self._ask({"do": "enter", "name": clean(name, HIDDEN_WITHIN_BYTES)})

    async def leave(self, name: str, *, error: str | None) -> None:
        """Have it stored that a step has ended. Raises what `Progress.leave` raises."""
        shown = None if error is None else clean(error, HIDDEN_WITHIN_BYTES)
        await self._ask({"do": "leave", "name": clean(name, HIDDEN_WITHIN_BYTES), "error": shown})

    def mark(self, name: str | None, percent: float | None, message: str | None) -> None:
        """Note percent and message; sent now or soon. Raises LeaseLost, TypeError and ValueError."""
        if self._lost:
            raise LeaseLost(self._lost)
        given: dict[str, object] = {"percent": percent_of(percent)}
        given["message"] = None if message is None else clean(message, HIDDEN_WITHIN_BYTES)
        step = None if name is None else clean(name, HIDDEN_WITHIN_BYTES)
        with self._lock:
            noted = self._marks.setdefault(step, {})
            noted |= {key: value for key, value in given.items() if value is not None}
            due = time.monotonic() - self._sent_at >= SENT_EVERY_SECONDS
            arm, self._armed = not (due or self._armed), self._armed or not due
        if due:
            self.send_marks()
        elif arm:
            self._loop.call_soon_threadsafe(self._loop.call_later, SENT_EVERY_SECONDS, self.send_marks)

    @property
    def due(self) -> bool:
        """Nothing is ever left for the caller to write."""
        return False

    async def flush_if_due(self) -> None:
        """The daemon writes what is marked."""
        if self._lost:
            raise LeaseLost(self._lost)

    def send_marks(self) -> None:
        """Send what was noted and not sent."""
        with self._lock:
            marks, self._marks = self._marks, {}
            self._sent_at, self._armed = time.monotonic(), False
        for name, noted in marks.items():
            self._outlet.send({"do": "mark", "name": name, **noted})

    def answered(self, frame: Frame) -> None:
        """The daemon has answered a question."""
        answer = self._answers.pop(int(frame.get("id", 0)), None)
        if answer is not None and not answer.done():
            answer.set_result(frame)

    def lose(self, message: str) -> None:
        """The job is another's by now: every further mark raises."""
        self._lost = message

    async def _ask(self, question: Frame) -> None:
        self.send_marks()
        number = next(self._numbers)
        self._answers[number] = self._loop.create_future()
        self._outlet.send({**question, "id": number})
        try:
            answer = await self._answers[number]
        finally:
            self._answers.pop(number, None)
        if "error" in answer:
            raise raised_by_daemon(answer)
