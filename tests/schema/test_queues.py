"""backlog(), pause() and resume(): what autoscalers and operators call."""

from __future__ import annotations

import json

import pytest

from support.databases import ClonedDatabase, Connection
from support.factories import claim, enqueue, job_in
from support.refusals import refused


async def test_the_backlog_counts_what_could_start_now(sql: Connection) -> None:
    for queue in ("a", "a", "b"):
        await enqueue(sql, queue=queue)
    await enqueue(sql, "OTHER", queue="a", priority="batch", limit_key="l")
    for state in ("SCHEDULED", "RUNNING", "DONE", "DEAD", "CANCELLED"):
        await job_in(sql, state)

    assert await backlog(sql) == 4
    assert await backlog(sql, "a") == 3
    assert await backlog(sql, "b") == 1
    assert await backlog(sql, "nowhere") == 0


async def test_a_paused_queue_has_no_backlog(sql: Connection) -> None:
    for queue in ("a", "b"):
        await enqueue(sql, queue=queue)

    await sql.fetchval("select wakeful.pause('a')")

    assert await backlog(sql) == 1
    assert await backlog(sql, "a") == 0
    await sql.fetchval("select wakeful.resume('a')")
    assert await backlog(sql) == 2


async def test_an_owned_row_at_the_head_hides_nothing(sql: Connection) -> None:
    made = [await enqueue(sql) for _ in range(3)]
    await claim(sql, made[0].job_id)

    assert await backlog(sql) == 2


@pytest.mark.parametrize("lanes", [1, 3])
async def test_counting_stops_at_ten_thousand(sql: Connection, lanes: int) -> None:
    await sql.fetch(
        """select * from wakeful.enqueue_many((
               select jsonb_agg(jsonb_build_object('job_type', 'T', 'queue', 'q' || n % $1))
               from generate_series(1, 15000) n))""",
        lanes,
    )

    assert await backlog(sql) == 10_000
    assert await backlog(sql, "q0") == min(10_000, 15_000 // lanes)


async def test_an_empty_database_has_no_backlog(sql: Connection) -> None:
    assert await backlog(sql) == 0


async def test_a_pause_says_who_and_why_and_is_told_to_the_daemons(
    db: ClonedDatabase, sql: Connection
) -> None:
    heard: list[object] = []
    await sql.add_listener("wakeful", lambda *told: heard.append(told[3]))
    operator = await db.connect(application="psql of Ann")

    assert await operator.fetchval("select wakeful.pause('mail', 'provider is down')") is True

    row = await sql.fetchrow("select * from wakeful.queue")
    assert row is not None
    assert (row["name"], row["paused_by"], row["reason"]) == ("mail", "postgres", "provider is down")
    assert row["paused_at"] is not None
    entry = await sql.fetchrow("select action, object, detail, application from wakeful.audit")
    assert entry is not None
    assert (entry["action"], entry["object"], entry["application"]) == ("pause", "mail", "psql of Ann")
    assert json.loads(entry["detail"]) == {"reason": "provider is down"}
    assert heard == [""]


async def test_a_second_pause_changes_nothing_and_says_so(sql: Connection) -> None:
    await sql.fetchval("select wakeful.pause('mail', 'first')")
    before = await sql.fetchrow("select * from wakeful.queue")

    assert await sql.fetchval("select wakeful.pause('mail', 'second')") is False

    assert await sql.fetchrow("select * from wakeful.queue") == before
    assert await sql.fetchval("select count(*) from wakeful.audit") == 1


async def test_a_queue_is_open_again_after_resume_and_can_be_paused_again(sql: Connection) -> None:
    await sql.fetchval("select wakeful.pause('mail', 'why')")

    assert await sql.fetchval("select wakeful.resume('mail')") is True

    row = await sql.fetchrow("select * from wakeful.queue")
    assert row is not None
    assert row["paused_at"] is row["paused_by"] is row["reason"] is None
    assert await sql.fetchval("select wakeful.pause('mail')") is True
    actions = [row[0] for row in await sql.fetch("select action from wakeful.audit order by audit_id")]
    assert actions == ["pause", "resume", "pause"]


@pytest.mark.parametrize("queue", ["mail", "", None])
async def test_to_resume_what_is_not_paused_changes_nothing_and_says_so(
    sql: Connection, queue: str | None
) -> None:
    assert await sql.fetchval("select wakeful.resume($1)", queue) is False

    assert await sql.fetchval("select count(*) from wakeful.audit") == 0


async def test_a_queue_may_be_paused_before_it_has_a_job_and_with_any_name(sql: Connection) -> None:
    name = 'O\'Brien "x"; drop schema wakeful; -- ü'

    assert await sql.fetchval("select wakeful.pause($1)", name) is True
    await enqueue(sql, queue=name)

    assert await backlog(sql, name) == 0


@pytest.mark.parametrize(
    ("queue", "reason", "message"),
    [
        (None, None, "queue is empty"),
        ("", None, "queue is empty"),
        ("x" * 201, None, "queue is 201 bytes long; the limit is 200"),
        ("a\nb", None, "queue contains a control character"),
        ("q", "x" * 1001, "reason is 1001 bytes long; the limit is 1000"),
        ("q", "a\nb", "reason contains a control character"),
    ],
)
async def test_a_bad_name_or_reason_is_refused(
    sql: Connection, queue: str | None, reason: str | None, message: str
) -> None:
    with refused("WK001", message):
        await sql.fetchval("select wakeful.pause($1, $2)", queue, reason)


async def backlog(connection: Connection, queue: str | None = None) -> int:
    counted: int = await connection.fetchval("select wakeful.backlog($1)", queue)
    return counted
