"""A claimed job as the runtime holds it, without a database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from support.attempts import make_job
from wakeful.runtime.holdings import Holding


def make_holding(*, suspect: bool = False, received: float | None = None, **job: Any) -> Holding:
    """Give a holding of a new job, or of one with these fields."""
    given: dict[str, Any] = {"job_id": uuid4(), **job}
    holding = Holding(
        job=make_job(**given),
        lease=30.0,
        wait=0.0,
        snoozed=0.0,
        suspect=suspect,
        claimed_at=datetime(2026, 3, 1, tzinfo=UTC),
    )
    if received is not None:
        holding.received = received
    return holding


def ids(holdings: list[Holding]) -> list[UUID]:
    """Give the job ids of holdings, in order."""
    return [one.job_id for one in holdings]
