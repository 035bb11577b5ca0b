"""An event loop that no handler can stop: `sys.exit()` in a task or callback of a handler's ends that, not the daemon,
`loop.stop()` nothing, and `cancel()` only what belongs to the same attempt.

asyncio lets SystemExit and KeyboardInterrupt out of the loop wherever they are raised (R8), and lets anybody cancel
every task of the loop. Invariant: a task of the daemon is cancelled by the daemon alone, one of an attempt by that
attempt or the daemon; who asks is known by the context variables, which all inherit that an attempt starts. Signals are
not ours to lose: they are handled in `aio.shutdown` and raise nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from functools import partial
from importlib import util
from typing import Any, Final, TypeVar

from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import EXIT_REFUSED
from wakeful.telemetry.job_log import attempt_in

T = TypeVar("T")

_OURS: Final = "the daemon"
_NOBODY: Final = "code without an attempt, such as a thread that a handler has started"
_daemon: ContextVar[str] = ContextVar("wakeful_daemon", default=_NOBODY)


def sturdy_loop(telemetry: Telemetry) -> asyncio.AbstractEventLoop:
    """Give a new event loop, uvloop's where that is installed, that goes on after a SystemExit.

    From here on the caller's context, and all that is started in it, counts as the daemon.
    """
    _daemon.set(_OURS)
    loop = _new_loop()
    loop.set_task_factory(partial(_make, _Refusals(telemetry)))
    loop.set_task_factory = partial(_keep_factory, telemetry)  # type: ignore[method-assign]
    loop.run_forever = partial(_run_on, loop.run_forever, telemetry)  # type: ignore[method-assign]
    loop.run_until_complete = partial(  # type: ignore[method-assign]
        _run_until_complete, loop, loop.run_until_complete, telemetry
    )
    return loop


class _Owned(asyncio.Task[Any]):
    """A task that is not cancelled in the name of an attempt that it does not belong to."""

    # With a dictionary of its own each job would take longer.
    __slots__ = ("context", "refusals")

    context: Context
    refusals: _Refusals

    def cancel(self, msg: Any | None = None) -> bool:
        """Ask it to end, as usual; False, and nothing happens, where whoever asks may not."""
        asking, own = _owner(), _owner(self.context)
        if asking is own or own is _NOBODY:
            return super().cancel(msg)
        if asking is _OURS:
            # In its own name: what it waits for is cancelled with it, and that may be a task of ours.
            return self.context.copy().run(super().cancel, msg)
        self.refusals.tell(asking)
        return False


def _make(
    refusals: _Refusals,
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, Any],
    context: Context | None = None,
    **options: Any,
) -> asyncio.Task[Any]:
    """Make a task of the loop."""
    chosen = copy_context() if context is None else context
    task = _Owned(coroutine, loop=loop, context=chosen, **options)
    task.context, task.refusals = chosen, refusals
    return task


class _Refusals:
    """Tells of what was refused."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._told: object = None

    def tell(self, asking: object) -> None:
        """Tell it once for each who asks in a row: who cancels one usually cancels all."""
        if asking is not self._told:
            self._told = asking
            self._telemetry.emit(EXIT_REFUSED, error="cancel() of a task of the daemon's or of another job")


def _owner(context: Context | None = None) -> object:
    return attempt_in(context) or (_daemon.get() if context is None else context.get(_daemon, _NOBODY))


def _keep_factory(telemetry: Telemetry, _factory: object) -> None:
    telemetry.emit(EXIT_REFUSED, error="loop.set_task_factory()")


def _run_until_complete(
    loop: asyncio.AbstractEventLoop,
    run: Callable[[Awaitable[T]], T],
    telemetry: Telemetry,
    awaited: Awaitable[T],
) -> T:
    """Run on where `loop.stop()` was called, from wherever: only the end of what is awaited ends the loop."""
    if not asyncio.isfuture(awaited) or loop.is_running():
        return run(awaited)  # what closes the loop; or a nested call, which is refused
    while True:
        try:
            return run(awaited)
        except RuntimeError:
            if awaited.done() or loop.is_closed():
                raise
            telemetry.emit(EXIT_REFUSED, error="loop.stop()")


def _run_on(run_forever: Callable[[], None], telemetry: Telemetry) -> None:
    while True:
        try:
            return run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            telemetry.emit(EXIT_REFUSED, error=f"{type(error).__name__}: {error}")


def _new_loop() -> asyncio.AbstractEventLoop:
    if util.find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop  # noqa: PLC0415 -- an optional extra

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
