"""Storms: ten thousand deaths, thousands of alerts at several dispatchers, sinks that pause, pace or are gone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from support.databases import ClonedDatabase, Connection
from support.dispatching import (
    alert,
    composed,
    counts_add_up,
    dispatching,
    heard,
    make_due,
    store_of,
    take,
    unsent,
    webhooks,
)
from support.eventually import eventually
from support.receiver import Received, refuse, running_receiver
from wakeful.core.alert_settings import AlertSettings
from wakeful.core.settings import OutboxSettings
from wakeful.outbox.policy import Policy
from wakeful.outbox.sinks.protocol import Answer, Failed, Sent
from wakeful.store import outbox
from wakeful.store.outbox import Delivery
from wakeful.telemetry.events import ALERT_UNTOLD, OUTBOX_FAILED, SINK_CLOSED, SINK_OPENED

DEATHS = """
    with gone as (
        delete from wakeful.ready r
        where (r.lane_id, r.pos) in (select l.lane_id, l.pos from wakeful.ready l limit 500)
        returning r as job
    )
    select count(*) from (
        select array_agg(row (g.job, 'refuse', 'no: ' || (g.job).job_id,
                              jsonb_build_object('type', (g.job).queue), null, null)::wakeful.departure) as all
        from gone g
    ) as d
    cross join lateral wakeful.depart(d.all)
"""
WAITING = (
    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
)
TOLD = "select count(*) from wakeful.alert_delivery where message = 'alert.opened' and state = 'delivered'"


@pytest.mark.case("F78")
async def test_ten_thousand_deaths_of_three_kinds_are_a_handful_of_cards_and_the_counts_are_exact(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    producer = await db.connect()
    jobs = """select jsonb_agg(jsonb_build_object('job_type', 'COLLECT', 'queue', 'Kind' || n % 3))
              from generate_series(1, 2000) as n"""
    policy = Policy(alerts=AlertSettings(first_wait=1.0, updates=3600.0))
    async with (
        running_receiver() as receiver,
        dispatching(
            db,
            said,
            webhooks(said, hook=receiver.url, other=receiver.url),
            policy=policy,
            settings=OutboxSettings(interval=0.05, quiet=3600.0),
            number=2,
        ),
    ):
        for _ in range(5):
            await producer.execute(f"select count(*) from wakeful.enqueue_many(({jobs}), false)")
            for _ in range(4):
                assert await producer.fetchval(DEATHS) == 500
        await eventually(
            lambda: sql.fetchval("select coalesce(sum(occurrences), 0)::int from wakeful.alert"),
            until=lambda number: number == 10_000,
            timeout=60,
        )
        # What is ended by hand before anybody was told is told to nobody.
        await eventually(lambda: sql.fetchval(TOLD), until=lambda number: number == 6, timeout=60)
        await sql.execute("select wakeful.resolve(alert_id) from wakeful.alert")
        await eventually(lambda: _resolved(receiver.received), until=lambda ends: len(ends) == 6, timeout=60)

    cards = Counter(json.loads(request.body)["type"] for request in receiver.received)
    assert cards == {"alert.opened": 2 * 3, "alert.resolved": 2 * 3}
    ends = await _resolved(receiver.received)
    assert sum(end["data"]["occurrences"] for end in ends) == 2 * 10_000
    await counts_add_up(sql)
    assert await sql.fetchval("select count(*) from wakeful.dead") == 10_000
    assert await sql.fetchval("select count(distinct sink) from wakeful.alert_delivery") == 2
    by_kind = await sql.fetch("select occurrences from wakeful.alert order by dedupe_key")
    assert [row[0] for row in by_kind] == [3330, 3335, 3335]
    # In a minute, by the database's clock.
    assert await sql.fetchval(
        "select max(created_at) - min(created_at) < interval '1 min' from wakeful.alert_outbox"
    )


@pytest.mark.case("F73")
async def test_four_dispatchers_send_two_thousand_alerts_once_each(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    sink = _Counting("hook")
    await sql.execute(
        "select wakeful.alert('trouble', dedupe_key => 'key ' || n) from generate_series(1, 2000) as n"
    )
    async with dispatching(db, said, (sink,), number=4):
        await eventually(lambda: unsent(sql), until=lambda left: left == 0, timeout=90)

    assert len(sink.sent) == 2000
    assert len(set(sink.sent)) == 2000
    assert await sql.fetchval("select count(*) from wakeful.alert_delivery where attempts <> 1") == 0


@pytest.mark.case("F78")
async def test_a_restart_in_mid_window_tells_nothing_twice(db: ClonedDatabase, sql: Connection) -> None:
    said = heard()
    sink = _Counting("hook")
    for _ in range(3):
        async with dispatching(db, said, (sink,)):
            await alert(sql, "a", times=5)
            await eventually(lambda: unsent(sql), until=lambda left: left == 0, timeout=30)

    assert len(sink.sent) == 1
    assert await sql.fetchval("select occurrences from wakeful.alert") == 15


@pytest.mark.case("F77")
async def test_a_sink_that_is_gone_is_closed_keeps_what_waits_and_is_tried_again_after_a_restart(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    sink = _Scripted("hook", [_gone("410 Gone")])
    async with dispatching(db, said, (sink, _Counting("other"))):
        await alert(sql, "a")
        await said.recorder.seen(SINK_CLOSED, sink="hook")
        for n in range(19):
            await alert(sql, f"key {n}")
        await eventually(_delivered(sql, "other"), until=lambda number: number == 20, timeout=30)
    tried = len(sink.sent)
    assert tried <= 4  # what was under way when it said so
    assert await _waiting(sql) == 20

    async with dispatching(db, said, (sink, _Counting("other"))):
        await said.recorder.seen(SINK_OPENED, sink="hook")
        await make_due(sql)
        await eventually(_delivered(sql, "hook"), until=lambda number: number == 20, timeout=30)
    assert await _waiting(sql) == 0


@pytest.mark.case("F74")
async def test_a_sink_that_asks_for_a_pause_is_left_alone_by_all_and_the_others_are_not(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    async with (
        running_receiver(otherwise=refuse(429, Retry_After="60")) as busy,
        running_receiver() as well,
        dispatching(db, said, webhooks(said, hook=busy.url, well=well.url), number=3),
    ):
        await alert(sql, "first")
        await said.recorder.seen(OUTBOX_FAILED, sink="hook")
        for n in range(20):
            await alert(sql, f"key {n}")
        await eventually(_delivered(sql, "well"), until=lambda number: number == 21, timeout=30)

    assert len(busy.received) == 1


@pytest.mark.case("F74")
async def test_a_pause_is_kept_though_the_sink_is_held_when_it_is_asked_for(
    db: ClonedDatabase, sql: Connection
) -> None:
    said, holder = heard(), await db.connect()
    async with store_of(db, said) as store:
        await alert(sql, "first")
        await composed(store, said, "hook")
    async with running_receiver(otherwise=refuse(429, Retry_After="60")) as busy:
        async with holder.transaction():
            await holder.execute("select from wakeful.alert_sink for update")  # as who makes messages does
            async with dispatching(db, said, webhooks(said, hook=busy.url)):
                await eventually(lambda: sql.fetchval(WAITING), until=bool, timeout=20)
                await holder.execute("commit; begin")
                await said.recorder.seen(OUTBOX_FAILED, sink="hook")
        assert await sql.fetchval("select free_at > now() + interval '30 s' from wakeful.alert_sink")


async def test_a_sink_with_a_pace_is_given_one_message_at_a_time_whoever_sends_it(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    for n in range(3):
        await alert(sql, f"key {n}")
    async with store_of(db, said) as store, store_of(db, said) as second:
        await composed(store, said, "hook")
        assert len(await outbox.lease(store, "hook", 4, instance_id=1, seconds=60, pace=3600)) == 1
        assert await outbox.lease(second, "hook", 4, instance_id=2, seconds=60, pace=3600) == []
        sight = await outbox.look(second, ["hook"])
        assert sight.due == frozenset()
        await sql.execute("update wakeful.alert_sink set free_at = now()")
        assert (await outbox.look(second, ["hook"])).due == {"hook"}
        assert len(await outbox.lease(second, "hook", 4, instance_id=2, seconds=60, pace=3600)) == 1


@pytest.mark.case("F77")
async def test_nothing_is_due_and_nothing_is_given_out_for_a_sink_that_is_closed(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    await alert(sql, "a")
    async with store_of(db, said) as store:
        await composed(store, said, "hook")
        await sql.execute("update wakeful.alert_sink set closed_at = now()")
        assert (await outbox.look(store, ["hook"])).due == frozenset()
        for pace in (0.0, 1.0):
            assert await outbox.lease(store, "hook", 4, instance_id=1, seconds=60, pace=pace) == []


async def test_an_alert_that_can_not_be_written_stops_no_other(db: ClonedDatabase, sql: Connection) -> None:
    said = heard()
    for key in ("poison", "free"):
        await alert(sql, key)
    await sql.execute(
        """alter table wakeful.alert_delivery add constraint no_poison check (body not like '%poison%')"""
    )
    async with store_of(db, said) as store:
        await composed(store, said, "hook")

    (told,) = said.recorder.of(ALERT_UNTOLD)
    assert "no_poison" in str(told["error"])
    left_for = "select look_at > now() from wakeful.alert where dedupe_key = 'poison'"
    assert await sql.fetchval(left_for)
    assert [one["data"]["group"] for one in await take(sql)] == ["free"]


async def _resolved(received: Sequence[Received]) -> list[Any]:
    messages = [json.loads(request.body) for request in received]
    return [one for one in messages if one["type"] == "alert.resolved"]


async def _waiting(sql: Connection) -> int:
    found: int = await sql.fetchval(
        "select count(*) from wakeful.alert_delivery where sink = 'hook' and state = 'pending'"
    )
    return found


def _delivered(sql: Connection, sink: str) -> Any:
    return lambda: sql.fetchval(
        "select count(*) from wakeful.alert_delivery where sink = $1 and state = 'delivered'", sink
    )


class _Counting:
    """A sink that takes everything, and keeps the ids."""

    timeout = 5.0
    pace = 0.0

    def __init__(self, name: str) -> None:
        self.name = name
        self.sent: list[object] = []

    async def send(self, delivery: Delivery) -> Answer:
        self.sent.append(delivery.delivery_id)
        return Sent("taken")


class _Scripted(_Counting):
    """A sink that gives some answers first."""

    def __init__(self, name: str, answers: list[Answer]) -> None:
        super().__init__(name)
        self.answers = answers

    async def send(self, delivery: Delivery) -> Answer:
        self.sent.append(delivery.delivery_id)
        return self.answers.pop(0) if self.answers else Sent("taken")


def _gone(reason: str) -> Answer:
    return Failed(reason=reason, gone=True)
