"""Claims that a crash of the server forgets: those of short jobs commit asynchronously, and nothing follows (I6)."""

from __future__ import annotations

import pytest

from support.cluster import Cluster, execute, make_template
from support.databases import ClonedDatabase, cloned_database
from support.eventually import eventually
from support.factories import enqueue
from support.working import Claimer, claimer_on, held
from wakeful.embedded import StopMode
from wakeful.errors import StoreUnavailable
from wakeful.store import jobs as store
from wakeful.store.jobs import Claimed

JOBS = 20


async def make_forgetful(cluster: Cluster) -> None:
    """Let nothing but a synchronous commit bring the log to the disk."""
    await make_template(cluster)
    await execute(cluster.dsn(), "alter system set wal_writer_delay = '10s'")
    await execute(cluster.dsn(), "select pg_reload_conf()")


def crash(cluster: Cluster) -> None:
    cluster.postmaster.stop(StopMode.IMMEDIATE)
    cluster.postmaster.start()


async def answers(claimer: Claimer) -> bool:
    """Whether its connections are good again."""
    try:
        await claimer.lanes()
    except StoreUnavailable:
        return False
    return True


async def owned(db: ClonedDatabase) -> int:
    sql = await db.connect()
    count: int = await sql.fetchval("select count(*) from wakeful.ready where owner is not null")
    return count


async def claimed_before_a_crash(
    cluster: Cluster, db: ClonedDatabase, claimer: Claimer, *, hurried: bool
) -> list[Claimed]:
    """Claim everything, crash before anything else is written, and come back."""
    claimed = await claimer.claim(JOBS, hurried=hurried)
    crash(cluster)
    await eventually(lambda: answers(claimer))
    return claimed


@pytest.mark.case("I6")
async def test_a_hurried_claim_that_a_crash_forgets_leaves_one_owner_and_no_result_by_two(
    own_cluster: Cluster,
) -> None:
    await make_forgetful(own_cluster)
    async with cloned_database(own_cluster) as db, claimer_on(db) as first:
        sql = await db.connect()
        for _ in range(JOBS):
            await enqueue(sql)
        await sql.execute("checkpoint")
        claimed = await claimed_before_a_crash(own_cluster, db, first, hurried=True)
        assert len(claimed) == JOBS
        assert await owned(db) == 0, "the server was to forget the claim"

        # Its handlers have run; what they came to is refused, and the database says why.
        assert await first.finish(*claimed) == set()
        verdicts = await store.verdicts(first.database, [held(one) for one in claimed])
        assert set(verdicts) == {"lost"}

        async with claimer_on(db, name="second") as second:
            again = await second.claim(JOBS)
            assert {one.job.job_id for one in again} == {one.job.job_id for one in claimed}
            assert await first.finish(*claimed) == set()
            assert len(await second.finish(*again)) == JOBS

        after = await db.connect()
        rows = await after.fetch("select status, attempts from wakeful.jobs")
        assert [tuple(row) for row in rows] == [("DONE", 1)] * JOBS
        moved_by = {row["moved_by"] for row in await after.fetch("select moved_by from wakeful.finished")}
        assert moved_by == {again[0].job.claim}


@pytest.mark.parametrize("kept_by", ["its own commit", "a later finish"])
async def test_what_was_committed_synchronously_is_not_forgotten(own_cluster: Cluster, kept_by: str) -> None:
    """A finish brings every claim before it to the disk."""
    await make_forgetful(own_cluster)
    async with cloned_database(own_cluster) as db, claimer_on(db) as claimer:
        sql = await db.connect()
        for _ in range(JOBS):
            await enqueue(sql)
        claimed = await claimer.claim(JOBS, hurried=kept_by == "a later finish")
        left = claimed
        if kept_by == "a later finish":
            assert len(await claimer.finish(claimed[0])) == 1
            left = claimed[1:]
        crash(own_cluster)
        await eventually(lambda: answers(claimer))

        assert await owned(db) == len(left)
        assert len(await claimer.finish(*left)) == len(left)
