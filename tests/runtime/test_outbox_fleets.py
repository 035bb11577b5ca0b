"""Dispatchers that differ, and a world that is against them: other sinks and clocks, slow statements, cut answers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import support
from support.clocks import FakeClock
from support.databases import ClonedDatabase, Connection
from support.dispatching import (
    Heard,
    alert,
    composed,
    counts_add_up,
    dispatching,
    heard,
    make_due,
    pass_time,
    store_of,
    take,
    unsent,
    webhooks,
)
from support.eventually import eventually
from support.receiver import Reply, accept, refuse, reset, running_receiver, stall
from support.working import REGISTRATION
from wakeful.core.alert_settings import AlertSettings
from wakeful.core.settings import DatabaseSettings
from wakeful.outbox.folding import Folding
from wakeful.outbox.policy import Policy
from wakeful.runtime.lease import new_incarnation
from wakeful.store import instances
from wakeful.store.database import Database, open_database
from wakeful.telemetry.events import ALERT_UNFOLDED, OUTBOX_DELIVERED, OUTBOX_FAILED

CHILD = Path(support.__file__).parent / "dispatcher_child.py"
USUAL = Policy(alerts=AlertSettings())


@pytest.fixture
def said() -> Heard:
    return heard()


@pytest.fixture
async def store(db: ClonedDatabase, said: Heard) -> AsyncIterator[Database]:
    async with store_of(db, said) as store:
        yield store


async def test_a_sink_that_only_another_instance_has_hears_of_what_this_one_has_looked_at(
    store: Database, said: Heard, sql: Connection
) -> None:
    """As while a fleet is given one sink more: whoever looks first must not keep it from the others."""
    registration = replace(REGISTRATION, sinks=("hook", "other"))
    await instances.register(store, registration, incarnation=new_incarnation())
    await alert(sql, "a")
    await composed(store, said, "hook", policy=USUAL)
    await pass_time(sql, 11)
    await composed(store, said, "hook", policy=USUAL)
    assert [one["type"] for one in await take(sql)] == ["alert.opened"]
    for _ in range(3):  # the one with one sink is the first each time
        await pass_time(sql, 6)
        assert await composed(store, said, "hook", policy=USUAL) == 0

    await pass_time(sql, 6)
    await composed(store, said, "hook", "other", policy=USUAL)

    assert [one["type"] for one in await take(sql, sink="other")] == ["alert.opened"]
    assert await take(sql) == []
    await sql.fetchval("select wakeful.resolve(1)")
    await composed(store, said, "hook", policy=USUAL)
    await pass_time(sql, 6)
    await composed(store, said, "hook", "other", policy=USUAL)
    assert [one["type"] for one in await take(sql, sink="other")] == ["alert.resolved"]
    await pass_time(sql, 300)
    await composed(store, said, "hook", policy=USUAL)
    assert await sql.fetchval("select look_at is null from wakeful.alert")


async def test_two_dispatchers_with_different_sinks_hold_each_other_up_in_nothing(
    db: ClonedDatabase, sql: Connection, said: Heard, store: Database
) -> None:
    for sink in ("hook", "other"):
        registration = replace(REGISTRATION, sinks=(sink,))
        await instances.register(store, registration, incarnation=new_incarnation())
    async with AsyncExitStack() as stack:
        receivers = {}
        for sink in ("hook", "other"):
            receivers[sink] = await stack.enter_async_context(running_receiver())
            sinks = webhooks(said, **{sink: receivers[sink].url})
            await stack.enter_async_context(dispatching(db, said, sinks))
        for n in range(10):
            await alert(sql, f"key {n}")

        async def told() -> bool:
            await sql.execute("update wakeful.alert set look_at = now() where look_at > now()")
            return all(len(receiver.received) == 10 for receiver in receivers.values())

        await eventually(told, timeout=60)

    for receiver in receivers.values():
        assert len({request.message_id for request in receiver.received}) == 10
    await counts_add_up(sql)


async def test_a_dispatcher_whose_clock_was_set_back_an_hour_tells_the_same_at_the_same_time(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    clock = FakeClock(tmp_path, "child", -3600.0)
    for n in range(5):
        await alert(sql, f"key {n}")
    async with running_receiver(refuse(503, Retry_After="1")) as receiver:
        with _child(clock, db.dsn, receiver.url):
            await eventually(lambda: unsent(sql), until=lambda left: left == 0, timeout=60)

    told = [json.loads(request.body) for request in receiver.received]
    assert sorted({one["data"]["group"] for one in told}) == [f"key {n}" for n in range(5)]
    assert len({request.message_id for request in receiver.received}) == 5
    off = await sql.fetchval(
        "select max(abs(extract(epoch from $1::text::timestamptz - now())))", told[0]["timestamp"]
    )
    assert off < 600  # the time in it is the database's
    assert await sql.fetchval(
        "select max(next_try_at - created_at) < interval '5 min' from wakeful.alert_delivery"
    )


async def test_a_key_whose_folding_takes_too_long_stops_no_other(
    db: ClonedDatabase, sql: Connection, said: Heard
) -> None:
    await sql.execute(
        """create function slow() returns trigger language plpgsql as $$
           begin
               if new.dedupe_key = 'slow' then perform pg_sleep(60); end if;
               return new;
           end $$;
           create trigger slow before insert on wakeful.alert for each row execute function slow()"""
    )
    await alert(sql, "slow", times=3)
    await alert(sql, "free")
    settings = DatabaseSettings(dsn=db.dsn, statement_timeout=0.5)
    async with open_database(settings, said.telemetry) as store:
        folding = Folding(database=store, telemetry=said.telemetry, first_wait=0.0)
        assert await folding.fold() == 1
        assert await folding.fold() == 0  # it is not waited for again so soon
    (unfolded,) = said.recorder.of(ALERT_UNFOLDED)
    assert (unfolded["dedupe_key"], unfolded["rows"]) == ("slow", 0)

    await sql.execute("drop trigger slow on wakeful.alert")
    async with store_of(db, said) as other:
        await composed(other, said)
    await counts_add_up(sql)
    assert await sql.fetchval("select sum(occurrences)::int from wakeful.alert") == 4


@contextmanager
def _child(clock: FakeClock, dsn: str, url: str) -> Iterator[None]:
    child = subprocess.Popen([*clock.around, sys.executable, str(CHILD), dsn, url])
    try:
        yield
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("reply", [reset, stall])
async def test_a_reply_that_is_cut_off_costs_a_repeat_and_holds_up_no_other(
    db: ClonedDatabase, sql: Connection, said: Heard, reply: Reply
) -> None:
    async with (
        running_receiver(reply) as cut,
        running_receiver() as well,
        dispatching(db, said, webhooks(said, hook=cut.url, other=well.url), number=2),
    ):
        await alert(sql, "a")
        await said.recorder.seen(OUTBOX_FAILED, sink="hook")
        await said.recorder.seen(OUTBOX_DELIVERED, sink="other")
        await make_due(sql)
        await said.recorder.seen(OUTBOX_DELIVERED, sink="hook", attempt=2)

    assert len({(request.message_id, request.body) for request in cut.received}) == 1
    assert len(well.received) == 1


async def test_a_server_whose_certificate_is_nobodys_is_tried_again_and_shown_without_its_url(
    db: ClonedDatabase, sql: Connection, said: Heard
) -> None:
    async with running_receiver(otherwise=accept) as receiver:
        url = receiver.url.replace("http:", "https:")
        async with dispatching(db, said, webhooks(said, hook=url)):
            await alert(sql, "a")
            failed = await said.recorder.seen(OUTBOX_FAILED, sink="hook")

    assert "SECRET" not in str(failed["error"])
    row = await sql.fetchrow("select state, attempts, bare from wakeful.alert_delivery")
    assert tuple(row or ()) == ("pending", 1, False)
