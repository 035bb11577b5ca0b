"""An event loop that no handler can stop: `sys.exit()` in a task or callback of a handler's ends that, not the daemon.

asyncio lets SystemExit and KeyboardInterrupt out of the loop wherever they are raised (R8). Signals are not ours to
lose: they are handled in `aio.shutdown` and raise nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from importlib import util

from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import EXIT_REFUSED
from wakeful.telemetry.job_log import in_attempt


def sturdy_loop(telemetry: Telemetry) -> asyncio.AbstractEventLoop:
    """Give a new event loop, uvloop's where that is installed, that goes on after a SystemExit."""
    loop = _new_loop()
    loop.run_forever = partial(_run_on, loop.run_forever, telemetry)  # type: ignore[method-assign]
    loop.stop = partial(_stop, loop.stop, telemetry)  # type: ignore[method-assign]
    return loop


def _stop(stop: Callable[[], None], telemetry: Telemetry) -> None:
    if in_attempt():
        telemetry.emit(EXIT_REFUSED, error="loop.stop()")
    else:
        stop()


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
