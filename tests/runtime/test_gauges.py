"""The gauges of the whole database: read in the background, true, bounded, and with their age."""

from __future__ import annotations

import anyio

from support.databases import ClonedDatabase, Connection
from support.dispatching import alert, composed, heard, store_of, take
from support.eventually import eventually
from support.factories import enqueue, job_in
from support.loops import running
from support.owners import owned_jobs, register
from wakeful.runtime.gauges import run_gauges, show
from wakeful.store.gauges import read_gauges
from wakeful.telemetry.metrics import Metrics


def line(metrics: Metrics, start: str) -> float | None:
    """The value of the series that starts so."""
    found = [one for one in metrics.render().splitlines() if one.startswith(start)]
    return float(found[0].split()[-1]) if found else None


async def test_they_tell_what_is_in_the_database(db: ClonedDatabase, sql: Connection) -> None:
    metrics = Metrics()
    async with store_of(db, heard()) as database:
        owner = await register(database)
        await owned_jobs(sql, owner, 3)
        await enqueue(sql)
        await sql.execute(
            "update wakeful.ready set run_after = now() - interval '1 hour' where owner is null"
        )
        await enqueue(sql, queue="letters", job_type="SEND")
        await job_in(sql, "SCHEDULED")
        await job_in(sql, "DEAD")

        async def loop(stop: anyio.Event) -> None:
            await run_gauges(database, stop, metrics=metrics, interval=0.05)

        async def pending() -> float | None:
            return line(metrics, 'wakeful_queue_jobs{queue="letters",status="PENDING"}')

        async with running(loop):
            await eventually(pending)

    jobs = 'wakeful_queue_jobs{queue="default",status='
    assert line(metrics, f'{jobs}"RUNNING"') == 3
    assert line(metrics, f'{jobs}"PENDING"') == 1
    assert line(metrics, f'{jobs}"SCHEDULED"') == 1
    assert line(metrics, f'{jobs}"DEAD"') == 1
    assert (line(metrics, 'wakeful_queue_oldest_due_seconds{queue="default"}') or 0) >= 3600
    assert (line(metrics, 'wakeful_queue_oldest_due_seconds{queue="letters"}') or 99) < 60
    assert line(metrics, 'wakeful_instances{state="live"}') == 1
    assert (line(metrics, "wakeful_database_gauges_age_seconds ") or 99) < 10


async def test_counting_stops_at_the_cap_and_what_is_gone_disappears(
    db: ClonedDatabase, sql: Connection
) -> None:
    metrics = Metrics()
    async with store_of(db, heard()) as database:
        await owned_jobs(sql, await register(database), 30)
        show(metrics, await read_gauges(database, cap=10))
        assert line(metrics, 'wakeful_queue_jobs{queue="default",status="RUNNING"}') == 10

        await sql.execute("delete from wakeful.ready")
        show(metrics, await read_gauges(database, cap=10))
        assert line(metrics, 'wakeful_queue_jobs{queue="default",status="RUNNING"}') is None


async def test_a_transaction_that_is_held_open_is_seen(db: ClonedDatabase, sql: Connection) -> None:
    metrics = Metrics()
    holder = await db.connect()
    async with store_of(db, heard()) as database, holder.transaction(isolation="repeatable_read"):
        await holder.fetch("select * from wakeful.ready")
        show(metrics, await read_gauges(database, cap=10))

    assert line(metrics, "wakeful_database_oldest_snapshot_seconds ") is not None


async def test_a_sink_that_takes_nothing_is_measured_until_it_does(
    db: ClonedDatabase, sql: Connection
) -> None:
    metrics = Metrics()
    said = heard()
    async with store_of(db, said) as database:
        await alert(sql, "a")
        await composed(database, said, "hook")
        await sql.execute(
            "update wakeful.alert_delivery set attempts = 1, last_answer = '503', created_at = now() - interval '1 h'"
        )
        await sql.execute("insert into wakeful.alert_sink (sink, closed_at) values ('shop', now())")
        show(metrics, await read_gauges(database, cap=10))
        assert (line(metrics, 'wakeful_outbox_sink_failing_seconds{sink="hook"}') or 0) >= 3600
        assert (line(metrics, 'wakeful_outbox_sink_failing_seconds{sink="shop"}') or 99) < 60

        await take(sql)
        show(metrics, await read_gauges(database, cap=10))
        assert line(metrics, 'wakeful_outbox_sink_failing_seconds{sink="hook"}') is None
