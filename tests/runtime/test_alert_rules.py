"""The rules: each finds its condition, makes one alert of it whoever looks, and says when it is over."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import anyio
import pytest

from support import factories
from support.databases import ClonedDatabase, Connection
from support.dispatching import Heard, alert, composed, heard, pass_time, store_of, take
from support.factories import enqueue
from support.owners import Owner, owned_jobs, register, silence
from support.ruling import MINUTE, age, evaluate, titles
from wakeful.core.alert_settings import RuleSettings
from wakeful.outbox.folding import fold_events
from wakeful.outbox.rules import RULES
from wakeful.outbox.rules.rule import Rule
from wakeful.store import lanes, outbox
from wakeful.store.database import Database
from wakeful.store.instances import Report
from wakeful.telemetry.events import RULE_FAILED


@pytest.fixture
def said() -> Heard:
    return heard()


@pytest.fixture
async def store(db: ClonedDatabase, said: Heard) -> AsyncIterator[Database]:
    async with store_of(db, said) as store:
        yield store


@pytest.fixture
async def owner(store: Database) -> Owner:
    """A live instance that serves COLLECT, and has two sinks."""
    return await register(store, sinks=("hook", "other"))


async def test_a_queue_stands_still_until_somebody_takes_from_it_again(
    store: Database, said: Heard, sql: Connection, owner: Owner
) -> None:
    for _ in range(3):
        await enqueue(sql, queue="mail")
    await age(sql, 6 * MINUTE)
    await evaluate(store)
    assert await titles(sql) == []  # its first job was not seen there for long yet
    await age(sql, 6 * MINUTE)
    await evaluate(store)
    await evaluate(store)

    (title,) = await titles(sql)
    assert "queue mail stands still: for 6m nobody has taken a job of type COLLECT" in title
    assert "nothing here says why" in title
    await composed(store, said, "hook")
    assert [one["type"] for one in await take(sql)] == ["alert.opened"]

    assert len(await owner.claim(1)) == 1
    await pass_time(sql, 2 * MINUTE)
    await evaluate(store)
    await composed(store, said, "hook")
    (over,) = await take(sql)
    assert (over["type"], over["data"]["resolved_reason"]) == ("alert.resolved", "the condition has ended")


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        ("select wakeful.pause('mail', 'the provider is down')", "the queue is paused: the provider is down"),
        (
            "update wakeful.instance set queues = '{other}'",
            "no instance that serves the type serves this queue",
        ),
        (
            """insert into wakeful.lane (lane_id, queue, priority, job_type, suspect, closed)
               select lane_id, queue, priority, job_type, false, true from wakeful.ready""",
            "its lane is closed",
        ),
    ],
)
async def test_a_queue_that_stands_still_says_why(
    store: Database, sql: Connection, owner: Owner, cause: str, reason: str
) -> None:
    await enqueue(sql, queue="mail")
    await sql.execute(cause)
    await age(sql, 6 * MINUTE)
    await evaluate(store)
    await age(sql, 6 * MINUTE)
    await evaluate(store)

    (title,) = await titles(sql)
    assert reason in title


async def test_a_queue_behind_busy_workers_says_so(store: Database, sql: Connection, owner: Owner) -> None:
    await enqueue(sql, queue="mail")
    await register(store, "idle elsewhere", serves={"OTHER": "hash"})
    await owner.beat(Report(free_workers=0))
    for _ in range(2):
        await age(sql, 6 * MINUTE)
        await evaluate(store)
    (title,) = await titles(sql)
    assert "all workers are busy with other jobs" in title

    await owner.beat(Report(free_workers=1))
    await evaluate(store)
    (title,) = await titles(sql)
    assert "nothing here says why" in title


async def test_a_backlog_that_moves_does_not_stand_still_however_old_it_is(
    store: Database, sql: Connection, owner: Owner
) -> None:
    for _ in range(5):
        await enqueue(sql)
    await age(sql, 60 * MINUTE)
    for _ in range(4):
        await evaluate(store)
        await age(sql, 4 * MINUTE)
        assert len(await owner.claim(1)) == 1

    await evaluate(store)
    assert await titles(sql) == []


async def test_a_type_that_nobody_serves_is_told_until_somebody_does(
    store: Database, sql: Connection, owner: Owner
) -> None:
    await enqueue(sql, "AI_CHECK")
    await enqueue(sql, "AI_CHECK", queue="other")
    await lanes.mark_unserved(store)
    await evaluate(store)
    assert await titles(sql) == []
    await age(sql, 3 * MINUTE)
    await evaluate(store)
    assert await titles(sql) == ['no live instance serves job type "AI_CHECK": its jobs have waited for 3m']

    await register(store, serves={"AI_CHECK": "hash"})
    await lanes.mark_unserved(store)
    await pass_time(sql, 2 * MINUTE)
    await evaluate(store)
    assert await titles(sql) == []


async def test_many_deaths_in_one_queue_are_one_more_alert(store: Database, sql: Connection) -> None:
    await sql.execute(
        """insert into wakeful.alert_outbox (kind, dedupe_key, job_type, title, severity, body)
           select 'job_dead', 'k' || n, 'COLLECT', 't', 'error', '{"queue": "mail"}' from generate_series(1, 30) as n"""
    )
    await evaluate(store, dead_rate=RuleSettings(least=31))
    assert await titles(sql) == []
    await evaluate(store, dead_rate=RuleSettings(least=30))
    assert await titles(sql) == ["30 jobs of queue mail died within ten minutes"]


async def test_many_jobs_that_lost_their_instance_of_late_are_told_for_ten_minutes(
    store: Database, sql: Connection, owner: Owner
) -> None:
    await owned_jobs(sql, owner, 3)
    await silence(sql, owner, 60.0)
    await take_back_all(store, sql, owner)
    await evaluate(store, rescues=RuleSettings(least=4))
    assert await titles(sql) == []
    await evaluate(store, rescues=RuleSettings(least=3))
    (title,) = await titles(sql)
    assert title.startswith("3 jobs of queue default lost their instance within ten minutes")

    await age(sql, 11 * MINUTE)
    await pass_time(sql, 2 * MINUTE)
    await evaluate(store, rescues=RuleSettings(least=3))
    assert await titles(sql) == []
    assert await sql.fetchval("select count(*) from wakeful.rescue") == 0


async def take_back_all(store: Database, sql: Connection, owner: Owner) -> None:
    """Take the jobs of a silent owner back, as a reaper does."""
    lane = await sql.fetchval("select lane_id from wakeful.ready limit 1")
    positions = [row["pos"] for row in await sql.fetch("select pos from wakeful.ready order by pos")]
    taken = await sql.fetch(
        "select status from wakeful.reclaim($1, $2, $3, 0, null, 3)", lane, positions, owner.instance_id
    )
    assert [row["status"] for row in taken] == ["PENDING"] * len(positions)


async def test_a_long_transaction_is_told_by_who_holds_it_and_not_by_its_query(
    db: ClonedDatabase, store: Database, sql: Connection
) -> None:
    psql = await db.connect()
    await psql.execute("set application_name = 'report'")
    rule = RuleSettings(over=0.0)
    transaction = psql.transaction(isolation="repeatable_read")
    await transaction.start()
    await psql.fetchval("select count(*) from wakeful.ready where 's3cr3t' = 's3cr3t'")
    await evaluate(store, long_transaction=rule)

    (title,) = await titles(sql)
    assert "a transaction of report (pid" in title
    assert "s3cr3t" not in await sql.fetchval("select body::text from wakeful.alert")
    await transaction.rollback()
    await pass_time(sql, 2 * MINUTE)
    await evaluate(store, long_transaction=rule)
    assert await titles(sql, "resolved") == [title]


async def test_a_job_that_runs_far_longer_than_its_like_is_told(
    store: Database, sql: Connection, owner: Owner
) -> None:
    for _ in range(20):
        await factories.job_in(sql, "DONE")
    await sql.execute("update wakeful.finished set started_at = finished_at - interval '5 min'")
    await enqueue(sql, subject="place 9")
    await enqueue(sql, "RARE")
    assert len(await owner.claim()) == 2
    await evaluate(store)
    await sql.execute("update wakeful.ready set started_at = started_at - interval '11 min'")
    await evaluate(store)
    assert await titles(sql) == []  # long, but no more than twice what its like take
    await sql.execute("update wakeful.finished set started_at = finished_at - interval '30 s'")
    await evaluate(store)

    (title,) = await titles(sql)
    assert title.startswith("a job of type COLLECT has run for 11m; its like take 30")
    await sql.execute("delete from wakeful.ready")
    await pass_time(sql, 2 * MINUTE)
    await evaluate(store)
    assert await titles(sql) == []


@pytest.mark.case("F70", "F77")
async def test_a_sink_that_takes_nothing_is_told_to_the_others_only_and_adds_nothing_to_the_outbox(
    store: Database, said: Heard, sql: Connection, owner: Owner
) -> None:
    for n in range(50):
        await alert(sql, f"key {n % 5}")
    await composed(store, said, "hook", "other")
    for _ in range(4):  # both fail, for 20 minutes
        await sql.execute("update wakeful.alert_delivery set attempts = attempts + 1, last_answer = '503'")
        await pass_time(sql, 5 * MINUTE)
        await evaluate(store)
        await composed(store, said, "hook", "other")

    assert await sql.fetchval("select count(*) from wakeful.alert_outbox") == 50
    assert await sql.fetchval("select count(*) from wakeful.alert where kind = 'sink_failing'") == 2
    about = await sql.fetch(
        "select a.subject, d.sink from wakeful.alert_delivery d join wakeful.alert a using (alert_id)"
        " where a.kind = 'sink_failing' order by 1"
    )
    assert [tuple(row) for row in about] == [("hook", "other"), ("other", "hook")]

    await take(sql)
    await take(sql, sink="other")
    await pass_time(sql, 2 * MINUTE)
    await evaluate(store)
    assert await titles(sql, "resolved") != []
    assert all("have failed" not in title for title in await titles(sql))


async def test_a_sink_whose_messages_were_given_up_is_not_well_until_it_takes_one(
    store: Database, said: Heard, sql: Connection, owner: Owner
) -> None:
    await alert(sql, "a")
    await composed(store, said, "hook")
    await sql.execute("update wakeful.alert_delivery set attempts = 20, last_answer = '503'")
    await pass_time(sql, 10 * MINUTE)
    await evaluate(store)
    (title,) = [one for one in await titles(sql) if "hook" in one]
    await sql.execute("update wakeful.alert_delivery set state = 'failed', next_try_at = now()")
    for _ in range(3):
        await pass_time(sql, 5 * MINUTE)
        await evaluate(store)
    assert [one for one in await titles(sql, "resolved") if "hook" in one] == []

    await alert(sql, "b")
    await composed(store, said, "hook")
    await take(sql)
    await pass_time(sql, 2 * MINUTE)
    await evaluate(store)
    assert [one for one in await titles(sql, "resolved") if "hook" in one] != [], title


async def test_the_only_sink_is_not_told_of_itself(
    store: Database, said: Heard, sql: Connection, owner: Owner
) -> None:
    await sql.execute(
        """insert into wakeful.alert_sink (sink, closed_at, closed_reason)
           values ('hook', now() - interval '1 h', '410 Gone')"""
    )
    await evaluate(store)
    await composed(store, said, "hook")

    assert await titles(sql) == ["alerts to hook have failed for 1h: 410 Gone"]
    assert await sql.fetchval("select count(*) from wakeful.alert_delivery") == 0


async def test_a_condition_is_not_over_for_being_quiet(
    store: Database, sql: Connection, owner: Owner
) -> None:
    await sql.execute(
        "insert into wakeful.alert_sink (sink, closed_at) values ('hook', now() - interval '1 h')"
    )
    await evaluate(store)
    await alert(sql, "a")
    await fold_events(store, store.telemetry)
    await pass_time(sql, 24 * 60 * MINUTE)

    assert [one.kind for one in await outbox.resolve_quiet(store, MINUTE)] == ["trouble"]


async def test_two_that_look_at_once_make_one_alert(
    db: ClonedDatabase, said: Heard, store: Database, sql: Connection, owner: Owner
) -> None:
    await sql.execute(
        "insert into wakeful.alert_sink (sink, closed_at) values ('hook', now() - interval '1 h')"
    )
    async with store_of(db, said) as second, anyio.create_task_group() as group:
        for one in (store, second, store, second):
            group.start_soon(evaluate, one)

    assert await sql.fetchval("select array_agg(occurrences) from wakeful.alert") == [1]


async def test_thresholds_and_severities_are_set_for_queues_and_types(
    store: Database, sql: Connection, owner: Owner
) -> None:
    for queue in ("mail", "slow", "never"):
        await enqueue(sql, queue=queue)
    settings = {
        "mail": RuleSettings(rule="queue_stalled", queues=("mail",), over=1 * MINUTE, severity="critical"),
        "slow": RuleSettings(rule="queue_stalled", queues=("slow",), over=60 * MINUTE),
        "never": RuleSettings(rule="queue_stalled", queues=("never",), off=True),
    }
    for _ in range(3):
        await age(sql, 2 * MINUTE)
        await evaluate(store, **settings)

    rows = await sql.fetch("select subject, severity from wakeful.alert")
    assert [tuple(row) for row in rows] == [("mail", "critical")]


async def test_a_rule_whose_alert_somebody_holds_stops_no_other(
    db: ClonedDatabase, store: Database, said: Heard, sql: Connection, owner: Owner
) -> None:
    await sql.execute(
        "insert into wakeful.alert_sink (sink, closed_at) values ('hook', now() - interval '1 h')"
    )
    await evaluate(store)
    await sql.execute(
        """insert into wakeful.alert
               (dedupe_key, kind, title, severity, body, occurrences, first_seen, last_seen, lasting)
           values ('dead_rate:mail', 'dead_rate', 't', 'error', '{}', 1, now(), now() - interval '1 day', true)"""
    )
    psql = await db.connect()
    async with psql.transaction():
        await psql.execute("update wakeful.alert set title = title where kind = 'sink_failing'")
        await evaluate(store)

    assert [one["rule"] for one in said.recorder.of(RULE_FAILED)] == ["sink_failing"]
    assert await titles(sql, "resolved") == ["t"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_has_words_for_what_it_may_find(rule: Rule) -> None:
    assert rule.title(rule.example)
    assert isinstance(json.loads(rule.example.details_text), dict)
    assert rule.advice
    assert (rule.over is None) != (rule.least is None)
    assert rule.example.value >= rule.threshold
