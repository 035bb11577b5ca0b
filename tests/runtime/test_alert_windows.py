"""When people hear of an alert: once for a burst, then updates, reminders and the end, by stored times alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from asyncpg import PostgresError

from support.databases import ClonedDatabase, Connection
from support.dispatching import Heard, alert, composed, counts_add_up, heard, pass_time, store_of, take
from wakeful.core.alert_settings import AlertSettings, RouteSettings
from wakeful.outbox.composing import Composing
from wakeful.outbox.policy import Policy
from wakeful.store import outbox, upkeep
from wakeful.store.database import Database

USUAL = Policy(alerts=AlertSettings())
MINUTE = 60.0


@pytest.fixture
def said() -> Heard:
    return heard()


@pytest.fixture
async def store(db: ClonedDatabase, said: Heard) -> AsyncIterator[Database]:
    async with store_of(db, said) as store:
        yield store


async def look(
    store: Database,
    said: Heard,
    sql: Connection,
    *,
    policy: Policy = USUAL,
    after: float = 0.0,
    sink: str = "hook",
) -> list[dict[str, Any]]:
    """Let time pass, make the messages that are due, and let the sink take them; gives (type, occurrences)."""
    await pass_time(sql, after)
    await composed(store, said, sink, policy=policy)
    return await take(sql, sink=sink)


def told(messages: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(one["type"].removeprefix("alert."), one["data"]["occurrences"]) for one in messages]


async def test_a_burst_is_one_card_after_a_short_wait_with_its_count_and_samples(
    store: Database, said: Heard, sql: Connection
) -> None:
    await alert(sql, "a", times=3)
    assert await look(store, said, sql) == []
    await alert(sql, "a", times=40)
    assert await look(store, said, sql, after=5) == []

    (card,) = await look(store, said, sql, after=6)

    assert told([card]) == [("opened", 43)]
    assert [one["error"] for one in card["data"]["samples"]] == [
        f"a number {n}" for n in (40, 39, 38, 37, 36)
    ]
    assert card["data"]["group"] == card["data"]["dedupe_key"] == "a"


@pytest.mark.case("F78")
async def test_what_goes_on_is_told_at_most_every_five_minutes_with_the_count_so_far(
    store: Database, said: Heard, sql: Connection
) -> None:
    await alert(sql, "a")
    await look(store, said, sql)
    assert told(await look(store, said, sql, after=11)) == [("opened", 1)]
    for _ in range(4):
        await alert(sql, "a", times=10)
        assert await look(store, said, sql, after=MINUTE) == []

    await alert(sql, "a", times=2)
    assert told(await look(store, said, sql, after=MINUTE)) == [("updated", 43)]
    assert await look(store, said, sql, after=6 * MINUTE) == []


@pytest.mark.case("F78")
async def test_after_a_quiet_time_it_is_over_and_what_comes_then_is_a_new_alert(
    store: Database, said: Heard, sql: Connection
) -> None:
    await alert(sql, "a", times=2)
    await look(store, said, sql)
    await look(store, said, sql, after=11)
    await pass_time(sql, 16 * MINUTE)
    await outbox.resolve_quiet(store, 15 * MINUTE)

    (end,) = await look(store, said, sql)
    await alert(sql, "a")
    await look(store, said, sql)
    (anew,) = await look(store, said, sql, after=11)

    assert told([end, anew]) == [("resolved", 2), ("opened", 1)]
    assert end["data"]["resolved_reason"] == "quiet"
    assert end["data"]["alert_id"] != anew["data"]["alert_id"]
    await counts_add_up(sql)


async def test_what_only_stays_open_is_told_again_every_four_hours_until_somebody_takes_it_on(
    store: Database, said: Heard, sql: Connection
) -> None:
    await alert(sql, "a")
    await look(store, said, sql)
    await look(store, said, sql, after=11)

    assert await look(store, said, sql, after=239 * MINUTE) == []
    assert told(await look(store, said, sql, after=2 * MINUTE)) == [("reminder", 1)]
    assert await sql.fetchval("select wakeful.acknowledge(1)")
    await alert(sql, "a")
    assert await look(store, said, sql, after=600 * MINUTE) == []
    assert await sql.fetchval("select wakeful.resolve(1, 'the disk was full')")
    (end,) = await look(store, said, sql)
    assert told([end]) == [("resolved", 2)]
    assert "the disk was full" in end["data"]["resolved_reason"]


async def test_no_message_overtakes_the_one_before_and_what_happens_meanwhile_is_in_the_next(
    store: Database, said: Heard, sql: Connection
) -> None:
    await alert(sql, "a")
    await composed(store, said, "hook", policy=USUAL)
    await pass_time(sql, 11)
    await composed(store, said, "hook", policy=USUAL)
    for _ in range(3):  # the sink takes nothing, and it goes on
        await alert(sql, "a", times=5)
        await pass_time(sql, 6 * MINUTE)
        await composed(store, said, "hook", policy=USUAL)
    await sql.fetchval("select wakeful.resolve(1)")
    await composed(store, said, "hook", policy=USUAL)

    assert told(await take(sql)) == [("opened", 1)]
    assert told(await look(store, said, sql)) == [("resolved", 16)]
    assert await look(store, said, sql, after=600 * MINUTE) == []


@pytest.mark.case("F78")
async def test_a_storm_is_some_cards_and_one_line_that_says_how_many_more(
    store: Database, said: Heard, sql: Connection
) -> None:
    for n in range(100):
        await alert(sql, f"key {n}")
    await look(store, said, sql)

    cards = await look(store, said, sql, after=11)
    assert told(cards) == [("opened", 1)] * 20
    assert await look(store, said, sql, after=30) == []
    (line,) = await look(store, said, sql, after=31)

    assert told([line]) == [("digest", 80)]
    assert line["data"]["title"] == "80 more alerts"
    assert (len(line["data"]["alerts"]), line["data"]["more"]) == (20, 60)
    assert await look(store, said, sql, after=MINUTE) == []


@pytest.mark.case("F74")
async def test_a_sink_that_is_down_collects_a_handful_and_hears_of_the_rest_in_one(
    store: Database, said: Heard, sql: Connection
) -> None:
    for hour in range(3):
        for n in range(30):
            await alert(sql, f"key {hour} {n}")
        for _ in range(10):
            await pass_time(sql, 61)
            await composed(store, said, "hook", policy=USUAL)

    waiting = await sql.fetchval("select count(*) from wakeful.alert_delivery where state = 'pending'")
    assert waiting <= 20 + 10
    first = await take(sql)
    rest = await look(store, said, sql, after=61)
    concerned = [one["data"]["alerts"] or [one["data"]] for one in first + rest]
    assert sum(map(len, concerned)) + sum(one["data"]["more"] for one in first + rest) == 90


@pytest.mark.case("F78")
async def test_messages_that_waited_too_long_become_one_summary(
    store: Database, said: Heard, sql: Connection
) -> None:
    for n in range(5):
        await alert(sql, f"key {n}", times=n + 1)
    await composed(store, said, "hook", policy=USUAL)
    await pass_time(sql, 11)
    await composed(store, said, "hook", policy=USUAL)
    composing = Composing(database=store, telemetry=said.telemetry, policy=USUAL, sinks=("hook",))
    assert await composing.merge_stale() == 0
    await pass_time(sql, 61 * MINUTE)

    assert await composing.merge_stale() == 5

    (summary,) = await take(sql)
    assert told([summary]) == [("digest", 15)]
    assert [one["occurrences"] for one in summary["data"]["alerts"]] == [5, 4, 3, 2, 1]
    assert await sql.fetchval("select count(*) from wakeful.alert_delivery where state = 'merged'") == 5


async def test_a_sink_without_digests_is_given_each_message_however_late(
    store: Database, said: Heard, sql: Connection
) -> None:
    """A summary resolves no incident, and would be one that nobody resolves."""
    policy = Policy(alerts=AlertSettings(), routes={"hook": RouteSettings(digest="off")})
    await alert(sql, "a")
    await alert(sql, "b")
    await composed(store, said, "hook", policy=policy)
    await pass_time(sql, 11)
    await composed(store, said, "hook", policy=policy)
    await pass_time(sql, 61 * MINUTE)
    composing = Composing(database=store, telemetry=said.telemetry, policy=policy, sinks=("hook",))

    assert await composing.merge_stale() == 0

    assert told(await take(sql)) == [("opened", 1), ("opened", 1)]


@pytest.mark.parametrize("until", ["20000-01-01", "infinity", "2000-01-01", None])
async def test_a_mute_that_ends_when_nobody_lives_is_refused_and_alerts_are_told(
    store: Database, said: Heard, sql: Connection, until: str | None
) -> None:
    with suppress(PostgresError):
        await sql.execute("select wakeful.mute($1::text::timestamptz, 'we know', kind => 'trouble')", until)
    await alert(sql, "a")
    await look(store, said, sql)

    assert told(await look(store, said, sql, after=11)) == [("opened", 1)]
    assert await sql.fetchval("select count(*) from wakeful.alert_mute") == 0


async def test_a_mute_that_was_taken_back_goes_at_its_age_however_late_it_would_have_ended(
    store: Database, sql: Connection
) -> None:
    for kind in ("over", "standing"):
        await sql.execute("select wakeful.mute(now() + interval '9 years', 'we know', kind => $1)", kind)
    await sql.execute(
        "update wakeful.alert_mute set ended_at = now() - interval '2 hours' where kind = 'over'"
    )

    await upkeep.prune_alerts(store, 60 * MINUTE, 100)

    assert await sql.fetchval("select array_agg(kind) from wakeful.alert_mute") == ["standing"]


@pytest.mark.parametrize(
    "named", ["kind => 'trouble'", "job_type => 'COLLECT'", "queue => 'q'", "subject => 's1'"]
)
async def test_a_mute_keeps_still_what_it_names_until_its_time_and_counts_it(
    store: Database, said: Heard, sql: Connection, named: str
) -> None:
    raised = """select wakeful.alert('trouble', dedupe_key => 'a', job_type => 'COLLECT', subject => 's1',
                                     severity => 'error', body => '{"queue": "q"}')"""
    await sql.fetchval(f"select wakeful.mute(now() + interval '1 hour', 'we know', {named})")
    await sql.execute(raised)
    await alert(sql, "other")
    if named.startswith("kind"):
        await sql.execute("update wakeful.alert_outbox set kind = 'other' where dedupe_key = 'other'")
    await look(store, said, sql)

    assert [one["data"]["group"] for one in await look(store, said, sql, after=20)] == ["other"]
    await sql.execute(raised)
    assert await look(store, said, sql, after=30 * MINUTE) == []
    (card,) = await look(store, said, sql, after=31 * MINUTE)
    assert (card["data"]["group"], card["data"]["occurrences"]) == ("a", 2)


async def test_a_mute_that_is_taken_back_tells_at_once_and_both_are_in_the_audit(
    store: Database, said: Heard, sql: Connection
) -> None:
    number = await sql.fetchval("select wakeful.mute(now() + interval '1 day', 'we know', kind => 'trouble')")
    await alert(sql, "a")
    await look(store, said, sql)
    assert await look(store, said, sql, after=20) == []

    assert await sql.fetchval("select wakeful.unmute($1)", number)
    assert told(await look(store, said, sql)) == [("opened", 1)]
    assert not await sql.fetchval("select wakeful.unmute($1)", number)
    noted = await sql.fetch(
        "select action, detail ->> 'reason' as reason from wakeful.audit order by audit_id"
    )
    assert [tuple(row) for row in noted] == [("mute", "we know"), ("unmute", None)]


async def test_what_nobody_took_on_in_time_goes_to_a_second_sink(
    store: Database, said: Heard, sql: Connection
) -> None:
    policy = Policy(alerts=AlertSettings(), routes={"oncall": RouteSettings(after=15 * MINUTE)})
    sinks = ("hook", "oncall")
    for key in ("a", "b"):
        await alert(sql, key)
    await composed(store, said, *sinks, policy=policy)
    await pass_time(sql, 11)
    await composed(store, said, *sinks, policy=policy)
    assert len(await take(sql)) == 2
    await sql.fetchval("select wakeful.acknowledge(alert_id) from wakeful.alert where dedupe_key = 'a'")
    await pass_time(sql, 14 * MINUTE)
    await composed(store, said, *sinks, policy=policy)
    assert await take(sql, sink="oncall") == []

    await pass_time(sql, 2 * MINUTE)
    await composed(store, said, *sinks, policy=policy)

    assert [one["data"]["group"] for one in await take(sql, sink="oncall")] == ["b"]


async def test_an_alert_that_somebody_holds_is_left_and_the_others_are_told(
    db: ClonedDatabase, store: Database, said: Heard, sql: Connection
) -> None:
    for key in ("held", "free"):
        await alert(sql, key)
    await look(store, said, sql)
    await pass_time(sql, 11)
    psql = await db.connect()
    async with psql.transaction():
        await psql.execute("update wakeful.alert set title = title where dedupe_key = 'held'")
        await composed(store, said, "hook", policy=USUAL)
        made = await sql.fetch(
            "select dedupe_key from wakeful.alert_delivery join wakeful.alert using (alert_id)"
        )
        assert [row[0] for row in made] == ["free"]

    await composed(store, said, "hook", policy=USUAL)
    assert [one["data"]["group"] for one in await take(sql)] == ["free", "held"]


@pytest.mark.parametrize("also", [None, "resolve", "quiet"])
async def test_what_somebody_took_on_before_anybody_was_told_is_told_to_nobody(
    store: Database, said: Heard, sql: Connection, also: str | None
) -> None:
    await alert(sql, "a")
    await look(store, said, sql)
    assert await sql.fetchval("select wakeful.acknowledge(1)")
    assert await look(store, said, sql, after=11) == []
    if also == "resolve":
        assert await sql.fetchval("select wakeful.resolve(1)")
    elif also == "quiet":
        await pass_time(sql, 16 * MINUTE)
        assert len(await outbox.resolve_quiet(store, 15 * MINUTE)) == 1

    assert await look(store, said, sql, after=11) == []
    assert await look(store, said, sql, after=600 * MINUTE) == []


async def test_what_was_ended_by_hand_before_anybody_was_told_is_told_to_nobody(
    store: Database, said: Heard, sql: Connection
) -> None:
    await alert(sql, "a")
    await look(store, said, sql)
    assert await sql.fetchval("select wakeful.resolve(1, 'I saw it in the log')")

    assert await look(store, said, sql, after=11) == []


async def test_what_ended_by_itself_before_anybody_was_told_is_told_with_its_end(
    store: Database, said: Heard, sql: Connection
) -> None:
    """Nobody knows of it yet: a sink with quiet hours, or one that all dispatchers were late for."""
    await alert(sql, "a")
    await look(store, said, sql)
    await pass_time(sql, 16 * MINUTE)
    await outbox.resolve_quiet(store, 15 * MINUTE)

    assert told(await look(store, said, sql)) == [("opened", 1)]
    assert told(await look(store, said, sql)) == [("resolved", 1)]


async def test_who_was_told_hears_of_the_end_and_who_was_not_hears_nothing_when_it_was_taken_on_between(
    store: Database, said: Heard, sql: Connection
) -> None:
    await alert(sql, "a")
    await look(store, said, sql)
    await pass_time(sql, 11)
    await composed(store, said, "hook", policy=USUAL)
    assert told(await take(sql)) == [("opened", 1)]
    assert await sql.fetchval("select wakeful.acknowledge(1) and wakeful.resolve(1)")
    await composed(store, said, "hook", "night", policy=USUAL)

    assert told(await take(sql)) == [("resolved", 1)]
    assert await take(sql, sink="night") == []


@pytest.mark.parametrize("state", ["acknowledge", "resolve"])
async def test_what_is_held_for_a_digest_is_in_it_whatever_becomes_of_it(
    store: Database, said: Heard, sql: Connection, state: str
) -> None:
    policy = Policy(alerts=AlertSettings(), routes={"hook": RouteSettings(digest="error")})
    await alert(sql, "a")
    await look(store, said, sql, policy=policy)
    await look(store, said, sql, policy=policy, after=11)
    assert await sql.fetchval(f"select wakeful.{state}(1)")

    (digest,) = await look(store, said, sql, policy=policy, after=3600)

    assert [one["state"] for one in digest["data"]["alerts"]] == [f"{state}d"]
    assert await look(store, said, sql, policy=policy, after=7200) == []
