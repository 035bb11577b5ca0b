"""Instances as other instances see them: a row that beats or not, and claims, made by the daemon's statements."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from support.databases import Connection
from wakeful.core.job import Job
from wakeful.store import instances, jobs
from wakeful.store.database import Database
from wakeful.store.instances import NOTHING_TO_REPORT, Registration, Report

TYPES: Mapping[str, str] = {"COLLECT": "hash"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """An instance that does only what a test says."""

    database: Database
    instance_id: int
    incarnation: int

    @property
    def pair(self) -> tuple[int, int]:
        return self.instance_id, self.incarnation

    async def beat(self, report: Report = NOTHING_TO_REPORT) -> bool:
        """Beat once, saying how it is; False: deposed."""
        return await instances.beat(self.database, self.pair, report, deadline=10.0) is not None

    async def claim(self, limit: int = 1000) -> list[Job]:
        """Claim from every lane."""
        claimed: list[Job] = []
        for lane in await jobs.find_lanes(self.database, job_types=None, queues=None):
            found = await jobs.claim(
                self.database, lane, limit, owner=self.pair, token=token(), hurried=False
            )
            claimed += [one.job for one in found]
        return claimed

    async def finish(self, job: Job) -> bool:
        """Finish a claimed job; False: it is not ours any more."""
        done = jobs.Finish(pos=job.pos, claim=job.claim, result="{}", degraded=None, keep=True)
        return bool(await jobs.finish(self.database, job.lane_id, [done]))

    async def holds(self, held: Sequence[Job]) -> set[int]:
        """Indexes of the jobs whose claims still hold, as a beat's look-up tells."""
        return (await instances.look_up_held(self.database, held, deadline=10.0))[0]


def token() -> int:
    """A claim token."""
    return secrets.randbits(62) | 1


async def register(
    database: Database,
    name: str = "w1",
    *,
    lease: float = 30.0,
    serves: Mapping[str, str] = TYPES,
    every_type: bool = False,
    sinks: Sequence[str] = (),
    critical_types: Sequence[str] = (),
    rules: str = "",
) -> Owner:
    """Register an instance."""
    incarnation = token()
    registration = Registration(
        name=name,
        host="host",
        pid=1,
        version="0.1.0",
        lease=lease,
        every_type=every_type,
        serves=serves,
        queues=["*"],
        sinks=sinks,
        critical_types=critical_types,
        rules=rules,
    )
    number = await instances.register(database, registration, incarnation=incarnation)
    return Owner(database=database, instance_id=number, incarnation=incarnation)


async def silence(connection: Connection, owner: Owner, seconds: float) -> None:
    """Let its last beat lie so far back; the beat does not move by it."""
    await connection.execute(
        "update wakeful.instance set beat_at = clock_timestamp() - make_interval(secs => $2) where instance_id = $1",
        owner.instance_id,
        seconds,
    )


async def owned_jobs(
    connection: Connection, owner: Owner, count: int, *, job_type: str = "COLLECT", options: str = "{}"
) -> None:
    """Make so many running jobs of an owner in one statement; `options` as for wakeful.enqueue_many."""
    element = {"job_type": job_type, **json.loads(options)}
    await connection.execute(
        "select count(*) from wakeful.enqueue_many((select jsonb_agg($1::jsonb) from generate_series(1, $2::int)))",
        json.dumps(element),
        count,
    )
    await connection.execute(
        """update wakeful.ready
           set owner = $1, claim = 1, attempts = attempts + 1, run_no = run_no + 1, started_at = clock_timestamp(),
               deadline_at = clock_timestamp() + deadline
           where owner is null""",
        owner.instance_id,
    )
