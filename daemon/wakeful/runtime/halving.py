"""Batches of which the database may refuse one row: halved until it stands alone, so that its neighbours go on (R5).

Invariant: what was refused is told, left where it is, and left alone for a minute by who keeps a `Stranded`. What a
batch writes is the caller's.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar
from uuid import UUID

from wakeful.errors import DataRefused
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import JOB_STRANDED

AGAIN_SECONDS: Final = 60.0
Row = TypeVar("Row")
Written = TypeVar("Written")


async def in_halves(
    rows: Sequence[Row],
    write: Callable[[Sequence[Row]], Awaitable[Written]],
    refused: Callable[[Row, DataRefused], None],
) -> list[Written]:
    """Write all rows at once where that goes, else in halves; gives the answers. `refused` is called with a bad row."""
    if not rows:
        return []
    try:
        return [await write(rows)]
    except DataRefused as error:
        if len(rows) == 1:
            refused(rows[0], error)
            return []
    half = len(rows) // 2
    return await in_halves(rows[:half], write, refused) + await in_halves(rows[half:], write, refused)


@dataclass(frozen=True, slots=True)
class Stranded:
    """Jobs that the database refuses to move, each with the monotonic time from which it is tried again."""

    telemetry: Telemetry
    action: str = "promote"
    again: dict[UUID, float] = field(default_factory=dict)

    def without(self, job_ids: Sequence[UUID]) -> Sequence[UUID]:
        """Give those that may be tried now."""
        if not self.again:
            return job_ids
        now = time.monotonic()
        for job_id in [one for one, at in self.again.items() if at <= now]:
            del self.again[job_id]
        return [one for one in job_ids if one not in self.again]

    def add(self, job_id: UUID, error: DataRefused) -> None:
        """Remember one, and say so."""
        self.again[job_id] = time.monotonic() + AGAIN_SECONDS
        tell_stranded(self.telemetry, self.action, str(job_id), error)


def tell_stranded(telemetry: Telemetry, action: str, row: str, error: DataRefused) -> None:
    """Say that a job stays where it is."""
    telemetry.emit(JOB_STRANDED, action=action, row=row, error=str(error))
