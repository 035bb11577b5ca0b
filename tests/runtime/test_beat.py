"""The heartbeat: from a thread of its own, whatever handlers do to the loop, and with a look at what is held."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually, looked
from support.factories import enqueue
from support.proxy import Mode, Proxy
from support.working import Claimer, claimer_on, held
from wakeful.core.settings import DatabaseSettings
from wakeful.runtime.beat import Beating, Heart, Pulse, beat_once
from wakeful.runtime.holdings import Holding, Holdings
from wakeful.runtime.lease import Lease, suspended_clock
from wakeful.store.statements import statements
from wakeful.telemetry.events import BEAT_FAILED, BEAT_RESTORED

RECLAIM = statements()["reclaim_jobs"]


@dataclass(slots=True, kw_only=True)
class Chest:
    """A heart, what it posted, and the lease that it keeps."""

    heart: Heart
    beating: Beating
    claimer: Claimer
    pulses: list[Pulse] = field(default_factory=list)

    async def hold(self, sql: Connection, count: int) -> list[Holding]:
        """Claim jobs and hold them as running ones."""
        for _ in range(count):
            await enqueue(sql)
        holdings = [held(one) for one in await self.claimer.claim()]
        for holding in holdings:
            holding.stage = "running"
        self.beating.holdings.add(holdings)
        return holdings

    async def beat(self) -> bool:
        """One beat, from here."""
        return await beat_once(self.beating, self.claimer.database, self.claimer.owner)


@asynccontextmanager
async def chest(
    db: ClonedDatabase, *, dsn: str | None = None, interval: float = 0.05
) -> AsyncIterator[Chest]:
    async with claimer_on(db) as claimer:
        lease = Lease()
        lease.registered(claimer.owner, sent=suspended_clock())
        pulses: list[Pulse] = []
        beating = Beating(
            settings=DatabaseSettings(dsn=dsn or db.dsn, connect_timeout=0.5),
            interval=interval,
            lease=lease,
            holdings=Holdings(),
            telemetry=claimer.database.telemetry,
            post=pulses.append,
        )
        made = Chest(heart=Heart(beating), beating=beating, claimer=claimer, pulses=pulses)
        try:
            yield made
        finally:
            made.heart.stop()


async def beats(sql: Connection) -> int:
    count: int = await sql.fetchval("select beat_seq from wakeful.instance")
    return count


async def test_it_beats_again_and_again_until_it_is_stopped(db: ClonedDatabase, sql: Connection) -> None:
    async with chest(db) as c:
        c.heart.start()
        await eventually(lambda: beats(sql), until=lambda count: count >= 3)
        await anyio.to_thread.run_sync(c.heart.stop)
        last = await beats(sql)
        await anyio.sleep(0.2)
        assert await beats(sql) == last
    assert "wakeful-beat" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.case("F27")
async def test_a_handler_that_blocks_the_loop_stops_no_beat(db: ClonedDatabase, sql: Connection) -> None:
    async with chest(db) as c:
        c.heart.start()
        await eventually(lambda: beats(sql), until=lambda count: count >= 1)
        before = await beats(sql)
        time.sleep(2.0)  # noqa: ASYNC251 -- the loop stands still
        assert c.beating.lease.silent() < 1.5
        assert await beats(sql) >= before + 5


async def test_silence_counts_from_when_the_last_good_beat_was_sent(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with chest(db) as c:
        locker = await db.connect()
        sent_at = suspended_clock()
        async with anyio.create_task_group() as group, locker.transaction():
            await locker.execute("select from wakeful.instance for update")
            group.start_soon(c.beat)
            await waits_for_lock(sql)
            await anyio.sleep(0.3)
        assert 0.3 <= c.beating.lease.silent() <= suspended_clock() - sent_at


async def waits_for_lock(sql: Connection) -> None:
    await eventually(
        lambda: sql.fetchval(
            """select exists (select from pg_stat_activity
                              where wait_event_type = 'Lock' and datname = current_database())"""
        )
    )


async def test_each_beat_looks_at_what_is_held_and_tells_what_is_lost_or_cancelled(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with chest(db) as c:
        kept, lost, cancelled, ending = await c.hold(sql, 4)
        assert await c.beat()
        assert c.pulses == []

        await sql.execute("delete from wakeful.ready where job_id = any ($1)", [lost.job_id, ending.job_id])
        await sql.fetchval("select wakeful.cancel($1)", cancelled.job_id)
        ending.stage = "ending"
        assert await c.beat()
        (pulse,) = c.pulses
        assert (list(pulse.lost), list(pulse.cancelled), pulse.deposed) == ([lost], [(cancelled, None)], None)
        assert kept in c.beating.holdings.snapshot()


async def test_a_claim_that_is_newer_than_the_look_is_not_lost(db: ClonedDatabase, sql: Connection) -> None:
    """The other way round, a claim whose reply is on its way is nobody's to release: only tokens in doubt are (I8)."""
    async with chest(db) as c:
        await enqueue(sql)
        (claimed,) = await c.claimer.claim()
        assert await c.beat()
        assert c.pulses == []
        c.beating.holdings.add([held(claimed)])
        assert await c.beat()
        assert c.pulses == []
    assert await sql.fetchval("select claim from wakeful.ready") == claimed.job.claim


@pytest.mark.parametrize("how", ["state = 'dead'", "incarnation = incarnation + 1"])
async def test_an_instance_that_was_taken_for_dead_is_told_and_does_not_beat_as_itself(
    db: ClonedDatabase, sql: Connection, how: str
) -> None:
    async with chest(db) as c:
        await sql.execute(f"update wakeful.instance set {how}")
        assert not await c.beat()
        assert c.pulses == [Pulse(deposed=c.claimer.owner)]
    assert await beats(sql) == 0


@pytest.mark.case("F28")
async def test_a_draining_instance_beats_on(db: ClonedDatabase, sql: Connection) -> None:
    async with chest(db) as c:
        await sql.execute("update wakeful.instance set state = 'draining'")
        assert await c.beat()


async def test_a_beat_that_waits_for_the_reaper_learns_what_it_took(
    db: ClonedDatabase, sql: Connection
) -> None:
    """The reaper's transaction has taken the row and not committed; the beat waits, and its look-up tells the truth."""
    async with chest(db) as c:
        (holding,) = await c.hold(sql, 1)
        await sql.execute(
            "update wakeful.instance set beat_at = now() - interval '1 minute', lease = '10 minutes'"
        )
        reaper = await db.connect()
        alive = []

        async def beat() -> None:
            alive.append(await c.beat())

        async with anyio.create_task_group() as group, reaper.transaction():
            taken = await reaper.fetch(
                RECLAIM, holding.lane_id, [holding.pos], c.claimer.owner.instance_id, 0, None, 3
            )
            assert len(taken) == 1
            group.start_soon(beat)
            await waits_for_lock(sql)
            assert c.pulses == []
        assert alive == [True]
        (pulse,) = c.pulses
        assert list(pulse.lost) == [holding]


async def test_an_outage_is_told_as_silence_and_so_is_its_end(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    async with chest(db, dsn=proxy.dsn(db.name)) as c:
        c.heart.start()
        await eventually(lambda: beats(sql), until=lambda count: count >= 1)
        proxy.set(Mode.REFUSE)
        proxy.reset()
        failed = await c.claimer.recorder.seen(BEAT_FAILED)
        assert "error" in failed
        proxy.set(Mode.PASS)
        restored = await c.claimer.recorder.seen(BEAT_RESTORED, within=20)
        assert isinstance(restored["silent_seconds"], float)
        await eventually(looked(c.beating.lease.silent), until=lambda seconds: seconds < 0.3)


async def test_after_an_outage_it_is_back_within_a_beat_however_long_that_was(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    async with chest(db, dsn=proxy.dsn(db.name)) as c:
        proxy.set(Mode.REFUSE)
        c.heart.start()
        await anyio.sleep(1.7)
        assert await beats(sql) == 0
        proxy.set(Mode.PASS)
        await eventually(lambda: beats(sql), until=lambda count: count >= 1, timeout=1.0)


async def test_a_connection_that_hangs_holds_the_end_up_for_a_bounded_time(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    async with chest(db, dsn=proxy.dsn(db.name)) as c:
        c.heart.start()
        await eventually(lambda: beats(sql), until=lambda count: count >= 1)
        proxy.set(Mode.BLACKHOLE)
        began = time.monotonic()
        await anyio.to_thread.run_sync(c.heart.stop)
        assert time.monotonic() - began < 5
        proxy.set(Mode.PASS)
        proxy.reset()
