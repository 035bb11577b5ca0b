"""This process in the fleet: registered anew when it was taken for dead, and what a beat found stops what it must."""

from __future__ import annotations

import anyio

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually, looked
from support.factories import enqueue, status_of
from support.proxy import Mode, Proxy
from support.running import running
from support.working import job_row
from wakeful import JobContext, Registry, testing
from wakeful.runtime.beat import Pulse
from wakeful.store.statements import statements
from wakeful.telemetry.events import (
    INSTANCE_DEPOSED,
    INSTANCE_REGISTERED,
    JOB_FINISHED,
    JOB_LOST,
    JOB_STARTED,
)

RECLAIM = statements()["reclaim_jobs"]


def registry_of_quick() -> Registry:
    registry = Registry()

    @registry.job("QUICK")
    async def quick(job: JobContext) -> None: ...

    return registry


async def test_it_registers_what_it_is_and_publishes_what_it_serves(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry = Registry()

    @registry.job("COLLECT", queue="crawl", max_attempts=2, deadline="20m")
    async def collect(job: JobContext) -> None: ...

    async with running(db, registry) as one:
        row = await sql.fetchrow("select * from wakeful.instance")
        assert row is not None
        assert (row["instance_id"], row["state"], row["every_type"]) == (one.instance_id, "live", False)
        assert row["lease"].total_seconds() == 180
        declared = await sql.fetchrow("select * from wakeful.job_type")
        assert declared is not None
        assert (declared["job_type"], declared["queue"], declared["max_attempts"]) == ("COLLECT", "crawl", 2)
        assert declared["lease"].total_seconds() == 180
        assert f'"COLLECT": "{declared["hash"]}"' in row["serves"]


async def test_an_instance_that_was_taken_for_dead_stops_its_jobs_and_goes_on_as_another(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry, stopped = registry_of_quick(), anyio.Event()

    @registry.job("LONG")
    async def long(job: JobContext) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    async with running(db, registry) as one:
        job_id = (await enqueue(sql, "LONG")).job_id
        await one.recorder.seen(JOB_STARTED, job_id=str(job_id))
        former = one.instance_id
        await sql.execute("select wakeful.pause('default')")
        # As after a stop of the whole machine: it is dead and its job is taken before it can look.
        (holding,) = one.parts.holdings.snapshot()
        async with sql.transaction():
            await sql.execute("update wakeful.instance set state = 'dead'")
            taken = await sql.fetch(RECLAIM, holding.lane_id, [holding.pos], former, None, None, 3)
            assert len(taken) == 1
        deposed = await one.recorder.seen(INSTANCE_DEPOSED)
        assert deposed["instance_id"] == former
        # None where a beat that came just before has seen for itself that the job was taken.
        assert deposed["jobs"] in (0, 1)
        await stopped.wait()
        await one.recorder.seen(JOB_LOST, job_id=str(job_id))
        await eventually(looked(lambda: len(one.recorder.of(INSTANCE_REGISTERED))), until=lambda n: n == 2)
        assert one.instance_id != former
        assert await status_of(sql, job_id) == "PENDING"
        assert len(one.recorder.of(INSTANCE_DEPOSED)) == 1

        await sql.execute("select wakeful.cancel($1)", job_id)
        await sql.execute("select wakeful.resume('default')")
        quick = (await enqueue(sql, "QUICK")).job_id
        await one.recorder.seen(JOB_FINISHED, job_id=str(quick))
        assert (await job_row(sql, quick))["instance_id"] == one.instance_id


async def test_a_finding_that_is_older_than_what_is_known_changes_nothing(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry, go_on = registry_of_quick(), anyio.Event()

    @registry.job("LONG")
    async def long(job: JobContext) -> str:
        await go_on.wait()
        return "done"

    async with running(db, registry, beat=False) as one:
        job_id = (await enqueue(sql, "LONG")).job_id
        await one.recorder.seen(JOB_STARTED, job_id=str(job_id))
        (holding,) = one.parts.holdings.snapshot()
        go_on.set()
        await one.recorder.seen(JOB_FINISHED, job_id=str(job_id))
        one.parts.membership.receive(Pulse(lost=[holding], cancelled=[(holding, None)]))
        again = (await enqueue(sql, "LONG")).job_id
        await one.recorder.seen(JOB_FINISHED, job_id=str(again))
        assert one.recorder.of(JOB_LOST) == []


async def test_a_lost_job_that_still_waits_for_a_worker_is_never_started(
    db: ClonedDatabase, sql: Connection
) -> None:
    started = []

    async def handler(job: JobContext) -> None:
        started.append(job.job_id)

    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db, registry=handler) as w:
        holding = await w._claim()
        assert holding is not None
        await testing.expire_lease(db, w)
        await testing.reap(db)
        assert not await w.beat()
        landed = anyio.Event()
        await w._execute(holding, landed)
        await landed.wait()
    assert started == []
    assert (await job_row(sql, job_id))["lost"] == 1


async def test_its_jobs_are_stopped_at_once_though_it_can_register_anew_only_after_an_outage(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    registry, stopped = registry_of_quick(), anyio.Event()

    @registry.job("LONG")
    async def long(job: JobContext) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    async with running(proxy.dsn(db.name), registry, beat=False) as one:
        job_id = (await enqueue(sql, "LONG")).job_id
        await one.recorder.seen(JOB_STARTED, job_id=str(job_id))
        await sql.execute("select wakeful.pause('default')")
        owner = one.parts.lease.owner
        assert owner is not None
        proxy.set(Mode.REFUSE)
        proxy.reset()
        one.parts.membership.receive(Pulse(deposed=owner))
        await one.recorder.seen(INSTANCE_DEPOSED)
        assert one.parts.lease.owner is None
        with anyio.fail_after(5):
            await stopped.wait()
        proxy.set(Mode.PASS)
        await eventually(looked(lambda: one.parts.lease.owner))
        assert one.parts.lease.owner != owner
