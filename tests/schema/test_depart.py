"""wakeful.depart(): the one place that decides where a job goes that leaves `ready` without success."""

from __future__ import annotations

import json
from datetime import timedelta

import asyncpg
import pytest

from support.databases import Connection
from support.factories import claim, depart, enqueue, job_in, status_of

MINUTE = timedelta(minutes=1)
COUNTS = ("attempts", "run_no", "lost", "snoozed", "handed_back")

# What each verb makes of the first of five attempts: status, then the counts.
VERBS = [
    ("fail", "PENDING", (1, 1, 0, 0, 0)),
    ("refuse", "DEAD", (1, 1, 0, 0, 0)),
    ("lose", "PENDING", (0, 1, 1, 0, 0)),
    ("unserved", "PENDING", (2, 2, 0, 0, 0)),
    ("snooze", "PENDING", (0, 1, 0, 1, 0)),
    ("hand_back", "PENDING", (0, 1, 0, 0, 1)),
    ("put_back", "PENDING", (0, 1, 0, 0, 0)),
    ("discard", "CANCELLED", (1, 1, 0, 0, 0)),
]


@pytest.mark.parametrize(("verb", "status", "counts"), VERBS)
async def test_each_verb_has_its_status_and_its_counts(
    sql: Connection, verb: str, status: str, counts: tuple[int, ...]
) -> None:
    job_id = await job_in(sql, "RUNNING", dedupe_key="k")

    assert await depart(sql, job_id, verb, reason="why", entry={"type": "T"}) == status

    job = await only_job(sql)
    assert (job["status"], job["last_error"]) == (status, "why")
    assert tuple(job[name] for name in COUNTS) == counts
    assert (await sql.fetchval("select wakeful.find_active('k')") is not None) is (status == "PENDING")
    assert await sql.fetchval("select count(*) from wakeful.alert_outbox") == (status == "DEAD")


@pytest.mark.parametrize("verb", ["fail", "lose", "unserved", "snooze", "hand_back", "put_back"])
async def test_what_is_due_now_goes_to_ready_at_a_new_position(sql: Connection, verb: str) -> None:
    job_id = await job_in(sql, "RUNNING")
    waiting = await enqueue(sql)

    await depart(sql, job_id, verb, delay=timedelta(seconds=-5))

    found = await sql.fetch("select job_id from wakeful.ready order by lane_id, pos")
    assert [row[0] for row in found] == [waiting.job_id, job_id]
    row = await sql.fetchrow("select * from wakeful.ready where job_id = $1", job_id)
    assert row is not None
    assert row["owner"] is row["claim"] is row["started_at"] is row["deadline_at"] is None
    assert row["moved_by"] == 4711


@pytest.mark.parametrize("verb", ["fail", "lose", "unserved", "snooze", "hand_back", "put_back"])
async def test_what_is_due_later_waits_in_scheduled(sql: Connection, verb: str) -> None:
    job_id = await job_in(sql, "RUNNING")
    before = await sql.fetchval("select clock_timestamp()")

    await depart(sql, job_id, verb, delay=MINUTE)

    row = await sql.fetchrow("select * from wakeful.scheduled")
    assert row is not None
    assert (row["job_id"], row["moved_by"]) == (job_id, 4711)
    assert timedelta(0) <= row["run_after"] - before - MINUTE < timedelta(seconds=30)


@pytest.mark.parametrize("verb", ["fail", "unserved"])
async def test_a_job_is_dead_when_its_attempts_are_spent(sql: Connection, verb: str) -> None:
    made = await enqueue(sql, max_attempts=2)
    statuses = []
    for _ in range(2 if verb == "fail" else 1):
        await claim(sql, made.job_id)
        statuses.append(await depart(sql, made.job_id, verb))

    assert statuses[-1] == "DEAD"
    assert statuses[:-1] == ["PENDING"] * (len(statuses) - 1)
    assert (await only_job(sql))["attempts"] == 2
    assert await sql.fetchval("select cause from wakeful.dead") == "attempts"


async def test_a_job_that_is_never_to_blame_is_never_dead(sql: Connection) -> None:
    made = await enqueue(sql, max_attempts=1)
    for verb in ("snooze", "hand_back", "put_back") * 3:
        await claim(sql, made.job_id)
        assert await depart(sql, made.job_id, verb) == "PENDING"

    job = await only_job(sql)
    assert tuple(job[name] for name in COUNTS) == (0, 9, 0, 3, 3)


async def test_a_job_that_lost_its_owner_twice_is_suspect_and_at_the_third_time_dead(sql: Connection) -> None:
    made = await enqueue(sql, limit_key="l")
    lanes = []
    for _ in range(2):
        await claim(sql, made.job_id)
        await depart(sql, made.job_id, "lose", reason="lease-expired reclaim from w1")
        lanes.append(await sql.fetchval("select lane_id from wakeful.ready"))
    await claim(sql, made.job_id)

    assert await depart(sql, made.job_id, "lose", reason="lease-expired reclaim from w1") == "DEAD"

    assert lanes == [
        await sql.fetchval("select wakeful.lane_id('default', 'normal', 'COLLECT', 'l', $1)", suspect)
        for suspect in (False, True)
    ]
    job = await only_job(sql)
    assert job["last_error"] == "worker lost 3 times: lease-expired reclaim from w1"
    assert (job["attempts"], job["lost"], job["run_no"]) == (0, 3, 3)
    assert await sql.fetchval("select cause from wakeful.dead") == "lost"


async def test_a_death_appends_one_row_to_the_outbox_with_all_that_people_ask_for(sql: Connection) -> None:
    made = await enqueue(sql, "COLLECT", {"place_id": "p1"}, queue="q")
    await claim(sql, made.job_id)

    await depart(sql, made.job_id, "refuse", reason="no such place\nin line two", entry={"type": "PlaceGone"})

    rows = await sql.fetch("select * from wakeful.alert_outbox")
    assert len(rows) == 1
    told = dict(rows[0])
    body = json.loads(told.pop("body"))
    assert told.pop("outbox_id") == 1
    assert told.pop("created_at") is not None
    assert told == {
        "kind": "job_dead",
        "dedupe_key": "job_dead:COLLECT:PlaceGone",
        "job_type": "COLLECT",
        "job_id": made.job_id,
        "fingerprint": "COLLECT:PlaceGone",
        "title": "COLLECT died: no such place",
        "severity": "error",
        "subject": "p1",
        "alert_id": None,
    }
    assert body.items() >= {"queue": "q", "attempts": 1, "max_attempts": 5, "run_no": 1, "lost": 0}.items()
    assert body["last_error"] == "no such place\nin line two"


async def test_deaths_of_one_type_and_one_cause_are_one_group_whatever_they_are_about(
    sql: Connection,
) -> None:
    for subject, cause in (("p1", "PlaceGone"), ("p2", "PlaceGone"), ("p3", "ValueError")):
        made = await enqueue(sql, "COLLECT", subject=subject)
        await claim(sql, made.job_id)
        await depart(sql, made.job_id, "refuse", entry={"type": cause})

    keys = await sql.fetch("select dedupe_key from wakeful.alert_outbox order by outbox_id")
    assert [row[0] for row in keys] == [
        *("job_dead:COLLECT:PlaceGone", "job_dead:COLLECT:PlaceGone", "job_dead:COLLECT:ValueError")
    ]


async def test_a_death_that_is_rolled_back_tells_nobody(sql: Connection) -> None:
    job_id = await job_in(sql, "RUNNING", dedupe_key="k")
    transaction = sql.transaction()
    await transaction.start()
    await depart(sql, job_id, "refuse")
    await transaction.rollback()

    assert await status_of(sql, job_id) == "RUNNING"
    assert await sql.fetchval("select count(*) from wakeful.alert_outbox") == 0
    assert await sql.fetchval("select wakeful.find_active('k')") == job_id


@pytest.mark.case("I16")
async def test_a_job_handed_back_five_times_raises_one_alert(sql: Connection) -> None:
    made = await enqueue(sql, subject="s")
    for _ in range(7):
        await claim(sql, made.job_id)
        await depart(sql, made.job_id, "hand_back")

    rows = await sql.fetch(
        "select kind, dedupe_key, severity, body ->> 'run_no' as run_no from wakeful.alert_outbox"
    )
    assert [tuple(row) for row in rows] == [("never_finishes", "never_finishes:COLLECT", "warning", "5")]


async def test_each_failure_joins_the_history_with_its_time_attempt_and_run(sql: Connection) -> None:
    made = await enqueue(sql)
    for verb in ("fail", "lose", "fail"):
        await claim(sql, made.job_id)
        await depart(sql, made.job_id, verb, reason=verb, entry={"type": verb, "message": "m"})
    await claim(sql, made.job_id)
    await depart(sql, made.job_id, "snooze", reason=None, entry=None)

    job = await only_job(sql)
    entries = json.loads(job["errors"])
    assert [(entry["type"], entry["attempt"], entry["run_no"]) for entry in entries] == [
        ("fail", 1, 1),
        ("lose", 2, 2),
        ("fail", 2, 3),
    ]
    assert all(entry["at"] and entry["message"] == "m" for entry in entries)
    assert job["last_error"] == "fail"


async def test_the_time_that_a_job_snoozed_in_all_is_kept(sql: Connection) -> None:
    made = await enqueue(sql)
    for _ in range(2):
        await claim(sql, made.job_id)
        await depart(sql, made.job_id, "snooze", delay=MINUTE)
        await sql.execute(
            """with due as (delete from wakeful.scheduled returning *)
               insert into wakeful.ready
               select (jsonb_populate_record(null::wakeful.ready, to_jsonb(d) || '{"pos": 1}')).* from due d"""
        )

    assert await sql.fetchval("select snoozed_for from wakeful.ready") == 2 * MINUTE


@pytest.mark.parametrize("verb", ["fail", "lose", "unserved", "snooze", "hand_back"])
async def test_counts_at_their_end_do_not_overflow(sql: Connection, verb: str) -> None:
    job_id = await job_in(sql, "RUNNING")
    largest = 2**31 - 1
    await sql.execute(
        f"""update wakeful.ready set attempts = {largest}, run_no = {largest}, lost = {largest},
                   snoozed = {largest}, handed_back = {largest}"""
    )

    assert await depart(sql, job_id, verb) in ("PENDING", "DEAD")


async def test_many_rows_leave_in_one_call_each_by_its_own_verb(sql: Connection) -> None:
    made = {verb: await job_in(sql, "RUNNING") for verb, _, _ in VERBS}

    rows = await sql.fetch(
        """with gone as (delete from wakeful.ready r returning r as job)
           select d.*
           from (select array_agg(row (g.job, v.verb, v.verb, null, null, 4711)::wakeful.departure) as every
                 from gone g
                 join unnest($1::uuid[], $2::text[]) as v (job_id, verb) on v.job_id = (g.job).job_id) as g
           cross join lateral wakeful.depart(g.every) as d""",
        list(made.values()),
        list(made),
    )

    assert {row["job_id"]: row["status"] for row in rows} == {made[verb]: status for verb, status, _ in VERBS}
    assert {row["claim"] for row in rows} == {4711}
    for verb, status, counts in VERBS:
        job = await sql.fetchrow("select * from wakeful.jobs where job_id = $1", made[verb])
        assert job is not None
        assert (job["status"], tuple(job[name] for name in COUNTS)) == (status, counts)


async def test_what_is_due_now_wakes_its_lane_and_what_is_over_wakes_nobody(sql: Connection) -> None:
    heard: list[object] = []
    due, later, over = [await job_in(sql, "RUNNING") for _ in range(3)]
    lane = await sql.fetchval("select lane_id from wakeful.ready where job_id = $1", due)
    await sql.add_listener("wakeful", lambda *told: heard.append(told[3]))

    await depart(sql, over, "discard")
    await depart(sql, later, "fail", delay=MINUTE)
    await depart(sql, due, "fail")
    await sql.execute("notify wakeful, 'end'")
    await sql.execute("select 1")

    assert heard == [str(lane), "end"]


async def only_job(connection: Connection) -> asyncpg.Record:
    rows = await connection.fetch("select * from wakeful.jobs")
    assert len(rows) == 1
    return rows[0]


async def test_the_first_failure_of_a_critical_type_is_told_and_no_other(sql: Connection) -> None:
    await sql.execute("insert into wakeful.critical_type (job_type) values ('PUBLISH')")
    for job_type in ("PUBLISH", "COLLECT"):
        made = await enqueue(sql, job_type, max_attempts=3, subject="s", queue=job_type)
        for _ in range(2):
            await claim(sql, made.job_id)
            await depart(sql, made.job_id, "fail", reason="IOError: disk\nmore", entry={"type": "IOError"})

    rows = await sql.fetch("select kind, dedupe_key, title, severity, subject from wakeful.alert_outbox")
    title = "PUBLISH failed and runs again: IOError: disk"
    assert [tuple(row) for row in rows] == [
        ("job_failed", "job_failed:PUBLISH:IOError", title, "critical", "s")
    ]
