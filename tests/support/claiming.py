"""The claimer of one registered instance, driven turn by turn by a test: nothing here runs by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from support.working import Claimer
from wakeful.aio.wakeup import Wakeup
from wakeful.core.pace import Pace
from wakeful.runtime.claimer import Claiming
from wakeful.runtime.crew import Crew
from wakeful.runtime.holdings import Holding, Holdings
from wakeful.runtime.lease import Lease, suspended_clock
from wakeful.runtime.settling import Bearings
from wakeful.runtime.sharing import Scope


def claiming_of(
    claimer: Claimer,
    *,
    concurrency: int,
    types: Sequence[str] | None = None,
    queues: Sequence[str] | None = None,
    caps: Mapping[str, int] | None = None,
    give_back: Callable[[Holding], None] = lambda holding: None,
    bearings: Bearings | None = None,
) -> Claiming:
    """Give it with a crew of its own, and a lease that lasts for the test."""
    bell, lease = Wakeup(), Lease()
    lease.registered(claimer.owner, sent=suspended_clock() + 3600)
    return Claiming(
        database=claimer.database,
        crew=Crew(concurrency, bell),
        holdings=Holdings(),
        lease=lease,
        scope=Scope(
            job_types=types,
            queues=queues,
            caps=caps or {},
            lease_of=lambda job_type: 30.0,
            shortest_lease=30.0,
        ),
        pace=Pace(),
        bell=bell,
        telemetry=claimer.database.telemetry,
        give_back=give_back,
        bearings=bearings or Bearings(),
    )
