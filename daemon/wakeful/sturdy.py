"""An event loop that no handler can stop: `sys.exit()` in a task or callback of a handler's ends that, not the daemon,
and `loop.stop()` nothing.

asyncio lets SystemExit and KeyboardInterrupt out of the loop wherever they are raised (R8). Signals are not ours to
lose: they are handled in `aio.shutdown` and raise nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import util
from typing import TypeVar

from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import EXIT_REFUSED

T = TypeVar("T")


def sturdy_loop(telemetry: Telemetry) -> asyncio.AbstractEventLoop:
    """Give a new event loop, uvloop's where that is installed, that goes on after a SystemExit."""
    loop = _new_loop()
    loop.run_forever = partial(_run_on, loop.run_forever, telemetry)  # type: ignore[method-assign]
    loop.run_until_complete = partial(  # type: ignore[method-assign]
        _run_until_complete, loop, loop.run_until_complete, telemetry
    )
    return loop


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
