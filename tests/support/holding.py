"""A claimed job as the runtime holds it, without a database."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from support.attempts import make_job
from wakeful.runtime.holdings import Holding
from wakeful.store.jobs import Claimed

CLAIMED_EPOCH = 1_772_323_200.0  # 2026-03-01, UTC


def make_holding(*, suspect: bool = False, received: float | None = None, **job: Any) -> Holding:
    """Give a holding of a new job, or of one with these fields."""
    given: dict[str, Any] = {"job_id": uuid4(), **job}
    claimed = Claimed(make_job(**given), 0.0, 0.0, CLAIMED_EPOCH)
    return Holding(claimed, 30.0, suspect=suspect, received=received)


def ids(holdings: list[Holding]) -> list[UUID]:
    """Give the job ids of holdings, in order."""
    return [one.job_id for one in holdings]
