"""Jobs in every state, made by hand in plain SQL: for tests of the schema, which must not stand on the daemon's code.

A claim, a finish and a departure here do to the tables what the daemon's statements do, without their fences.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from support.databases import Connection

State = Literal["READY", "SCHEDULED", "RUNNING", "DONE", "DEAD", "CANCELLED"]
Json = Mapping[str, object] | str


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What wakeful.enqueue() answers."""

    job_id: UUID
    created: bool


async def enqueue(
    connection: Connection,
    job_type: str = "COLLECT",
    payload: Json | None = "{}",
    *,
    queue: str | None = None,
    priority: str | None = None,
    subject: str | None = None,
    dedupe_key: str | None = None,
    run_after: datetime | None = None,
    max_attempts: int | None = None,
    deadline: timedelta | None = None,
    tags: Sequence[str] | None = None,
    meta: Json | None = None,
    group: str | None = None,
    limit_key: str | None = None,
    notify: bool = True,
) -> Enqueued:
    """Call wakeful.enqueue(); JSON may be given as text, for what Python can't say."""
    row = await connection.fetchrow(
        """select * from wakeful.enqueue(
               job_type => $1, payload => $2, queue => $3, priority => $4, subject => $5, dedupe_key => $6,
               run_after => $7, max_attempts => $8, deadline => $9, tags => $10, meta => $11, "group" => $12,
               limit_key => $13, notify => $14)""",
        *(job_type, _text(payload), queue, priority, subject, dedupe_key, run_after, max_attempts, deadline),
        *(tags, _text(meta), group, limit_key, notify),
    )
    assert row is not None
    return Enqueued(row["job_id"], row["created"])


async def job_in(
    connection: Connection, state: State, *, dedupe_key: str | None = None, payload: Json = "{}"
) -> UUID:
    """Make a job in this state, as its first attempt's end would have left it."""
    run_after = (
        await connection.fetchval("select now() + interval '1 hour'") if state == "SCHEDULED" else None
    )
    job_id = (await enqueue(connection, payload=payload, dedupe_key=dedupe_key, run_after=run_after)).job_id
    if state in ("READY", "SCHEDULED"):
        return job_id
    await claim(connection, job_id)
    if state == "DONE":
        await finish(connection, job_id)
    elif state != "RUNNING":
        verb = "refuse" if state == "DEAD" else "discard"
        await depart(connection, job_id, verb)
    return job_id


async def claim(connection: Connection, job_id: UUID, *, owner: int = 1, token: int = 4711) -> int:
    """Give a waiting job an owner and a token, and count the attempt. Gives the token."""
    given: int = await connection.fetchval(
        """update wakeful.ready
           set owner = $2, claim = $3, attempts = attempts + 1, run_no = run_no + 1,
               started_at = clock_timestamp(), deadline_at = clock_timestamp() + deadline
           where job_id = $1 and owner is null
           returning claim""",
        *(job_id, owner, token),
    )
    return given


async def finish(connection: Connection, job_id: UUID, *, result: Json = "{}") -> None:
    """End a running job as DONE."""
    await connection.execute(
        """with done as (delete from wakeful.ready where job_id = $1 returning *),
                freed as (delete from wakeful.dedupe k using done d where k.job_id = d.job_id)
           insert into wakeful.finished
           select (jsonb_populate_record(null::wakeful.finished, to_jsonb(d) || jsonb_build_object(
               'slot', wakeful.finished_slot(now()), 'status', 'DONE', 'result', $2::jsonb, 'degraded', '[]'::jsonb,
               'instance_id', d.owner, 'moved_by', d.claim, 'finished_at', clock_timestamp()))).*
           from done d""",
        *(job_id, _text(result)),
    )


async def depart(
    connection: Connection,
    job_id: UUID,
    verb: str,
    *,
    reason: str | None = "it went wrong",
    entry: Json | None = None,
    delay: timedelta | None = None,
) -> str:
    """Take a job out of `ready` for any reason but success. Gives its status."""
    status: str = await connection.fetchval(
        """with gone as (delete from wakeful.ready r where r.job_id = $1 returning r as job)
           select d.status
           from (select array_agg(
                     row (g.job, $2, $3, $4::jsonb, $5::interval, (g.job).claim)::wakeful.departure) as every
                 from gone g) as g
           cross join lateral wakeful.depart(g.every) as d""",
        *(job_id, verb, reason, _text(entry), delay),
    )
    return status


async def declare(
    connection: Connection,
    job_type: str,
    *,
    queue: str = "default",
    priority: str = "normal",
    max_attempts: int = 5,
    deadline: timedelta = timedelta(hours=1),
    lease: timedelta = timedelta(seconds=30),
    subject_path: str | None = None,
    secret_paths: Sequence[str] = (),
    limit_key: str | None = None,
) -> None:
    """Put a job type's declaration into force, as a daemon that serves it does."""
    await connection.execute(
        """insert into wakeful.job_type (
               job_type, hash, queue, priority, max_attempts, deadline, lease, subject_path, secret_paths, limit_key,
               history, steps)
           values ($1, 'hash', $2, $3, $4, $5, $6, $7, $8, $9, true, '{}')""",
        *(job_type, queue, priority, max_attempts, deadline, lease, subject_path, secret_paths, limit_key),
    )


async def status_of(connection: Connection, job_id: UUID) -> str | None:
    """Give the status that the view shows, None where it shows no such job."""
    found: str | None = await connection.fetchval("select status from wakeful.jobs where job_id = $1", job_id)
    return found


def _text(value: Json | None) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
