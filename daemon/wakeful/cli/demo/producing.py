"""The demo's producer: enqueues a pipeline for one place after the other, as any program would, and AI_CHECK once.

Invariant: a place whose COLLECT is still active gets no second one (its dedupe key), and the number of open pipelines
is bounded, so that a slow machine is never buried. What it enqueues in an outage it enqueues after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Final, Protocol

import anyio

from wakeful.aio.periodic import pause
from wakeful.cli.demo.story import STAGES, UNHANDLED
from wakeful.core import jsontext
from wakeful.errors import StoreUnavailable
from wakeful.handlers.options import EnqueueOptions
from wakeful.store.database import Database

MOST_OPEN: Final = 8
UNHANDLED_ATTEMPTS: Final = 2


class Place(Protocol):
    """What a pipeline begins with."""

    @property
    def place_id(self) -> str:
        """Which place."""
        ...

    @property
    def payload(self) -> dict[str, object]:
        """The payload of its COLLECT job."""
        ...

    @property
    def dedupe_key(self) -> str:
        """The key that keeps a second one away."""
        ...


@dataclass(slots=True, kw_only=True)
class Producer:
    """Enqueues `places` in turn, `interval` seconds apart: each once, or for ever with `endless`."""

    database: Database
    places: Sequence[Place]
    queue: str | None
    interval: float
    endless: bool
    shows_unhandled: bool
    open_pipelines: Callable[[], int]
    done: bool = field(default=False, init=False)

    async def run(self, stop: anyio.Event) -> None:
        """Enqueue until `stop` is set, or until each place had its turn."""
        for number, place in enumerate(cycle(self.places) if self.endless else self.places):
            while self.open_pipelines() >= MOST_OPEN and not await pause(stop, 1.0):
                pass
            await self._enqueue(stop, STAGES[0], place.payload, place.dedupe_key)
            if number == 0 and self.shows_unhandled:
                about = {"place_id": place.place_id}
                await self._enqueue(stop, UNHANDLED, about, UNHANDLED.lower(), attempts=UNHANDLED_ATTEMPTS)
            self.done = not self.endless and number + 1 == len(self.places)
            if await pause(stop, self.interval):
                return

    async def _enqueue(
        self,
        stop: anyio.Event,
        job_type: str,
        payload: Mapping[str, object],
        dedupe_key: str,
        *,
        attempts: int | None = None,
    ) -> None:
        options = EnqueueOptions(queue=self.queue, dedupe_key=dedupe_key, max_attempts=attempts)
        while not stop.is_set():
            try:
                await self.database.fetchrow("enqueue", *_arguments(job_type, payload, options))
            except StoreUnavailable:
                await self.database.available(stop)
            else:
                return


def _arguments(job_type: str, payload: Mapping[str, object], options: EnqueueOptions) -> tuple[object, ...]:
    """The arguments of the statement `enqueue`; what the demo leaves to the type's declaration is null."""
    left_open = (None, None, None, None, None)
    return (
        job_type,
        jsontext.dumps(dict(payload)),
        options.queue,
        None,
        None,
        options.dedupe_key,
        None,
        options.max_attempts,
        *left_open,
    )
