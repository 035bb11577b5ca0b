"""A result that waits for somebody's lock has an owner: the backstop leaves its job alone, however long it takes."""

from __future__ import annotations

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.factories import enqueue, status_of
from support.working import claimer_on, held, telling
from wakeful import JobContext, testing
from wakeful.runtime.reaper import backstop_duty
from wakeful.store import jobs as store
from wakeful.telemetry.events import JOB_LOST

IN_TIME = "select deadline_at > now() - interval '1 minute' from wakeful.ready where job_id = $1"


async def long_past_their_deadline(sql: Connection) -> None:
    await sql.execute(
        "update wakeful.ready set deadline_at = now() - interval '3 hours' where owner is not null"
    )


@pytest.mark.case("I14")
async def test_a_result_that_waits_for_a_key_is_not_taken_back_for_a_job_long_past_its_deadline(
    db: ClonedDatabase, sql: Connection
) -> None:
    returns = anyio.Event()

    async def handler(job: JobContext) -> str:
        job.enqueue("BUILD", dedupe_key="k")
        returns.set()
        return "kept"

    telemetry, recorder = telling()
    job_id = (await enqueue(sql)).job_id
    producer = await db.connect()
    async with (
        claimer_on(db) as other,
        testing.instance(db, registry=handler, telemetry=telemetry) as w,
        anyio.create_task_group() as group,
        producer.transaction(),
    ):
        await enqueue(producer, "OTHER", dedupe_key="k")
        group.start_soon(w.run_one)
        await returns.wait()
        await long_past_their_deadline(sql)
        await eventually(lambda: sql.fetchval(IN_TIME, job_id), timeout=20)
        await backstop_duty(other.database, grace=60.0).perform(anyio.Event())
        assert await status_of(sql, job_id) == "RUNNING"
        await producer.execute("delete from wakeful.dedupe where key = 'k'")

    assert await status_of(sql, job_id) == "DONE"
    assert recorder.of(JOB_LOST) == []


async def test_only_a_claim_that_holds_is_kept_and_only_past_its_deadline_and_nobody_is_waited_for(
    db: ClonedDatabase, sql: Connection
) -> None:
    for _ in range(4):
        await enqueue(sql)
    async with claimer_on(db) as claimer:
        early, late, lost, locked = [held(one) for one in await claimer.claim()]
        await long_past_their_deadline(sql)
        await sql.execute(
            "update wakeful.ready set deadline_at = now() + interval '1 hour' where pos = $1", early.pos
        )
        await sql.execute("update wakeful.ready set claim = 4711 where pos = $1", lost.pos)
        async with sql.transaction():
            await sql.execute("select from wakeful.ready where pos = $1 for update", locked.pos)
            with anyio.fail_after(30):
                kept = await store.keep_ended(claimer.database, [early, late, lost, locked])

    assert kept == {late.job_id}
