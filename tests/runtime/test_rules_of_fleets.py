"""Rules where instances are set differently, a rule fails, a condition comes and goes; and what a look costs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.counted import counted
from support.databases import ClonedDatabase, Connection
from support.dispatching import Heard, heard, pass_time, store_of
from support.factories import enqueue
from support.owners import Owner, register
from support.ruling import MINUTE, age, evaluate, keys
from wakeful.core.alert_settings import RuleSettings
from wakeful.core.settings import DatabaseSettings, Settings, SinkSettings
from wakeful.outbox.rules import RULES
from wakeful.outbox.rules.evaluating import condition_of, critical_types, fingerprint_of, with_rules
from wakeful.store import conditions, instances
from wakeful.store.conditions import Found
from wakeful.store.database import Database, open_database
from wakeful.store.instances import Report
from wakeful.telemetry.events import ALERT_OPENED, ALERT_RESOLVED, RULE_FAILED

STRICT = {"listener_down": RuleSettings(over=30.0)}
PATIENT = {"listener_down": RuleSettings(over=600.0)}
DEAF = Report(deaf_for=90.0)


@pytest.fixture
def said() -> Heard:
    return heard()


@pytest.fixture
async def store(db: ClonedDatabase, said: Heard) -> AsyncIterator[Database]:
    async with store_of(db, said) as store:
        yield store


async def member(store: Database, name: str, rules: dict[str, RuleSettings]) -> Owner:
    """A live instance with these rules."""
    return await register(store, name, rules=fingerprint_of(RULES, rules))


async def test_instances_that_are_set_differently_end_no_alert_of_each_other(
    store: Database, said: Heard, sql: Connection
) -> None:
    strict, patient = await member(store, "strict", STRICT), await member(store, "patient", PATIENT)
    await patient.beat(DEAF)
    for _ in range(5):  # in turn, each a minute later than the other
        await evaluate(store, **STRICT)
        await pass_time(sql, MINUTE)
        await evaluate(store, **PATIENT)
        await pass_time(sql, MINUTE)
    assert len(said.recorder.of(ALERT_OPENED)) == 1
    assert await keys(sql) == ["listener_down:patient"]

    await patient.beat()
    await evaluate(store, **PATIENT)
    assert await keys(sql) == ["listener_down:patient"], "it is for the strict one to say that it is over"
    await evaluate(store, **STRICT)
    assert len(said.recorder.of(ALERT_RESOLVED)) == 1
    assert await strict.beat()


async def test_an_alert_of_an_instance_that_is_gone_is_ended_by_the_others(
    store: Database, sql: Connection
) -> None:
    strict, patient = await member(store, "strict", STRICT), await member(store, "patient", PATIENT)
    await patient.beat(DEAF)
    await evaluate(store, **STRICT)
    assert await instances.retire(store, strict.pair)
    await evaluate(store, **PATIENT)
    assert await keys(sql) == ["listener_down:patient"]

    await pass_time(sql, 2 * MINUTE)
    await evaluate(store, **PATIENT)
    assert await keys(sql) == []


async def test_what_holds_for_two_is_over_when_it_is_over_for_both(store: Database, sql: Connection) -> None:
    await member(store, "strict", STRICT)
    owner = await member(store, "patient", PATIENT)
    await owner.beat(Report(deaf_for=900.0))
    for rules in (STRICT, PATIENT):
        await evaluate(store, **rules)
    await owner.beat()
    await pass_time(sql, 2 * MINUTE)
    await evaluate(store, **STRICT)
    assert await keys(sql) == ["listener_down:patient"]
    await evaluate(store, **PATIENT)
    assert await keys(sql) == []


async def test_critical_types_are_those_of_all_live_instances(store: Database, sql: Connection) -> None:
    look = "select coalesce(array_agg(job_type order by 1), '{}') from wakeful.critical_type"
    first = await register(store, "w1", critical_types=("PAY", "PUBLISH"))
    await register(store, "w2", critical_types=("PUBLISH", "SHIP"))
    for _ in range(2):
        await evaluate(store, job_failed=RuleSettings(job_types=("MINE_ALONE",)))
        assert await sql.fetchval(look) == ["PAY", "PUBLISH", "SHIP"]

    await instances.retire(store, first.pair)
    await evaluate(store)
    assert await sql.fetchval(look) == ["PUBLISH", "SHIP"]


def test_an_instance_says_what_its_settings_have() -> None:
    rules = {
        "job_failed": RuleSettings(job_types=("PUBLISH", "PAY")),
        "more": RuleSettings(rule="job_failed", job_types=("SHIP",)),
        "less": RuleSettings(rule="job_failed", job_types=("TEST",), off=True),
    }
    bare = instances.Registration(
        name="w", host="h", pid=1, version="1", lease=30.0, every_type=False, serves={}, queues=()
    )
    told = with_rules(bare, Settings(rules=rules, sinks={"team": SinkSettings(kind="log")}), RULES)

    assert (told.sinks, told.critical_types) == (("team",), ["PAY", "PUBLISH", "SHIP"])
    assert with_rules(bare, Settings(), RULES).sinks == ("log",)
    assert told.rules != with_rules(bare, Settings(), RULES).rules == fingerprint_of(RULES, {})
    assert critical_types({}) == []


async def test_a_condition_that_comes_and_goes_stays_up_longer_each_time(
    store: Database, said: Heard, sql: Connection
) -> None:
    owner = await register(store)
    for _ in range(12):  # for two minutes there, for two minutes gone
        await owner.beat(DEAF)
        await evaluate(store)
        await pass_time(sql, 2 * MINUTE)
        await owner.beat()
        await evaluate(store)

    assert len(said.recorder.of(ALERT_OPENED)) <= 3
    await pass_time(sql, 20 * MINUTE)
    await evaluate(store)
    assert await keys(sql) == []


@pytest.mark.parametrize(
    ("locked", "failed", "left"),
    [
        ("queue", ["queue_stalled"], ["queue_stalled:mail:COLLECT"]),
        ("rescue", ["every rule", "rescues"], ["listener_down:w1", "queue_stalled:mail:COLLECT"]),
    ],
)
async def test_a_rule_that_takes_too_long_stops_no_other_and_ends_nothing(
    db: ClonedDatabase,
    said: Heard,
    store: Database,
    sql: Connection,
    locked: str,
    failed: list[str],
    left: list[str],
) -> None:
    owner = await register(store)
    await owner.beat(DEAF)
    await enqueue(sql, queue="mail")
    for _ in range(2):
        await age(sql, 6 * MINUTE)
        await evaluate(store)
    assert await keys(sql) == ["listener_down:w1", "queue_stalled:mail:COLLECT"]
    await owner.beat()
    await pass_time(sql, 2 * MINUTE)

    psql = await db.connect()
    settings = DatabaseSettings(dsn=db.dsn, statement_timeout=1.0)
    async with open_database(settings, said.telemetry) as hurried, psql.transaction():
        await psql.execute(f"lock table wakeful.{locked} in access exclusive mode")
        await evaluate(hurried)

    assert [one["rule"] for one in said.recorder.of(RULE_FAILED)] == failed
    assert await keys(sql) == left
    await evaluate(store)
    assert await keys(sql) == ["queue_stalled:mail:COLLECT"]


async def test_types_count_by_themselves_where_settings_name_them(store: Database, sql: Connection) -> None:
    await sql.execute(
        """insert into wakeful.rescue (queue, job_type, jobs)
           values ('mail', 'SEND', 4), ('mail', 'PAY', 2), ('mail', 'LOG', 3), ('slow', 'OCR', 25)"""
    )
    await evaluate(
        store,
        pay=RuleSettings(rule="rescues", job_types=("PAY",), least=2, severity="critical"),
        log=RuleSettings(rule="rescues", job_types=("LOG",), least=4),
        mail=RuleSettings(rule="rescues", queues=("mail",), least=9),
    )
    rows = await sql.fetch("select dedupe_key, severity from wakeful.alert order by 1")
    assert [tuple(row) for row in rows] == [
        ("rescues:mail", "error"),
        ("rescues:mail:PAY", "critical"),
        ("rescues:slow", "error"),
    ]


async def test_a_type_in_two_queues_is_one_alert_by_the_settings_of_each(
    store: Database, sql: Connection
) -> None:
    await register(store)
    for queue in ("mail", "slow"):
        await enqueue(sql, "AI_CHECK", queue=queue)
    await sql.execute(
        """insert into wakeful.lane (lane_id, queue, priority, job_type, suspect, unserved_since)
           select lane_id, queue, priority, job_type, false, now() - interval '5 min' from wakeful.ready"""
    )
    off = RuleSettings(rule="no_worker", queues=("mail",), off=True)
    critical = RuleSettings(rule="no_worker", queues=("slow",), severity="critical")
    await evaluate(store, mail=off, slow=RuleSettings(rule="no_worker", queues=("slow",), off=True))
    assert await keys(sql) == []
    await evaluate(store, slow=critical)
    rows = await sql.fetch("select dedupe_key, severity from wakeful.alert")
    assert [tuple(row) for row in rows] == [("no_worker:AI_CHECK", "critical")]


async def test_a_look_at_an_idle_database_is_one_statement(db: ClonedDatabase, said: Heard) -> None:
    async with counted(db.dsn, said.telemetry) as store:
        await register(store, sinks=("hook",), critical_types=("PAY",))
        await evaluate(store)
        assert "keep_critical_types" in store.asked
        store.asked.clear()
        await evaluate(store)
        assert store.asked == ["look_at_rules"]


async def test_what_a_look_leaves_out_it_would_not_have_found(store: Database, sql: Connection) -> None:
    """In a database in which each rule finds something at its lowest, none is left out."""
    owner = await register(store, sinks=("hook",))
    await owner.beat(Report(deaf_for=1.0, blocked_for=1.0, clock_ahead=-1.0))
    await enqueue(sql)
    await sql.execute(
        """insert into wakeful.lane (lane_id, queue, priority, job_type, suspect, unserved_since)
           select lane_id, queue, priority, job_type, false, now() from wakeful.ready;
           insert into wakeful.alert_sink (sink, closed_at) values ('hook', now());
           insert into wakeful.rescue (queue, job_type, jobs) values ('mail', 'SEND', 1);
           insert into wakeful.alert_outbox (kind, dedupe_key, title, severity, body)
           values ('job_dead', 'k', 't', 'error', '{}')"""
    )
    async with sql.transaction(isolation="repeatable_read"):
        await sql.fetch("select from wakeful.ready")
        sight = await conditions.look(store, long_transaction=0.0)
    assert sight.idle == frozenset()


async def test_a_worker_may_evaluate_all_of_them(db: ClonedDatabase, said: Heard, sql: Connection) -> None:
    """As a role that has wakeful_worker and nothing else."""
    await sql.execute("create role worker_of_rules_test login in role wakeful_worker")
    try:
        settings = DatabaseSettings(dsn=db.dsn_as("worker_of_rules_test"))
        async with open_database(settings, said.telemetry) as store:
            owner = await register(store, sinks=("hook",), critical_types=("PAY",))
            await owner.beat(DEAF)
            await enqueue(sql)
            await sql.execute(
                """insert into wakeful.alert_sink (sink, closed_at) values ('hook', now() - interval '1 h');
                   insert into wakeful.rescue (queue, job_type, jobs, rescued_at)
                   values ('mail', 'SEND', 30, now()), ('mail', 'SEND', 30, now() - interval '1 h')"""
            )
            await evaluate(store)
            assert await keys(sql) == ["listener_down:w1", "rescues:mail", "sink_failing:hook"]
            await owner.beat()
            await pass_time(sql, 2 * MINUTE)
            await evaluate(store)
            assert await keys(sql) == ["rescues:mail", "sink_failing:hook"]
        assert said.recorder.of(RULE_FAILED) == []
    finally:
        await sql.execute("drop owned by worker_of_rules_test; drop role worker_of_rules_test")


def test_a_key_is_no_longer_than_an_index_takes() -> None:
    found = [Found(what="\ubb3c" * 1000 + end, value=1.0, details_text="{}") for end in ("a", "b")]
    made = [condition_of(RULES[0], one, None).key for one in found]
    assert len(set(made)) == 2
    assert max(len(key.encode()) for key in made) < 1000
