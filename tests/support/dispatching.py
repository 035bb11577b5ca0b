"""Dispatchers of the outbox as tests need them: some on one database, stopped when the block ends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio

from support.databases import ClonedDatabase, Connection
from support.proxy import Proxy
from wakeful.aio.wakeup import Wakeup
from wakeful.core.alert_settings import AlertSettings, RouteSettings
from wakeful.core.settings import DatabaseSettings, OutboxSettings, SinkSettings
from wakeful.outbox.composing import Composing
from wakeful.outbox.dispatcher import run_dispatcher
from wakeful.outbox.folding import fold_events
from wakeful.outbox.policy import Policy
from wakeful.outbox.sinks import Sink, build_sinks
from wakeful.store.database import Database, open_database
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.recorder import Recorder

BRISK = OutboxSettings(interval=0.05)
UNBRAKED = RouteSettings(digest="off", most=0)
# Each alert at once, by itself, and each new occurrence an hour later.
AT_ONCE = Policy(
    alerts=AlertSettings(first_wait=0.0, updates=3600.0),
    routes=dict.fromkeys(("hook", "other", "one", "two", "well", "dead", "log", "broken"), UNBRAKED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What dispatchers said."""

    telemetry: Telemetry
    recorder: Recorder


def heard() -> Heard:
    """A strict telemetry and what it recorded."""
    telemetry, recorder = Telemetry(strict=True), Recorder()
    telemetry.subscribe(recorder)
    return Heard(telemetry=telemetry, recorder=recorder)


def webhooks(said: Heard, **urls: str) -> tuple[Sink, ...]:
    """Sinks of kind webhook by name, each with half a second for a try."""
    settings = {name: SinkSettings(kind="webhook", url=url, timeout=0.5) for name, url in urls.items()}
    return build_sinks(settings, said.telemetry)


@asynccontextmanager
async def store_of(db: ClonedDatabase, said: Heard, *, proxy: Proxy | None = None) -> AsyncIterator[Database]:
    """The daemon's own way to the test's database, or through a proxy."""
    dsn = db.dsn if proxy is None else proxy.dsn(db.name)
    async with open_database(DatabaseSettings(dsn=dsn), said.telemetry) as database:
        yield database


@asynccontextmanager
async def dispatching(
    db: ClonedDatabase,
    said: Heard,
    sinks: Sequence[Sink],
    *,
    settings: OutboxSettings = BRISK,
    policy: Policy = AT_ONCE,
    number: int = 1,
    flush_seconds: float = 0.0,
    proxy: Proxy | None = None,
) -> AsyncIterator[None]:
    """Run `number` dispatchers, each with connections of its own; they are stopped in order when the block ends."""
    stop = anyio.Event()
    async with AsyncExitStack() as databases:
        stores = [await databases.enter_async_context(store_of(db, said, proxy=proxy)) for _ in range(number)]
        async with anyio.create_task_group() as group:
            for number_of_one, store in enumerate(stores, start=1):
                group.start_soon(
                    _run, store, sinks, stop, said, settings, policy, number_of_one, flush_seconds
                )
            yield
            stop.set()


async def _run(
    store: Database,
    sinks: Sequence[Sink],
    stop: anyio.Event,
    said: Heard,
    settings: OutboxSettings,
    policy: Policy,
    number: int,
    flush_seconds: float,
) -> None:
    await run_dispatcher(
        store,
        sinks,
        stop,
        telemetry=said.telemetry,
        settings=settings,
        policy=policy,
        wakeup=Wakeup(),
        instance_id=lambda: number,
        flush_seconds=flush_seconds,
    )


async def composed(store: Database, said: Heard, *sinks: str, policy: Policy = AT_ONCE) -> int:
    """Fold what happened, and make the messages that are due; gives how many."""
    await fold_events(store, said.telemetry, first_wait=policy.alerts.first_wait)
    composing = Composing(database=store, telemetry=said.telemetry, policy=policy, sinks=sinks)
    return await composing.compose()


async def alert(connection: Connection, key: str, *, times: int = 1, body: str = "{}") -> None:
    """Let something happen, some times, each in a transaction of its own or in the caller's."""
    await connection.executemany(
        "select wakeful.alert('trouble', title => $2, dedupe_key => $1, body => $3::text::jsonb)",
        [(key, f"{key} number {n}", body) for n in range(1, times + 1)],
    )


async def unsent(connection: Connection) -> int:
    """Events that are not folded, alerts that are to be looked at now, and messages that are not delivered."""
    found: int = await connection.fetchval(
        """select (select count(*) from wakeful.alert_outbox where alert_id is null)
                + (select count(*) from wakeful.alert where look_at <= now())
                + (select count(*) from wakeful.alert_delivery where state = 'pending')"""
    )
    return found


async def counts_add_up(connection: Connection) -> None:
    """The invariant: the occurrences of all alerts are the events that were folded, alert by alert."""
    wrong = await connection.fetch(
        """select a.alert_id, a.occurrences, count(o.outbox_id) as events
           from wakeful.alert a
           left join wakeful.alert_outbox o on o.alert_id = a.alert_id
           where not a.lasting
           group by a.alert_id
           having a.occurrences <> count(o.outbox_id)"""
    )
    assert not wrong


async def make_due(connection: Connection) -> None:
    """Let the time pass that messages wait: for their next try, or for a lease to end."""
    await connection.execute(
        "update wakeful.alert_delivery set next_try_at = now(), leased_until = now() where state = 'pending'"
    )


async def pass_time(connection: Connection, seconds: float) -> None:
    """Let time pass for alerts, by making everything that is known of them older."""
    for table, columns in _TIMES.items():
        changes = ", ".join(f"{column} = {column} - make_interval(secs => $1)" for column in columns)
        await connection.execute(f"update wakeful.{table} set {changes}", seconds)


_TIMES = {
    "alert": ("first_seen", "last_seen", "opened_at", "look_at", "acknowledged_at", "resolved_at"),
    "alert_notice": ("told_at", "held_until"),
    "alert_sink": ("free_at", "window_from"),
    "alert_delivery": ("created_at", "next_try_at", "leased_until"),
    "alert_mute": ("created_at", "until"),
    "alert_holder": ("held_at",),
}


async def take(connection: Connection, *, sink: str = "hook") -> list[dict[str, Any]]:
    """Take all messages that wait for a sink, as if it had accepted them; gives them in their order."""
    rows = await connection.fetch(
        """update wakeful.alert_delivery set state = 'delivered', delivered_at = now()
           where sink = $1 and state = 'pending' returning delivery_id, body""",
        sink,
    )
    # What waited for them to be taken is looked at soon.
    await connection.execute(
        "update wakeful.alert set look_at = least(look_at, now()) where look_at is not null"
    )
    return [json.loads(row["body"]) for row in sorted(rows, key=lambda row: row["delivery_id"])]
