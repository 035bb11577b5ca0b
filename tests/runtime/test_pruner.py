"""The pruner: only what has ended and is past its age, in small batches, with what it leaves behind (F94, I17)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.dispatching import Heard, heard, store_of
from support.factories import State, enqueue, job_in
from support.loops import running
from support.owners import register
from wakeful.core.settings import DAY, DatabaseSettings, HistorySettings
from wakeful.runtime.duties import fold_duty
from wakeful.runtime.pruner import BATCH, prune_duty, ring_duty, run_pruner
from wakeful.store import upkeep
from wakeful.store.database import Database, open_database
from wakeful.store.upkeep import LOWEST, NIL
from wakeful.telemetry.events import HISTORY_PRUNED, JOB_STRANDED, RING_EMPTIED, RING_REFUSED

HISTORY = HistorySettings(finished=7 * DAY, dead=90 * DAY)


@pytest.fixture
def said() -> Heard:
    return heard()


@pytest.fixture
async def database(db: ClonedDatabase, said: Heard) -> AsyncIterator[Database]:
    async with store_of(db, said) as opened:
        yield opened


async def prune(database: Database) -> None:
    await prune_duty(database, history=HISTORY).perform(anyio.Event())


async def age(sql: Connection, table: str, column: str, days: int) -> None:
    await sql.execute(f"update wakeful.{table} set {column} = now() - make_interval(days => $1)", days)


async def report(sql: Connection, job_id: object) -> None:
    """Give a job progress and a line of log."""
    await sql.execute("insert into wakeful.progress (job_id, run_no, document) values ($1, 1, '{}')", job_id)
    await sql.execute("insert into wakeful.job_log values ($1, 1, 1, now(), 'info', 'a line')", job_id)


async def reports(sql: Connection) -> tuple[int, int]:
    """How many jobs have progress, and how many a log."""
    counts = await sql.fetchrow(
        """select (select count(*) from wakeful.progress) as progress,
                  (select count(distinct job_id) from wakeful.job_log) as logs"""
    )
    assert counts is not None
    return counts["progress"], counts["logs"]


@pytest.mark.case("F94")
async def test_dead_letters_go_at_their_age_with_their_reports(
    sql: Connection, database: Database, said: Heard
) -> None:
    old, young = await job_in(sql, "DEAD"), await job_in(sql, "DEAD")
    for job_id in (old, young):
        await report(sql, job_id)
    await sql.execute(
        "update wakeful.dead set finished_at = now() - interval '91 days' where job_id = $1", old
    )
    await sql.execute(
        "update wakeful.dead set finished_at = now() - interval '89 days' where job_id = $1", young
    )

    await prune(database)

    assert [row["job_id"] for row in await sql.fetch("select job_id from wakeful.dead")] == [young]
    assert await reports(sql) == (1, 1)
    assert said.recorder.of(HISTORY_PRUNED, table="dead", rows=1)


@pytest.mark.parametrize("state", ["READY", "SCHEDULED", "RUNNING", "DONE", "CANCELLED", "DEAD"])
@pytest.mark.case("F94")
async def test_a_job_that_is_still_somewhere_keeps_its_reports(
    sql: Connection, database: Database, state: State
) -> None:
    job_id = await job_in(sql, state)
    await report(sql, job_id)
    await age(sql, "progress", "updated_at", 400)
    await age(sql, "job_log", "logged_at", 400)

    await prune(database)

    assert await reports(sql) == (1, 1)


async def test_reports_of_jobs_that_are_gone_are_found_wherever_they_are(
    sql: Connection, database: Database, said: Heard
) -> None:
    kept = await job_in(sql, "READY")
    await report(sql, kept)
    await sql.execute(
        "insert into wakeful.progress select wakeful.uuid7(), 1, '{}' from generate_series(1, $1)", 2 * BATCH
    )
    await sql.execute(
        """insert into wakeful.job_log
           select p.job_id, run, line, now(), 'info', 'a line'
           from wakeful.progress p, generate_series(1, 2) as run, generate_series(1, 2) as line
           where p.job_id <> $1""",
        kept,
    )

    await prune(database)

    assert await reports(sql) == (1, 1)
    assert said.recorder.of(HISTORY_PRUNED, table="progress", rows=2 * BATCH)
    assert said.recorder.of(HISTORY_PRUNED, table="job_log", rows=8 * BATCH)


async def test_a_walk_goes_on_where_it_ended(sql: Connection, database: Database) -> None:
    await sql.execute(
        "insert into wakeful.progress select wakeful.uuid7(), 1, '{}' from generate_series(1, 5)"
    )
    ids = [row["job_id"] for row in await sql.fetch("select job_id from wakeful.progress order by job_id")]

    first = await upkeep.prune_progress(database, NIL, 2)
    assert (first.rows, first.end) == (2, ids[1])
    second = await upkeep.prune_progress(database, ids[1], 2)
    assert (second.rows, second.end) == (2, ids[3])
    assert (await upkeep.prune_progress(database, ids[3], 2)).end is None


async def test_a_walk_that_came_to_the_end_begins_anew(sql: Connection, database: Database) -> None:
    many = "insert into wakeful.progress select wakeful.uuid7(), 1, '{}' from generate_series(1, $1)"
    await sql.execute(many, BATCH + 1)
    duty = prune_duty(database, history=HISTORY)
    await duty.perform(anyio.Event())
    await sql.execute("insert into wakeful.progress values ('00000000-0000-7000-8000-000000000001', 1, '{}')")

    await duty.perform(anyio.Event())

    assert await sql.fetchval("select count(*) from wakeful.progress") == 0


async def test_lanes_that_nobody_has_used_for_a_week_go_and_what_is_marked_stays(
    sql: Connection, database: Database, said: Heard
) -> None:
    kinds = ("young", "busy", "closed", "hot", "unserved", "idle", "idle too")
    for kind in kinds:
        await enqueue(sql, queue=kind)
    await fold_duty(database).perform(anyio.Event())
    await sql.execute("delete from wakeful.ready where queue <> 'busy'")
    await sql.execute("update wakeful.lane set first_seen = now() - interval '8 days' where queue <> 'young'")
    await sql.execute("update wakeful.lane set closed = true where queue = 'closed'")
    await sql.execute("update wakeful.lane set hot_until = now() - interval '6 days' where queue = 'hot'")
    await sql.execute("update wakeful.lane set unserved_since = now() where queue = 'unserved'")

    await prune(database)

    left = {row["queue"] for row in await sql.fetch("select queue from wakeful.lane")}
    assert left == {"young", "busy", "closed", "hot", "unserved"}
    assert said.recorder.of(HISTORY_PRUNED, table="lane", rows=2)


async def test_a_lane_that_goes_while_somebody_enqueues_into_it_loses_no_job_and_comes_back(
    db: ClonedDatabase, sql: Connection, database: Database
) -> None:
    await enqueue(sql)
    await fold_duty(database).perform(anyio.Event())
    await sql.execute("delete from wakeful.ready")
    await sql.execute("update wakeful.lane set first_seen = now() - interval '8 days'")
    producer = await db.connect()
    async with producer.transaction():
        await enqueue(producer)  # it has seen the lane's row, and its job is not committed
        await prune(database)
        assert await sql.fetchval("select count(*) from wakeful.lane") == 0

    owner = await register(database)
    assert len(await owner.claim()) == 1
    await enqueue(sql)
    await fold_duty(database).perform(anyio.Event())
    assert await sql.fetchval("select count(*) from wakeful.lane") == 1


async def test_a_walk_over_lanes_goes_on_where_it_ended(sql: Connection, database: Database) -> None:
    await sql.execute(
        """insert into wakeful.lane (lane_id, queue, priority, job_type, suspect, first_seen)
           select n, 'q', 'normal', 'T', false, now() - interval '8 days' from generate_series(-2, 2) as n"""
    )

    first = await upkeep.prune_lanes(database, LOWEST, 2, age=7 * DAY)
    assert (first.rows, first.end) == (2, -1)
    assert (await upkeep.prune_lanes(database, -1, 4, age=7 * DAY)).rows == 3


async def test_a_job_that_moves_while_its_reports_are_looked_at_keeps_them(
    db: ClonedDatabase, sql: Connection, database: Database
) -> None:
    job_id = await job_in(sql, "RUNNING")
    await report(sql, job_id)
    mover = await db.connect()
    async with mover.transaction():
        await mover.execute("delete from wakeful.ready")
        await prune(database)  # it sees the job where it was

    assert await reports(sql) == (1, 1)


async def test_a_dead_letter_that_is_being_requeued_is_left_to_it(
    db: ClonedDatabase, sql: Connection, database: Database
) -> None:
    job_id = await job_in(sql, "DEAD")
    await age(sql, "dead", "finished_at", 100)
    operator = await db.connect()
    async with operator.transaction():
        await operator.fetchval("select wakeful.requeue($1)", job_id)
        await prune(database)

    assert await sql.fetchval("select status from wakeful.jobs where job_id = $1", job_id) == "PENDING"


async def test_only_resolved_alerts_and_folded_events_go(sql: Connection, database: Database) -> None:
    for state in ("open", "acknowledged", "resolved"):
        await sql.execute(
            """insert into wakeful.alert
                   (dedupe_key, kind, title, severity, body, occurrences, first_seen, last_seen, state)
               values ($1, 'k', 't', 'info', '{}', 1, now(), now() - interval '91 days', $1)""",
            state,
        )
    await sql.execute(
        """insert into wakeful.alert_delivery (delivery_id, alert_id, sink, body)
           select wakeful.uuid7(), alert_id, 's', '' from wakeful.alert"""
    )
    for folded in (True, False):
        await sql.execute("select wakeful.alert('some_kind')")
        await sql.execute(
            """update wakeful.alert_outbox set created_at = now() - interval '91 days',
               alert_id = case when $1 then 1 end where alert_id is null""",
            folded,
        )
    await prune(database)

    states = await sql.fetch("select state from wakeful.alert order by state")
    assert [row["state"] for row in states] == ["acknowledged", "open"]
    assert await sql.fetchval("select count(*) from wakeful.alert_delivery") == 2
    assert await sql.fetchval("select array_agg(alert_id) from wakeful.alert_outbox") == [None]


async def test_the_audit_is_kept_for_a_year(sql: Connection, database: Database) -> None:
    for days in (366, 364):
        await sql.execute(
            """insert into wakeful.audit (action, object, happened_at)
               values ('pause', $1, now() - make_interval(days => $2))""",
            str(days),
            days,
        )
    await prune(database)

    assert await sql.fetchval("select array_agg(object) from wakeful.audit") == ["364"]
    # And nobody can have it shorter than 90 days.
    assert await sql.fetchval("select wakeful.expire_audit(interval '0', 100)") == 1
    await sql.execute("select wakeful.pause('q')")
    assert await sql.fetchval("select wakeful.expire_audit(interval '0', 100)") == 0


@pytest.mark.case("F94")
async def test_a_great_many_go_in_batches(sql: Connection, database: Database, said: Heard) -> None:
    job_id = await job_in(sql, "DEAD")
    await age(sql, "dead", "finished_at", 100)
    await sql.execute(
        """insert into wakeful.dead
           select (jsonb_populate_record(null::wakeful.dead,
               to_jsonb(d) || jsonb_build_object('job_id', wakeful.uuid7()))).*
           from wakeful.dead d, generate_series(1, $2::int) where d.job_id = $1""",
        job_id,
        2 * BATCH,
    )
    await prune(database)

    assert await sql.fetchval("select count(*) from wakeful.dead") == 0
    assert said.recorder.of(HISTORY_PRUNED, table="dead", rows=2 * BATCH + 1)


async def test_slots_of_the_ring_are_emptied_and_a_reader_is_told(
    db: ClonedDatabase, sql: Connection, database: Database, said: Heard
) -> None:
    for distance in (3, 5):
        await job_in(sql, "DONE")
        await sql.execute(
            """update wakeful.finished set finished_at = now() - interval '8 days',
                   slot = (slot + $1) % 16 where finished_at > now() - interval '1 day'""",
            distance,
        )
    read, free = [row["slot"] for row in await sql.fetch("select slot from wakeful.finished order by slot")]
    reader = await db.connect()
    async with reader.transaction():
        await reader.fetch(f"select * from wakeful.finished_{read}")
        await ring_duty(database, history=HISTORY).perform(anyio.Event())

    assert said.recorder.of(RING_EMPTIED, slot=free)
    assert said.recorder.of(RING_REFUSED, slot=read)
    await ring_duty(database, history=HISTORY).perform(anyio.Event())
    assert said.recorder.of(RING_EMPTIED, slot=read)


async def test_the_loop_prunes_by_itself(sql: Connection, database: Database, said: Heard) -> None:
    await job_in(sql, "DEAD")
    await age(sql, "dead", "finished_at", 100)
    async with running(lambda stop: run_pruner(database, stop, history=HISTORY, interval=0.05)):
        await said.recorder.seen(HISTORY_PRUNED, table="dead")


async def test_a_worker_may_do_all_of_it(db: ClonedDatabase, sql: Connection) -> None:
    """The duties run as a role that only has wakeful_worker, not as the owner."""
    await sql.execute("create role worker_of_pruner_test login in role wakeful_worker")
    try:
        await job_in(sql, "DEAD")
        await age(sql, "dead", "finished_at", 100)
        settings = DatabaseSettings(dsn=db.dsn_as("worker_of_pruner_test"))
        async with open_database(settings, heard().telemetry) as worker:
            await prune_duty(worker, history=HISTORY).perform(anyio.Event())
            await ring_duty(worker, history=HISTORY).perform(anyio.Event())
        assert await sql.fetchval("select count(*) from wakeful.dead") == 0
    finally:
        await sql.execute("drop role worker_of_pruner_test")


async def keep_row(sql: Connection, table: str, column: str, value: object) -> None:
    """Let the database refuse to remove this row, as it would one that a table of somebody else's refers to."""
    await sql.execute(
        f"""create or replace function public.refuse() returns trigger language plpgsql as $$
            begin raise exception using errcode = '23503', message = 'refused'; end $$;
            create trigger refuse before delete on wakeful.{table}
            for each row when (old.{column} = '{value}') execute function public.refuse()"""
    )


async def test_a_dead_letter_that_can_not_be_removed_stops_no_other(
    sql: Connection, database: Database, said: Heard
) -> None:
    ids = [await job_in(sql, "DEAD") for _ in range(9)]
    await age(sql, "dead", "finished_at", 91)
    for number in (0, 4):
        await sql.execute("drop trigger if exists refuse on wakeful.dead")
        await keep_row(sql, "dead", "job_id", ids[number])
    await prune(database)

    assert [row["job_id"] for row in await sql.fetch("select job_id from wakeful.dead")] == [ids[4]]
    assert said.recorder.of(JOB_STRANDED, action="prune dead", row=str(ids[4]))
    assert said.recorder.of(HISTORY_PRUNED, table="dead", rows=8)


@pytest.mark.parametrize(("table", "rows"), [("progress", 8), ("job_log", 8)])
async def test_a_report_that_can_not_be_removed_stops_no_other(
    sql: Connection, database: Database, said: Heard, table: str, rows: int
) -> None:
    ids = sorted([await job_in(sql, "DEAD") for _ in range(9)])
    for job_id in ids:
        await report(sql, job_id)
    await sql.execute("delete from wakeful.dead")
    await keep_row(sql, table, "job_id", ids[2])
    await prune(database)

    assert [row["job_id"] for row in await sql.fetch(f"select job_id from wakeful.{table}")] == [ids[2]]
    assert said.recorder.of(JOB_STRANDED, action=f"prune {table}", row=str(ids[2]))
    assert said.recorder.of(HISTORY_PRUNED, table=table, rows=rows)


async def test_a_table_that_gives_nothing_up_stops_no_other_table(
    sql: Connection, database: Database, said: Heard
) -> None:
    """An audit that the owner of the database keeps for ever, and the row of a lane beside others."""
    await sql.fetchval("select wakeful.pause('default')")
    await age(sql, "audit", "happened_at", 400)
    await keep_row(sql, "audit", "action", "pause")
    for number in range(5):
        await enqueue(sql, queue=f"q{number}")
    await fold_duty(database).perform(anyio.Event())
    await sql.execute("truncate wakeful.ready")
    await age(sql, "lane", "first_seen", 8)
    await keep_row(sql, "lane", "queue", "q3")
    await prune(database)

    assert [row["queue"] for row in await sql.fetch("select queue from wakeful.lane")] == ["q3"]
    assert {row["action"] for row in said.recorder.of(JOB_STRANDED)} == {"prune audit", "prune lane"}
    assert await sql.fetchval("select count(*) from wakeful.audit") == 1
