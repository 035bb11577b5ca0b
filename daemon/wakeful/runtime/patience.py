"""Patience with results that wait for somebody's lock: their jobs are kept from the backstop meanwhile.

Invariant: a job is kept only while the loop that would write its result turns, by a claim that holds, and once its
deadline is past; so a job that is truly forgotten is still taken back (I14). To write the result is the finisher's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from wakeful.errors import StoreUnavailable
from wakeful.runtime.conclusion import Conclusion
from wakeful.runtime.flush import Flushing
from wakeful.store import jobs as store

KEEP_SECONDS: Final = 2.0


class Patience:
    """Keeps what waits, every few seconds at most. Used by one loop only."""

    def __init__(self, flushing: Flushing) -> None:
        self._flushing = flushing
        self._kept = time.monotonic()

    async def keep(self, waiting: Sequence[Conclusion]) -> None:
        """Keep the jobs of these conclusions, if some time has passed; an outage is left to the write that follows."""
        if not waiting or time.monotonic() - self._kept < KEEP_SECONDS:
            return
        self._kept = time.monotonic()
        with suppress(StoreUnavailable):
            await store.keep_ended(self._flushing.database, [one.holding for one in waiting])
