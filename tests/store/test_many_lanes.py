"""A producer that puts an id into the name of a queue: each of them is found."""

from __future__ import annotations

from support.databases import ClonedDatabase, Connection
from support.working import claimer_on

QUEUES = 2000


async def test_thousands_of_queues_are_found_and_counted(db: ClonedDatabase, sql: Connection) -> None:
    await sql.execute(
        """select count(*) from wakeful.enqueue_many((
               select jsonb_agg(jsonb_build_object('job_type', 'T', 'queue', 'shop ' || n))
               from generate_series(1, 2000) as n))"""
    )

    async with claimer_on(db) as claimer:
        lanes = await claimer.lanes()
        assert len({lane.queue for lane in lanes}) == QUEUES
        for lane in lanes[::200]:
            (claimed,) = await claimer.claim(limit=5, lane=lane.lane_id)
            assert len(await claimer.finish(claimed)) == 1

    assert await sql.fetchval("select wakeful.backlog()") == QUEUES - len(lanes[::200])
