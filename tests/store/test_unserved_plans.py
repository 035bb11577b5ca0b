"""Looking for lanes that nobody serves costs what such lanes cost, whatever was worked off in all others (I9, I19)."""

from __future__ import annotations

import json

import pytest

from support.databases import ClonedDatabase, Connection
from support.plans import pages_read
from wakeful.store.statements import statements

CROWD = 20_000


@pytest.mark.parametrize("folded", [True, False])
async def test_what_is_dead_in_lanes_that_are_served_is_not_read(
    folded: bool, db: ClonedDatabase, sql: Connection
) -> None:
    """While somebody holds a snapshot from before; whether the lane is noted by its producer only, or folded in."""
    await sql.execute("alter table wakeful.ready set (autovacuum_enabled = false)")
    await register(sql, '{"SERVED": "hash"}')
    served = await enqueue_some(sql, "SERVED", CROWD)
    assert await sql.fetchval("select count(*) from wakeful.lane_seen where lane_id = $1", served) == 1
    if folded:
        await sql.execute(
            "insert into wakeful.lane (lane_id, queue, priority, job_type, suspect)"
            " select lane_id, queue, priority, job_type, suspect from wakeful.lane_seen;"
            " delete from wakeful.lane_seen"
        )
    reader = await db.connect()
    async with reader.transaction(isolation="repeatable_read"):
        await reader.fetchval("select count(*) from wakeful.ready")
        await sql.execute("delete from wakeful.ready")
        await enqueue_some(sql, "SERVED", 10)
        unserved = await enqueue_some(sql, "UNSERVED", 10)
        text = f"explain (analyze, buffers, format json) {statements()['mark_unserved']}"
        plan = json.loads(await sql.fetchval(text))[0]["Plan"]

    assert pages_read(plan) < 100
    marked = await sql.fetch("select lane_id from wakeful.lane where unserved_since is not null")
    assert [row["lane_id"] for row in marked] == [unserved]


async def test_every_lane_between_those_that_are_served_is_found(sql: Connection) -> None:
    """Sixty lanes in the order of their hashes, some with rows of `lane`, some noted, some of which nobody knows."""
    await register(sql, '{"SERVED 0": "hash", "SERVED 1": "hash"}')
    for number in range(20):
        for job_type in ("SERVED 0", "SERVED 1", "UNSERVED"):
            await enqueue_some(sql, job_type, 2, queue=f"queue {number}")
    await sql.execute(
        "insert into wakeful.lane (lane_id, queue, priority, job_type, suspect)"
        " select lane_id, queue, priority, job_type, suspect from wakeful.lane_seen where lane_id % 3 = 0;"
        " delete from wakeful.lane_seen where lane_id % 3 <> 1"
    )
    await sql.execute(statements()["mark_unserved"])

    marked = await sql.fetch("select job_type, unserved_since is null as served from wakeful.lane")
    assert sum(not row["served"] for row in marked) == 20
    assert {row["job_type"] for row in marked if not row["served"]} == {"UNSERVED"}


async def register(sql: Connection, serves: str) -> None:
    await sql.execute(
        """insert into wakeful.instance (incarnation, name, host, pid, version, lease, serves)
           values (1, 'w', 'here', 1, 'test', '30 s', $1)""",
        serves,
    )


async def enqueue_some(sql: Connection, job_type: str, jobs: int, *, queue: str = "default") -> int:
    """Enqueue so many jobs; gives their lane."""
    await sql.execute(
        """select wakeful.enqueue_many(jsonb_agg(jsonb_build_object('job_type', $1::text, 'queue', $3::text)), false)
           from generate_series(1, $2::integer)""",
        *(job_type, jobs, queue),
    )
    lane: int = await sql.fetchval("select wakeful.lane_id($2, 'normal', $1, null, false)", job_type, queue)
    return lane
