"""A crash of the server between claim and finish loses nothing, and a claim that it forgot finishes nothing."""

from __future__ import annotations

import anyio
import asyncpg

from support.cluster import Cluster, make_template
from support.databases import cloned_database
from support.factories import enqueue
from support.working import claimer_on, job_row
from wakeful.embedded import StopMode
from wakeful.store import jobs as store


async def test_a_claim_that_a_crash_forgot_finishes_nothing_and_one_that_it_kept_does(
    own_cluster: Cluster,
) -> None:
    await make_template(own_cluster)
    async with cloned_database(own_cluster) as db:
        sql = await db.connect()
        # What is committed asynchronously is not on the disk before ten seconds have passed.
        await sql.execute("alter system set wal_writer_delay = '10s'")
        await sql.execute("select pg_reload_conf()")
        for queue in ("kept", "forgotten"):
            await enqueue(sql, queue=queue)
        async with claimer_on(db) as claimer:
            lanes = {lane.queue: lane.lane_id for lane in await claimer.lanes()}
            (kept,) = await claimer.claim(lane=lanes["kept"])
            (forgotten,) = await claimer.claim(lane=lanes["forgotten"], hurried=True)
        await anyio.to_thread.run_sync(own_cluster.postmaster.restart, StopMode.IMMEDIATE)

        sql = await asyncpg.connect(db.dsn)
        async with claimer_on(db, name="after") as claimer:
            assert await claimer.finish(kept) == {(kept.job.pos, kept.job.claim)}
            assert await claimer.finish(forgotten) == set()
            assert await store.verdicts(claimer.database, [kept.job, forgotten.job]) == ["DONE", "lost"]
            (again,) = await claimer.claim()
            assert again.job.job_id == forgotten.job.job_id
            assert await claimer.finish(again)
        rows = [await job_row(sql, one.job.job_id) for one in (kept, forgotten)]
        await sql.close()

    assert {(row["status"], row["attempts"], row["run_no"]) for row in rows} == {("DONE", 1, 1)}
