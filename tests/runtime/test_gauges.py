"""The gauges of the whole database: read by one instance, in the background, true, bounded, and with their age."""

from __future__ import annotations

import json

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.dispatching import alert, composed, heard, store_of, take
from support.eventually import eventually
from support.exposition import parse
from support.factories import declare, enqueue, job_in
from support.loops import running
from support.owners import owned_jobs, register, silence
from support.proxy import Mode, Proxy
from wakeful.errors import StoreUnavailable
from wakeful.runtime.gauges import run_gauges, show, take_turn
from wakeful.store.gauges import read_gauges
from wakeful.telemetry.metrics import Metrics

AGE = "wakeful_database_gauges_age_seconds "


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
            await run_gauges(
                database, stop, metrics=metrics, instance_id=lambda: owner.instance_id, interval=0.05
            )

        async def pending() -> float | None:
            return line(metrics, 'wakeful_queue_jobs{queue="letters",state="ready"}')

        async with running(loop):
            await eventually(pending)

    jobs = 'wakeful_queue_jobs{queue="default",state='
    assert line(metrics, f'{jobs}"running"') == 3
    assert line(metrics, f'{jobs}"ready"') == 1
    assert line(metrics, f'{jobs}"scheduled"') == 1
    assert line(metrics, f'{jobs}"dead"') == 1
    assert (line(metrics, 'wakeful_queue_oldest_ready_seconds{queue="default"}') or 0) >= 3600
    assert (line(metrics, 'wakeful_queue_oldest_ready_seconds{queue="letters"}') or 99) < 60
    assert line(metrics, 'wakeful_instances{state="live"}') == 1
    assert (line(metrics, "wakeful_database_gauges_age_seconds ") or 99) < 10


async def test_counting_stops_at_the_cap_and_what_is_gone_disappears(
    db: ClonedDatabase, sql: Connection
) -> None:
    metrics = Metrics()
    async with store_of(db, heard()) as database:
        await owned_jobs(sql, await register(database), 30)
        show(metrics, await read_gauges(database, cap=10))
        assert line(metrics, 'wakeful_queue_jobs{queue="default",state="running"}') == 10

        await sql.execute("delete from wakeful.ready")
        show(metrics, await read_gauges(database, cap=10))
        assert line(metrics, 'wakeful_queue_jobs{queue="default",state="running"}') is None


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


async def test_one_instance_reads_for_all_and_another_when_it_dies_or_drains(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with store_of(db, heard()) as database:
        owners = [await register(database, name) for name in ("a", "b", "c")]
        shown = [Metrics() for _ in owners]
        await enqueue(sql)

        async def readers() -> list[int]:
            for owner, metrics in zip(owners, shown, strict=True):
                await take_turn(database, metrics, owner.instance_id)
            reading = [number for number, metrics in enumerate(shown) if line(metrics, AGE) is not None]
            assert reading == [
                n for n, one in enumerate(shown) if line(one, "wakeful_instances{") is not None
            ]
            return reading

        assert await readers() == [0]
        await sql.execute("update wakeful.instance set blocked_for = 60 where name = 'a'")
        assert await readers() == [1], "one whose loop stands still answers no scrape"
        await sql.execute("update wakeful.instance set blocked_for = 1 where name = 'a'")
        await silence(sql, owners[0], 60.0)
        assert await readers() == [0, 1], "whoever is late knows no better, and the next goes on"
        await sql.execute("update wakeful.instance set state = 'draining' where name in ('a', 'b')")
        assert await readers() == [2]
        await sql.execute("update wakeful.instance set state = 'draining'")
        assert 2 in await readers(), "somebody goes on while all of them drain"

    assert all('schema="' in one.render() and 'schema=""' not in one.render() for one in shown)


@pytest.mark.case("F88")
async def test_in_an_outage_the_last_values_stay_and_their_age_grows(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    now = [0.0]
    metrics = Metrics(lambda: now[0])
    async with store_of(db, heard(), proxy=proxy) as database:
        owner = await register(database)
        await enqueue(sql)
        await take_turn(database, metrics, owner.instance_id)
        proxy.set(Mode.REFUSE)
        proxy.reset()
        now[0] = 90.0
        with pytest.raises(StoreUnavailable):
            await take_turn(database, metrics, owner.instance_id)

    assert line(metrics, 'wakeful_queue_jobs{queue="default",state="ready"}') == 1
    assert line(metrics, AGE) == 90


@pytest.mark.case("F89")
async def test_thousands_of_queues_of_a_careless_producer_are_fifty_and_other(
    db: ClonedDatabase, sql: Connection
) -> None:
    metrics = Metrics()
    async with store_of(db, heard()) as database:
        owner = await register(database)
        jobs = [{"job_type": "COLLECT", "queue": f'order "{number}"\\'} for number in range(2000)]
        jobs += [{"job_type": "COLLECT", "queue": "mail"}] * 3
        await sql.execute("select wakeful.enqueue_many($1)", json.dumps(jobs))
        await job_in(sql, "DEAD")
        await sql.execute("select wakeful.pause('held')")
        readings = await read_gauges(database, cap=5000)
        await take_turn(database, metrics, owner.instance_id)

    assert len(readings) < 500, "the rest is one in the statement already"
    families = parse(metrics.render())
    ready = families["wakeful_queue_jobs"].samples
    assert len({dict(labels)["queue"] for _, labels in ready}) == 51
    assert sum(ready.values()) == 2004
    assert line(metrics, 'wakeful_queue_jobs{queue="mail",state="ready"}') == 3
    assert (line(metrics, 'wakeful_queue_jobs{queue="other",state="ready"}') or 0) > 1900
    assert line(metrics, 'wakeful_queue_paused{queue="other"}') == 1


async def test_pauses_recent_deaths_and_owners_of_types_are_told(db: ClonedDatabase, sql: Connection) -> None:
    metrics = Metrics()
    async with store_of(db, heard()) as database:
        owner = await register(database)
        await declare(sql, "COLLECT")
        await sql.execute("update wakeful.job_type set job_owner = 'shop'")
        await sql.execute("select wakeful.pause('held')")
        old, older, _ = [await job_in(sql, "DEAD") for _ in range(3)]
        for job_id, age in ((old, "1 hour"), (older, "2 days")):
            await sql.execute(
                f"update wakeful.dead set finished_at = now() - interval '{age}' where job_id = $1", job_id
            )
        await take_turn(database, metrics, owner.instance_id)

    assert line(metrics, 'wakeful_queue_paused{queue="held"}') == 1
    assert line(metrics, 'wakeful_queue_deaths{queue="default",window="10m"}') == 1
    assert line(metrics, 'wakeful_queue_deaths{queue="default",window="24h"}') == 2
    assert line(metrics, 'wakeful_job_type_info{job_type="COLLECT",owner="shop"}') == 1
