"""The store and the parts of one instance as tests of the runtime need them, and jobs as SQL shows them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from support.databases import ClonedDatabase, Connection
from wakeful.core import jsontext
from wakeful.core.settings import DatabaseSettings
from wakeful.runtime.holdings import Holding
from wakeful.runtime.lease import Owner, new_incarnation, new_token
from wakeful.store import instances
from wakeful.store import jobs as store
from wakeful.store.database import Database, open_database
from wakeful.store.instances import Registration
from wakeful.store.jobs import Claimed, Finish, Settlement, Verb
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.recorder import Recorder

REGISTRATION = Registration(
    name="w1",
    host="here",
    pid=1,
    version="test",
    lease=30.0,
    every_type=True,
    serves={},
    queues=("*",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimer:
    """The store of one registered instance, with what it said."""

    database: Database
    owner: Owner
    recorder: Recorder

    async def claim(
        self, limit: int = 100, *, lane: int | None = None, hurried: bool = False
    ) -> list[Claimed]:
        """Claim from one lane, or from every lane, with one token a lane."""
        lanes = await self.lanes()
        if lane is not None:  # also one in which nothing is to be found
            lanes = [one for one in lanes if one.lane_id == lane] or [empty_lane(lane)]
        claimed: list[Claimed] = []
        for one in lanes:
            claimed += await store.claim(
                self.database, one, limit, owner=self.owner.pair, token=new_token(), hurried=hurried
            )
        return claimed

    async def lanes(self) -> list[store.Lane]:
        """The lanes with something to claim."""
        return await store.find_lanes(self.database, job_types=None, queues=None)

    async def finish(self, *claimed: Claimed, result: str = "null") -> set[tuple[int, int]]:
        """Finish jobs of one lane; gives the (position, token) pairs that came back."""
        return await store.finish(
            self.database, claimed[0].job.lane_id, [finish_of(one, result=result) for one in claimed]
        )

    async def settle(
        self, claimed: Claimed, verb: Verb, *, reason: str | None = "it went wrong", delay: float = 0.0
    ) -> store.Settled | None:
        """Settle one job; None where it did not come back."""
        settled = await store.settle(
            self.database,
            claimed.job.lane_id,
            [settlement_of(claimed, verb, reason=reason, delay=delay)],
            lost_limit=3,
        )
        return settled.get(claimed.job.job_id)


def empty_lane(lane_id: int) -> store.Lane:
    """A lane of this id, as one remembers it that has found it earlier."""
    return store.Lane(
        lane_id=lane_id,
        pos=0,
        job_type="COLLECT",
        queue="default",
        priority="normal",
        limit_key=None,
        suspect=False,
        waiting=0.0,
    )


def telling() -> tuple[Telemetry, Recorder]:
    """A strict bus, and what it said."""
    telemetry, recorder = Telemetry(strict=True), Recorder()
    telemetry.subscribe(recorder)
    return telemetry, recorder


@asynccontextmanager
async def claimer_on(
    db: ClonedDatabase | str, *, name: str = "w1", connections: int = 4, statement_timeout: float = 30.0
) -> AsyncIterator[Claimer]:
    """Register an instance and give its store."""
    telemetry, recorder = telling()
    settings = DatabaseSettings(
        dsn=db if isinstance(db, str) else db.dsn,
        connections=connections,
        statement_timeout=statement_timeout,
    )
    async with open_database(settings, telemetry) as database:
        incarnation = new_incarnation()
        number = await instances.register(database, replace(REGISTRATION, name=name), incarnation=incarnation)
        yield Claimer(database=database, owner=Owner(number, incarnation), recorder=recorder)


def finish_of(
    claimed: Claimed, *, result: str = "null", claim: int | None = None, keep: bool = True
) -> Finish:
    """A DONE of this claim; another token makes it somebody else's."""
    return Finish(
        pos=claimed.job.pos, claim=claim or claimed.job.claim, result=result, degraded=None, keep=keep
    )


def settlement_of(
    claimed: Claimed,
    verb: Verb,
    *,
    reason: str | None = "it went wrong",
    delay: float = 0.0,
    claim: int | None = None,
    entry: str | None = None,
) -> Settlement:
    """Another end of this claim."""
    return Settlement(
        pos=claimed.job.pos,
        claim=claim or claimed.job.claim,
        verb=verb,
        reason=reason,
        entry=entry,
        delay=delay,
    )


async def job_row(sql: Connection, job_id: UUID) -> Any:
    """The job as the view shows it; JSON decoded, numbers exact."""
    row = await sql.fetchrow("select * from wakeful.jobs where job_id = $1", job_id)
    assert row is not None, f"no job {job_id}"
    return {
        key: jsontext.loads(value) if key in _JSON and value is not None else value
        for key, value in row.items()
    }


async def ready_row(sql: Connection, job_id: UUID) -> Any:
    """The job's row in `ready`, None where there is none."""
    return await sql.fetchrow("select * from wakeful.ready where job_id = $1", job_id)


async def table_of(sql: Connection, job_id: UUID) -> Sequence[str]:
    """Every table that the job is in: one, always."""
    rows = await sql.fetch(
        """select 'ready' as name from wakeful.ready where job_id = $1
           union all select 'scheduled' from wakeful.scheduled where job_id = $1
           union all select 'dead' from wakeful.dead where job_id = $1
           union all select 'finished' from wakeful.finished where job_id = $1""",
        job_id,
    )
    return [row["name"] for row in rows]


_JSON = frozenset({"payload", "errors", "result", "progress", "meta"})


def held(claimed: Claimed) -> Holding:
    """The claim as the runtime holds it, its handler ended."""
    holding = Holding(claimed, 30.0)
    holding.stage = "ending"
    return holding
