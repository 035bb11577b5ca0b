"""What the pages behind the links of messages show, and the two things that they change.

Invariant: no value of a payload is read here. Each change is one function of the schema, which does it once however
often it is called, and keeps the audit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from wakeful.store.database import Database, Record

# A row as its statement gives it; JSON columns are text.
PageRow = Mapping[str, Any]

DEADLINE_SECONDS: Final = 2.0
MOST_LINES: Final = 10


async def read_alert(database: Database, alert_id: int) -> PageRow | None:
    """Give an alert with its latest occurrences and messages; None: there is none."""
    return _row(
        await database.fetchrow("page_alert", alert_id, MOST_LINES, deadline=DEADLINE_SECONDS),
    )


async def read_job(database: Database, job_id: UUID) -> PageRow | None:
    """Give a job with the state of its steps; None: there is none."""
    return _row(await database.fetchrow("page_job", job_id, deadline=DEADLINE_SECONDS))


async def acknowledge(database: Database, alert_id: int, *, who: str) -> PageRow | None:
    """Take an alert on; gives how it stands now, and whether this did it. None: there is none."""
    row = await database.fetchrow("acknowledge_by_link", alert_id, who, deadline=DEADLINE_SECONDS)
    return _row(row)


async def mute(database: Database, alert_id: int, *, seconds: float, reason: str, who: str) -> PageRow | None:
    """Mute what is like an alert; gives the mute, and whether this made it. None: there is no such alert."""
    row = await database.fetchrow("mute_by_link", alert_id, seconds, reason, who, deadline=DEADLINE_SECONDS)
    return _row(row)


def _row(record: Record | None) -> PageRow | None:
    return None if record is None else dict(record)
