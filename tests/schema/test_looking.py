"""Looking at jobs: the view, job(), find_active(); one row a job, and no secret in it."""

from __future__ import annotations

import json
from typing import get_args
from uuid import UUID, uuid4

import pytest

from support.databases import Connection
from support.factories import State, declare, enqueue, job_in

COLUMNS = """
    job_id job_type status queue priority subject payload attempts max_attempts run_after lease_until dedupe_key
    last_error errors result degraded progress tags meta run_no handed_back snoozed lost instance_id created_at
    started_at finished_at
"""
STATUSES: dict[State, str] = {
    "READY": "PENDING",
    "SCHEDULED": "PENDING",
    "RUNNING": "RUNNING",
    "DONE": "DONE",
    "DEAD": "DEAD",
    "CANCELLED": "CANCELLED",
}


async def test_the_view_has_the_columns_that_people_expect(sql: Connection) -> None:
    found = await sql.fetch(
        "select * from information_schema.columns where table_name = 'jobs' order by ordinal_position"
    )

    assert [row["column_name"] for row in found] == COLUMNS.split()


@pytest.mark.parametrize("state", get_args(State))
async def test_a_job_is_one_row_in_every_state(sql: Connection, state: State) -> None:
    job_id = await job_in(sql, state, dedupe_key="k", payload={"a": 1})

    rows = await sql.fetch("select * from wakeful.jobs")

    assert len(rows) == 1
    job = rows[0]
    assert (job["job_id"], job["status"], job["payload"]) == (job_id, STATUSES[state], '{"a": 1}')
    assert (job["dedupe_key"], job["max_attempts"], job["degraded"]) == ("k", 5, [])
    assert (job["finished_at"] is not None) is (state in ("DONE", "DEAD", "CANCELLED"))
    assert (job["started_at"] is not None) is (state in ("RUNNING", "DONE", "DEAD", "CANCELLED"))
    assert (job["instance_id"] is not None) is (state in ("RUNNING", "DONE", "DEAD", "CANCELLED"))
    assert (job["result"] is not None) is (state == "DONE")


@pytest.mark.parametrize("state", get_args(State))
async def test_job_shows_what_the_view_shows_less_the_payload(sql: Connection, state: State) -> None:
    job_id = await job_in(sql, state)
    await job_in(sql, "READY")

    rows = await sql.fetch("select * from wakeful.job($1)", job_id)

    assert len(rows) == 1
    seen = await sql.fetchrow("select * from wakeful.jobs where job_id = $1", job_id)
    assert seen is not None
    assert dict(rows[0]) == {name: seen[name] for name in rows[0].keys()}  # noqa: SIM118
    assert not {"payload", "meta", "errors"} & set(rows[0].keys())


@pytest.mark.parametrize("job_id", [None, uuid4()])
async def test_of_an_unknown_job_there_is_no_row(sql: Connection, job_id: UUID | None) -> None:
    await job_in(sql, "READY")

    assert await sql.fetch("select * from wakeful.job($1)", job_id) == []


async def test_the_lease_of_a_running_job_is_its_owners_beat_and_its_types_lease(sql: Connection) -> None:
    await declare(sql, "COLLECT")
    await sql.execute(
        """update wakeful.job_type set lease = interval '3 minutes';
           insert into wakeful.instance (instance_id, incarnation, name, host, pid, version, lease, beat_at)
           overriding system value values (1, 7, 'w1', 'host', 1, '0', '3 minutes', '2030-01-01T00:00:00Z')"""
    )
    await job_in(sql, "RUNNING")
    await job_in(sql, "DONE")

    found = await sql.fetch("select status, lease_until from wakeful.jobs")
    assert {row["status"]: str(row["lease_until"]) for row in found} == {
        "RUNNING": "2030-01-01 00:03:00+00:00",
        "DONE": "None",
    }


async def test_a_running_job_shows_the_progress_of_this_run_only(sql: Connection) -> None:
    job_id = await job_in(sql, "RUNNING")
    await sql.execute(
        "insert into wakeful.progress (job_id, run_no, document) values ($1, 1, '{\"attempt\": 1}')", job_id
    )
    shown = await sql.fetchval("select progress from wakeful.jobs")
    await sql.execute("update wakeful.ready set run_no = 2")

    assert json.loads(shown) == {"attempt": 1}
    assert await sql.fetchval("select progress from wakeful.jobs") is None


@pytest.mark.parametrize("state", get_args(State))
async def test_secret_values_are_not_shown_and_stay_stored(sql: Connection, state: State) -> None:
    await declare(sql, "COLLECT", secret_paths=["token", "auth.key"])
    job_id = await job_in(
        sql, state, payload={"token": "s3cret", "auth": {"key": "s3cret", "user": "u"}, "n": 1}
    )

    shown = await sql.fetchval("select payload from wakeful.jobs")

    assert json.loads(shown) == {"token": "[secret]", "auth": {"key": "[secret]", "user": "u"}, "n": 1}
    assert "s3cret" not in str(await sql.fetch("select * from wakeful.jobs"))
    assert "s3cret" not in str(await sql.fetch("select * from wakeful.job($1)", job_id))
    table = {"READY": "ready", "RUNNING": "ready", "SCHEDULED": "scheduled", "DEAD": "dead"}.get(
        state, "finished"
    )
    assert "s3cret" in await sql.fetchval(f"select payload from wakeful.{table}")


async def test_a_secret_survives_a_requeue(sql: Connection) -> None:
    await declare(sql, "COLLECT", secret_paths=["token"])
    job_id = await job_in(sql, "DEAD", payload={"token": "s3cret"})

    await sql.fetchval("select wakeful.requeue($1)", job_id)

    assert json.loads(await sql.fetchval("select payload from wakeful.ready")) == {"token": "s3cret"}


async def test_find_active_names_the_holder_of_a_key_or_nobody(sql: Connection) -> None:
    made = await enqueue(sql, dedupe_key="a 'key'")

    assert await sql.fetchval("select wakeful.find_active('a ''key''')") == made.job_id
    assert await sql.fetchval("select wakeful.find_active('other')") is None
    assert await sql.fetchval("select wakeful.find_active(null)") is None


async def test_a_job_that_ended_is_found_by_its_key_in_every_slot_and_not_by_a_walk(sql: Connection) -> None:
    job_id = await job_in(sql, "DONE")
    await sql.execute(
        """insert into wakeful.finished
           select (jsonb_populate_record(f, jsonb_build_object('job_id', wakeful.uuid7(), 'slot', n % 16))).*
           from wakeful.finished f cross join generate_series(1, 8000) n;
           analyze wakeful.finished"""
    )

    plan = await sql.fetch(f"explain (costs off) select * from wakeful.finished where job_id = '{job_id}'")

    text = "\n".join(row[0] for row in plan)
    assert text.count("Index Cond: (job_id =") == 16, text
    # the first column of the key: by the second, servers before 18 read the whole index
    keys = await sql.fetch(
        """select pg_get_indexdef(indexrelid, 1, false) from pg_index
           where indrelid::regclass::text ~ 'finished_' and indisprimary"""
    )
    assert {row[0] for row in keys} == {"job_id"}
