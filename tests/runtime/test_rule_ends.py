"""Each rule: its condition becomes an alert that says what to do, and its end is told, however it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from support import factories
from support.databases import ClonedDatabase, Connection
from support.dispatching import Heard, composed, heard, pass_time, store_of, take
from support.factories import enqueue
from support.owners import Owner, register
from support.ruling import MINUTE, age, details, evaluate, keys
from wakeful.core.alert_settings import RuleSettings
from wakeful.outbox.rules import RULES
from wakeful.outbox.rules.evaluating import MOST
from wakeful.store import instances, lanes
from wakeful.store.database import Database
from wakeful.store.instances import Report

LOW = {
    "dead_rate": RuleSettings(least=3),
    "rescues": RuleSettings(least=3),
    "long_transaction": RuleSettings(over=3600.0),
}
HOUR_OLD = "now() - interval '1 hour'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a rule's condition is made of."""

    store: Database
    sql: Connection
    owner: Owner


Change = Callable[[Scene], Awaitable[None]]


def sql_of(*statements: str) -> Change:
    """A change by SQL alone."""

    async def change(scene: Scene) -> None:
        for statement in statements:
            await scene.sql.execute(statement)

    return change


def reports(report: Report) -> Change:
    """The instance says so with its next beat."""

    async def change(scene: Scene) -> None:
        assert await scene.owner.beat(report)

    return change


async def stalls(scene: Scene) -> None:
    await enqueue(scene.sql, queue="mail")
    for _ in range(2):
        await age(scene.sql, 6 * MINUTE)
        await evaluate(scene.store)


async def moves_on(scene: Scene) -> None:
    assert len(await scene.owner.claim()) == 1


async def is_unserved(scene: Scene) -> None:
    await enqueue(scene.sql, "AI_CHECK")
    await lanes.mark_unserved(scene.store)
    await age(scene.sql, 3 * MINUTE)


async def is_served_again(scene: Scene) -> None:
    await register(scene.store, "w2", serves={"AI_CHECK": "hash"})
    await lanes.mark_unserved(scene.store)


async def retires(scene: Scene) -> None:
    assert await instances.retire(scene.store, scene.owner.pair)


async def runs_long(scene: Scene) -> None:
    for _ in range(20):
        await factories.job_in(scene.sql, "DONE")
    await scene.sql.execute("update wakeful.finished set started_at = finished_at - interval '10 s'")
    await enqueue(scene.sql)
    assert len(await scene.owner.claim()) == 1
    await scene.sql.execute("update wakeful.ready set started_at = started_at - interval '20 min'")


NO_JOBS = sql_of("delete from wakeful.ready")
DEATHS = sql_of(
    """insert into wakeful.alert_outbox (kind, dedupe_key, job_type, title, severity, body, alert_id)
       select 'job_dead', 'job_dead:COLLECT:X', 'COLLECT', 't', 'error', '{"queue": "mail"}', -1
       from generate_series(1, 3)"""
)
RESCUES = sql_of("insert into wakeful.rescue (queue, job_type, jobs) values ('mail', 'COLLECT', 3)")
CLOSED = sql_of(f"insert into wakeful.alert_sink (sink, closed_at) values ('hook', {HOUR_OLD})")
BLOCKED = reports(Report(blocked_for=2.5, blocked_by="COLLECT"))
DEAF = reports(Report(deaf_for=90.0))
SKEWED = reports(Report(clock_ahead=-7.0))
WELL = reports(Report())

# How a condition comes to hold, and each way in which it ends.
CONDITIONS: dict[str, tuple[str, Change, dict[str, Change]]] = {
    "queue_stalled": (
        "queue_stalled:mail:COLLECT",
        stalls,
        {"a job was taken": moves_on, "no job is left": NO_JOBS},
    ),
    "no_worker": (
        "no_worker:AI_CHECK",
        is_unserved,
        {"it is served again": is_served_again, "no job is left": NO_JOBS},
    ),
    "dead_rate": (
        "dead_rate:mail",
        DEATHS,
        {"it is long ago": sql_of(f"update wakeful.alert_outbox set created_at = {HOUR_OLD}")},
    ),
    "rescues": (
        "rescues:mail",
        RESCUES,
        {"it is long ago": sql_of(f"update wakeful.rescue set rescued_at = {HOUR_OLD}")},
    ),
    "overrun": (
        "overrun:JOB",
        runs_long,
        {"it has ended": NO_JOBS},
    ),
    "sink_failing": (
        "sink_failing:hook",
        CLOSED,
        {
            "it is open": sql_of("update wakeful.alert_sink set closed_at = null"),
            "nobody has it": sql_of("update wakeful.instance set sinks = '{other}'"),
        },
    ),
    "loop_blocked": ("loop_blocked:w1", BLOCKED, {"it turns": WELL, "it is gone": retires}),
    "listener_down": ("listener_down:w1", DEAF, {"it listens": WELL, "it is gone": retires}),
    "clock_skew": ("clock_skew:w1", SKEWED, {"it is right": WELL, "it is gone": retires}),
}


@pytest.fixture
def said() -> Heard:
    return heard()


@pytest.fixture
async def store(db: ClonedDatabase, said: Heard) -> AsyncIterator[Database]:
    async with store_of(db, said) as store:
        yield store


@pytest.fixture
async def scene(store: Database, sql: Connection) -> Scene:
    return Scene(store=store, sql=sql, owner=await register(store, sinks=("hook", "other")))


def test_there_is_a_case_for_each_rule() -> None:
    of_its_own = {"long_transaction"}  # test_alert_rules.py, as it takes a second session
    assert set(CONDITIONS) | of_its_own == {rule.name for rule in RULES}


@pytest.mark.parametrize(
    ("rule", "end"), [(rule, end) for rule, (_, _, ends) in CONDITIONS.items() for end in ends]
)
async def test_what_holds_is_told_with_what_to_do_and_so_is_its_end(
    scene: Scene, said: Heard, rule: str, end: str
) -> None:
    key, come, ends = CONDITIONS[rule]
    await come(scene)
    await evaluate(scene.store, **LOW)
    (found,) = await keys(scene.sql)
    if rule != "overrun":
        assert found == key
    assert (await details(scene.sql, found))["advice"]
    sink = "other"  # the failing one is not told of itself
    await composed(scene.store, said, sink)
    (opened,) = await take(scene.sql, sink=sink)
    assert (opened["type"], opened["data"]["kind"]) == ("alert.opened", rule)

    await ends[end](scene)
    await evaluate(scene.store, **LOW)
    assert await keys(scene.sql) == [found], "what comes and goes within a minute is one alert"
    await pass_time(scene.sql, 2 * MINUTE)
    await evaluate(scene.store, **LOW)
    await composed(scene.store, said, sink)
    (over,) = await take(scene.sql, sink=sink)
    assert (over["type"], over["data"]["kind"]) == ("alert.resolved", rule)
    assert over["data"]["resolved_reason"] == "the condition has ended"


async def test_an_alert_of_a_rule_that_is_switched_off_ends(scene: Scene) -> None:
    await DEAF(scene)
    await evaluate(scene.store)
    assert await keys(scene.sql) == ["listener_down:w1"]

    await pass_time(scene.sql, 2 * MINUTE)
    await evaluate(scene.store, listener_down=RuleSettings(off=True))
    assert await keys(scene.sql, "resolved") == ["listener_down:w1"]


async def test_two_instances_of_one_name_are_one_alert_and_the_worse_is_told(scene: Scene) -> None:
    twin = await register(scene.store)
    await DEAF(scene)
    await twin.beat(Report(deaf_for=600.0, blocked_for=3.0, clock_ahead=9.0))
    await BLOCKED(scene)
    await evaluate(scene.store)

    assert await keys(scene.sql) == ["clock_skew:w1", "listener_down:w1", "loop_blocked:w1"]
    (title,) = [
        one["title"]
        for one in await scene.sql.fetch("select title from wakeful.alert where kind = 'listener_down'")
    ]
    assert "for 10m" in title


async def test_a_stalled_type_that_nobody_serves_is_told_once_by_whichever_rule_is_on(scene: Scene) -> None:
    await is_unserved(scene)
    off = {"no_worker": RuleSettings(off=True)}
    for _ in range(2):
        await age(scene.sql, 6 * MINUTE)
        await evaluate(scene.store, **off)
    assert await keys(scene.sql) == ["queue_stalled:default:AI_CHECK"]
    assert (await details(scene.sql, "queue_stalled:default:AI_CHECK"))[
        "reason"
    ] == "no live instance serves the type"

    await scene.sql.execute("delete from wakeful.alert")
    for _ in range(3):
        await evaluate(scene.store)
    assert await keys(scene.sql) == ["no_worker:AI_CHECK"]


async def test_of_ten_thousand_queues_that_stand_still_people_hear_in_a_bounded_number_of_alerts(
    scene: Scene,
) -> None:
    await scene.sql.execute(
        """select count(*) from wakeful.enqueue_many((
               select jsonb_agg(jsonb_build_object('job_type', 'COLLECT', 'queue', 'q' || n))
               from generate_series(1, 10000) as n))"""
    )
    for _ in range(2):
        await age(scene.sql, 6 * MINUTE)
        await evaluate(scene.store)
    first = await keys(scene.sql)
    assert len(first) == MOST + 1
    assert (await details(scene.sql, "queue_stalled:*"))["more"] == 10000 - MOST

    # Others may be worse by now: who is told of one thing and then of another hears of nothing.
    await scene.sql.execute(
        """update wakeful.lane_head h set since = since - random() * interval '1 hour' from wakeful.ready r
           where r.lane_id = h.lane_id"""
    )
    await pass_time(scene.sql, 2 * MINUTE)
    await evaluate(scene.store)
    assert await keys(scene.sql) == first
    await scene.sql.execute("update wakeful.ready set run_after = now()")
    await pass_time(scene.sql, 2 * MINUTE)
    await evaluate(scene.store)
    assert await keys(scene.sql) == []
