"""From a handler's thread to the daemon's loop and back: how a plain function writes its progress.

Invariant: a thread that waits here is released when its attempt should stop or when the loop's side is closed; the
loop never waits for a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, wait
from typing import Final, TypeVar

from anyio.from_thread import BlockingPortal

from wakeful.errors import JobInterrupted
from wakeful.handlers.control import AttemptControl

T = TypeVar("T")

# How soon a waiting thread sees that its attempt should stop; the answer itself wakes it at once.
_LOOK_SECONDS: Final = 0.2
_CLOSED: Final = "the process is stopping; this thread can't reach it any more"


class Bridge:
    """Calls from threads into the loop on which it was made, through that loop's portal."""

    __slots__ = ("_loop_thread", "_portal")

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal
        self._loop_thread = threading.get_ident()

    def on_loop(self) -> bool:
        """Say whether the calling thread is the one that runs the daemon's loop."""
        return threading.get_ident() == self._loop_thread

    def call(self, function: Callable[[], Awaitable[T]], control: AttemptControl) -> T:
        """Run `function` on the loop and give its result; from a thread only.

        Raises the attempt's stop reason as soon as there is one, JobInterrupted when the loop's side is closed. For an
        attempt that was to stop before the call, the call is made and waited for all the same: it is the last one.
        """
        heeds_reason = not control.cancelled
        try:
            future = self._portal.start_task_soon(function)
        except RuntimeError as error:
            raise JobInterrupted(_CLOSED) from error
        while not wait((future,), timeout=_LOOK_SECONDS).done:
            if heeds_reason and control.cancelled:
                future.cancel()
                control.stop_if_cancelled()
        try:
            return future.result()
        except CancelledError as error:
            control.stop_if_cancelled()
            raise JobInterrupted(_CLOSED) from error
