"""A step of a handler, as a block: ``async with job.step("fetch")`` on the loop, ``with`` in a thread.

Invariant: the block starts after its "running" is stored, and ends after its "done" or "failed" is. Which of the two
ways is right is known from the thread that asks; the wrong one says so and changes nothing. Where the attempt is traced
the block is a span.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from wakeful.core.text import describe_exception
from wakeful.errors import Discard, JobCancelled, JobInterrupted, Snooze
from wakeful.handlers.bridge import Bridge
from wakeful.handlers.control import AttemptControl
from wakeful.telemetry.job_log import redactor_of_current_attempt
from wakeful.telemetry.tracing.joining import Failure, step_block

if TYPE_CHECKING:
    from wakeful.telemetry.tracing.blocks import Block

_MAKING: Final = Lock()


class Marked(Protocol):
    """The progress of an attempt as its steps need it: `Progress`, or what tells one in another process."""

    async def begin(self) -> None:
        """Store the declared steps."""
        ...

    async def enter(self, name: str) -> None:
        """Store that a step runs."""
        ...

    async def leave(self, name: str, *, error: str | None) -> None:
        """Store that a step has ended."""
        ...

    def mark(self, name: str | None, percent: float | None, message: str | None) -> None:
        """Note percent and message of a step."""
        ...

    @property
    def due(self) -> bool:
        """Whether something is to be written now."""
        ...

    async def flush_if_due(self) -> None:
        """Write what was marked, if it may be written now."""
        ...


class ProgressPort:
    """The progress of an attempt, reached from the loop and from threads alike; made when it is first asked for."""

    __slots__ = ("_make", "_progress", "bridge", "control")

    def __init__(self, make: Callable[[], Marked], bridge: Bridge, control: AttemptControl) -> None:
        self._make = make
        self._progress: Marked | None = None
        self.bridge = bridge
        self.control = control

    @property
    def progress(self) -> Marked:
        """The attempt's one progress."""
        progress = self._progress
        if progress is None:
            with _MAKING:  # two threads of one handler may ask at once
                progress = self._progress = self._progress or self._make()
        return progress

    def mark(self, name: str | None, percent: float | None, message: str | None) -> Awaitable[None]:
        """Note percent and message, and write them if a second has passed: when awaited, in a thread at once.

        In a thread it raises the reason why the attempt should stop: the way in which a plain handler can be ended.
        """
        on_loop = self.bridge.on_loop()
        if not on_loop:
            self.control.stop_if_cancelled()
        self.progress.mark(name, percent, message)
        if on_loop:
            return _Due(self.progress)
        if self.progress.due:
            self.bridge.call(self.progress.flush_if_due, self.control)
        return _Due(None)


class Step:
    """One entry into a step; made by `job.step`."""

    __slots__ = ("_port", "_spans", "name")

    def __init__(self, port: ProgressPort, name: str) -> None:
        self._port = port
        self._spans: list[Block] = []
        self.name = name

    def progress(self, percent: float | None = None, message: str | None = None) -> Awaitable[None]:
        """Tell how far this step is, 0 to 100, and what it does. Written once a second at most.

        Await it in an async handler; a plain one just calls it. Raises LeaseLost when the job is another's by now.
        """
        return self._port.mark(self.name, percent, message)

    async def __aenter__(self) -> Self:
        if not self._port.bridge.on_loop():
            raise RuntimeError("in a handler's thread write `with job.step(...)`, without `async`")
        await self._port.progress.enter(self.name)
        self._begin_span()
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        raised: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._end_span(raised)
        await self._port.progress.leave(self.name, error=self._error(raised))

    def __enter__(self) -> Self:
        if self._port.bridge.on_loop():
            raise RuntimeError("in an async handler write `async with job.step(...)`")
        self._port.control.stop_if_cancelled()
        self._port.bridge.call(partial(self._port.progress.enter, self.name), self._port.control)
        self._begin_span()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        raised: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._end_span(raised)
        leave = partial(self._port.progress.leave, self.name, error=self._error(raised))
        self._port.bridge.call(leave, self._port.control)

    def _error(self, raised: BaseException | None) -> str | None:
        if raised is None:
            return None
        return describe_exception(self._reason(raised)).summary

    def _reason(self, raised: BaseException) -> BaseException:
        # A cancelled handler sees CancelledError; its reader wants to know why.
        reason = self._port.control.reason if isinstance(raised, asyncio.CancelledError) else None
        return reason or raised

    def _begin_span(self) -> None:
        block = step_block(self.name)
        if block is not None:
            self._spans.append(block)

    def _end_span(self, raised: BaseException | None) -> None:
        if self._spans:
            self._spans.pop().leave(None if raised is None else self._failure(self._reason(raised)))

    @staticmethod
    def _failure(raised: BaseException) -> Failure | None:
        if isinstance(raised, Snooze | Discard | JobInterrupted | JobCancelled):
            return None
        entry, redactor = describe_exception(raised), redactor_of_current_attempt()
        return Failure(entry.type, entry.message if redactor is None else redactor.shortened(entry.message))


class _Due:
    """What `progress` gives back: awaiting it writes what is due; not awaiting it only leaves that for later."""

    __slots__ = ("_progress",)

    def __init__(self, progress: Marked | None) -> None:
        self._progress = progress

    def __await__(self) -> Generator[Any, None, None]:
        if self._progress is not None:
            yield from self._progress.flush_if_due().__await__()
