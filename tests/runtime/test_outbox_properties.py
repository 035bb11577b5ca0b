"""What holds whatever happens, in any order: the sum of occurrences, and the order of what a sink hears of an alert."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

import anyio
import pytest
from aiohttp import web

from support.databases import ClonedDatabase, Connection
from support.dispatching import (
    Heard,
    alert,
    composed,
    dispatching,
    heard,
    store_of,
    take,
    unsent,
    webhooks,
)
from support.eventually import eventually
from support.factories import claim, depart, enqueue
from support.receiver import Received, Reply, accept, hang_up, refuse, reset, running_receiver, stall
from wakeful.core.alert_settings import AlertSettings, RouteSettings
from wakeful.errors import StoreBusy
from wakeful.outbox.policy import Policy
from wakeful.store import alert_board, outbox, upkeep
from wakeful.store.alert_board import Named
from wakeful.store.database import Database

STEPS = 60
UNFOLDED = "select count(*) from wakeful.alert_outbox where alert_id is null"


class _Killed(Exception):
    """Ends a transaction as the death of its process would."""


@dataclass(slots=True, kw_only=True)
class _World:
    """Everything that can happen; `happened` and `pruned` count occurrences beside the database."""

    sql: Connection
    stores: tuple[Database, Database]
    said: Heard
    chance: random.Random
    happened: int = 0
    pruned: int = 0
    log: list[str] = field(default_factory=list)

    async def step(self) -> None:
        deeds: list[Callable[[], Awaitable[None]]] = [
            *(
                self.deaths,
                self.deaths,
                self.alerts,
                self.unfoldable,
                self.fold,
                self.fold,
                self.fold_at_once,
            ),
            *(self.die_in_a_fold, self.compose, self.take, self.acknowledge, self.resolve, self.mute),
            *(
                self.requeue,
                self.requeue,
                self.over,
                self.prune_alerts,
                self.prune_events,
                self.die_in_making,
            ),
        ]
        deed = self.chance.choice(deeds)
        self.log.append(deed.__name__)
        with suppress(StoreBusy):
            await deed()
        await self.adds_up()

    async def adds_up(self) -> None:
        unfolded = await self.sql.fetchval(UNFOLDED)
        counted = await self.occurrences()
        assert self.happened == unfolded + counted + self.pruned, self.log
        wrong = await self.sql.fetchval(
            """select count(*) from wakeful.alert a
               where a.occurrences < (select count(*) from wakeful.alert_outbox o where o.alert_id = a.alert_id)"""
        )
        assert wrong == 0, self.log

    async def occurrences(self) -> int:
        found: int = await self.sql.fetchval("select coalesce(sum(occurrences), 0)::int from wakeful.alert")
        return found

    async def deaths(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            job_id = (await enqueue(self.sql, subject=self.chance.choice("xyz"))).job_id
            await claim(self.sql, job_id)
            await depart(self.sql, job_id, "refuse", entry={"type": self.chance.choice("ABC")})
            self.happened += 1

    async def alerts(self) -> None:
        times = self.chance.randint(1, 5)
        await alert(self.sql, self.chance.choice("abc"), times=times)
        self.happened += times

    async def unfoldable(self) -> None:
        await self.sql.execute(
            "insert into wakeful.alert_outbox (kind, dedupe_key, title, severity, body)"
            " select 'trouble', (select string_agg(md5(n::text), '') from generate_series(1, 300) as n), 't', 'info',"
            " '{}'"
        )
        self.happened += 1

    async def fold(self) -> None:
        await composed(self.chance.choice(self.stores), self.said)

    async def fold_at_once(self) -> None:
        async def one(store: Database) -> None:
            with suppress(Exception):  # the unfoldable: counted by the next `fold`
                await outbox.fold(store, limit=self.chance.randint(1, 4))

        async with anyio.create_task_group() as group:
            for store in self.stores:
                group.start_soon(one, store)

    async def die_in_a_fold(self) -> None:
        with suppress(Exception):
            async with self.stores[0].transaction() as transaction:
                await transaction.fetch("fold_alerts", self.chance.randint(1, 9), [], None, 0.0)
                raise _Killed

    async def die_in_making(self) -> None:
        key = self.chance.choice("abc")
        with suppress(_Killed):
            async with self.stores[0].transaction() as transaction:
                await transaction.fetch("set_aside_events", key, 2, 0.0)
                raise _Killed

    async def compose(self) -> None:
        await composed(self.chance.choice(self.stores), self.said, "hook")

    async def take(self) -> None:
        await take(self.sql)

    async def acknowledge(self) -> None:
        if (alert_id := await self.some_alert()) is not None:
            await alert_board.acknowledge(self.stores[0], alert_id)

    async def resolve(self) -> None:
        if (alert_id := await self.some_alert()) is not None:
            await alert_board.resolve(self.stores[0], alert_id, None)

    async def some_alert(self) -> int | None:
        found = [row[0] for row in await self.sql.fetch("select alert_id from wakeful.alert order by 1")]
        return self.chance.choice(found) if found else None

    async def mute(self) -> None:
        await alert_board.mute(self.stores[0], Named(kind="trouble"), seconds=1.0, reason="we know")

    async def requeue(self) -> None:
        for row in await self.sql.fetch("select job_id from wakeful.dead order by random() limit 3"):
            await self.sql.fetchval("select wakeful.requeue($1)", row[0])

    async def over(self) -> None:
        await outbox.resolve_gone(self.stores[0])
        if self.chance.random() < 0.3:
            await outbox.resolve_quiet(self.stores[1], 0.0)

    async def prune_alerts(self) -> None:
        before = await self.occurrences()
        await upkeep.prune_alerts(self.stores[0], 0.0, 3)
        self.pruned += before - await self.occurrences()

    async def prune_events(self) -> None:
        unfolded = await self.sql.fetchval(UNFOLDED)
        await upkeep.prune_outbox(self.stores[0], 0.0, 5)
        assert await self.sql.fetchval(UNFOLDED) == unfolded


@pytest.mark.parametrize("seed", range(2))
async def test_occurrences_are_the_events_whatever_happens(
    db: ClonedDatabase, sql: Connection, seed: int
) -> None:
    said = heard()
    async with store_of(db, said) as one, store_of(db, said) as other:
        world = _World(sql=sql, stores=(one, other), said=said, chance=random.Random(seed))
        for _ in range(STEPS):
            await world.step()
        await world.fold()
        await world.adds_up()

    assert await sql.fetchval(UNFOLDED) == 0
    assert world.happened > 10


@pytest.mark.parametrize("seed", range(2))
async def test_a_sink_hears_of_the_beginning_before_the_end_however_it_fails(
    db: ClonedDatabase, sql: Connection, seed: int
) -> None:
    said, chance = heard(), random.Random(seed)

    async def lose_the_reply(received: Received, request: web.Request) -> web.StreamResponse:
        return await reset(received, request)

    failures: list[Reply] = [
        refuse(429, Retry_After="0.2"),
        refuse(500),
        hang_up,
        lose_the_reply,
        refuse(404),
    ]
    script = [accept if chance.random() < 0.5 else chance.choice(failures) for _ in range(60)] + [stall] * 2
    chance.shuffle(script)
    policy = Policy(
        alerts=AlertSettings(first_wait=0.0, updates=0.05),
        routes={"hook": RouteSettings(digest="off", most=0)},
    )
    async with AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(running_receiver(*script))
        sinks = webhooks(said, hook=receiver.url)
        await stack.enter_async_context(dispatching(db, said, sinks, policy=policy, number=2))
        for n in range(12):
            await alert(sql, f"key {n % 6}", times=chance.randint(1, 3))
            await _hurry(sql)
            if chance.random() < 0.4:
                await sql.execute("select wakeful.resolve(max(alert_id)) from wakeful.alert")
        await eventually(lambda: sql.fetchval(UNFOLDED), until=lambda left: left == 0, timeout=30)
        await sql.execute("select wakeful.resolve(alert_id, 'the end') from wakeful.alert")
        await eventually(lambda: _unsent(sql), until=lambda left: left == 0, timeout=60)

    heard_of: dict[int, list[str]] = {}
    for message in (json.loads(request.body) for request in receiver.received):
        heard_of.setdefault(message["data"]["alert_id"], []).append(message["type"])
    for alert_id, types in heard_of.items():
        end = types.index("alert.resolved")
        assert types[0] == "alert.opened", (alert_id, types)
        assert set(types[end:]) == {"alert.resolved"}, (alert_id, types)
    assert len({(r.message_id, r.body) for r in receiver.received}) == len(
        {r.message_id for r in receiver.received}
    )
    assert await sql.fetchval("select count(*) from wakeful.alert_delivery where state <> 'delivered'") == 0


async def _hurry(sql: Connection) -> None:
    """Let what waits for its next try, but not what is being sent, be due."""
    await sql.execute(
        "update wakeful.alert_delivery set next_try_at = now()"
        " where state = 'pending' and (leased_until is null or leased_until < now())"
    )
    await sql.execute("update wakeful.alert_sink set free_at = least(free_at, now())")
    await sql.execute("update wakeful.alert set look_at = now() where look_at > now() and state = 'resolved'")


async def _unsent(sql: Connection) -> int:
    await _hurry(sql)
    return await unsent(sql)
