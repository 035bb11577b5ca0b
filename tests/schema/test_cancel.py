"""wakeful.cancel(): what it answers and leaves in every state, and that every way out of `ready` obeys it."""

from __future__ import annotations

import json
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from support.databases import ClonedDatabase, Connection, Isolation
from support.factories import State, claim, depart, enqueue, job_in, status_of
from support.refusals import refused

ANSWERS: list[tuple[State, str]] = [
    ("READY", "CANCELLED"),
    ("SCHEDULED", "CANCELLED"),
    ("RUNNING", "RUNNING"),
    ("DONE", "DONE"),
    ("DEAD", "DEAD"),
    ("CANCELLED", "CANCELLED"),
]


@pytest.mark.parametrize(
    "isolation", ["read_committed", "read_uncommitted", "repeatable_read", "serializable"]
)
@pytest.mark.parametrize(("state", "answer"), ANSWERS)
async def test_it_answers_with_the_status_afterwards(
    sql: Connection, state: State, answer: str, isolation: Isolation
) -> None:
    job_id = await job_in(sql, state, dedupe_key="k")

    async with sql.transaction(isolation=isolation):
        assert await cancel(sql, job_id) == answer

    assert await status_of(sql, job_id) == answer


@pytest.mark.parametrize("state", ["READY", "SCHEDULED"])
async def test_a_waiting_job_is_cancelled_at_once_and_its_key_is_free(sql: Connection, state: State) -> None:
    job_id = await job_in(sql, state, dedupe_key="k", payload={"n": 12345678901234567890})

    await cancel(sql, job_id, "not wanted")

    job = await sql.fetchrow("select * from wakeful.jobs")
    assert job is not None
    assert (job["status"], job["last_error"], job["attempts"]) == ("CANCELLED", "not wanted", 0)
    assert job["payload"] == '{"n": 12345678901234567890}'
    assert job["finished_at"] is not None
    assert await sql.fetchval("select wakeful.find_active('k')") is None
    assert await sql.fetchval("select count(*) from wakeful.alert_outbox") == 0


async def test_a_running_job_keeps_its_row_its_key_and_the_time_of_the_first_request(sql: Connection) -> None:
    job_id = await job_in(sql, "RUNNING", dedupe_key="k")
    before = await sql.fetchrow("select lane_id, pos, owner, claim from wakeful.ready")

    await cancel(sql, job_id)
    first = await sql.fetchval("select cancel_requested_at from wakeful.ready")
    await cancel(sql, job_id)

    assert await sql.fetchrow("select lane_id, pos, owner, claim from wakeful.ready") == before
    assert await sql.fetchval("select cancel_requested_at from wakeful.ready") == first is not None
    assert await sql.fetchval("select wakeful.find_active('k')") == job_id


@pytest.mark.parametrize("verb", ["fail", "lose", "hand_back", "discard"])
async def test_the_reason_given_first_for_a_running_one_stands_at_its_end(sql: Connection, verb: str) -> None:
    job_id = await job_in(sql, "RUNNING")
    await cancel(sql, job_id)
    await cancel(sql, job_id, "too late")
    await cancel(sql, job_id, "much too late")

    assert await depart(sql, job_id, verb) == "CANCELLED"

    last_error = await sql.fetchval("select last_error from wakeful.jobs where job_id = $1", job_id)
    assert last_error == "too late"


@pytest.mark.case("I15")
@pytest.mark.parametrize(
    "verb", ["fail", "refuse", "lose", "snooze", "hand_back", "put_back", "discard", "unserved"]
)
@pytest.mark.parametrize("delay", [None, timedelta(minutes=1)])
async def test_every_way_out_of_ready_obeys_a_request(
    sql: Connection, verb: str, delay: timedelta | None
) -> None:
    job_id = await job_in(sql, "RUNNING", dedupe_key="k")
    await cancel(sql, job_id)

    assert await depart(sql, job_id, verb, delay=delay) == "CANCELLED"

    assert await status_of(sql, job_id) == "CANCELLED"
    assert await sql.fetchval("select wakeful.find_active('k')") is None
    assert await sql.fetchval("select count(*) from wakeful.alert_outbox") == 0


async def test_a_job_that_was_cancelled_while_it_ran_says_so(sql: Connection) -> None:
    job_id = await job_in(sql, "RUNNING")
    await cancel(sql, job_id)

    await depart(sql, job_id, "fail", reason="cut short")

    assert await sql.fetchval("select last_error from wakeful.jobs") == "cancelled on request while it ran"


async def test_a_retry_that_waits_is_cancelled_like_any_other(sql: Connection) -> None:
    job_id = await job_in(sql, "RUNNING")
    await depart(sql, job_id, "fail", reason="a time-out", delay=timedelta(hours=1))

    assert await cancel(sql, job_id) == "CANCELLED"

    job = await sql.fetchrow("select attempts, run_no, last_error from wakeful.jobs")
    assert job is not None
    assert (job["attempts"], job["run_no"], job["last_error"]) == (1, 1, "cancelled")


@pytest.mark.parametrize("known", [True, False])
async def test_an_unknown_job_is_refused(sql: Connection, known: bool) -> None:
    job_id = uuid4() if known else None

    with refused(
        "WK010", f"job {job_id or 'null'} does not exist, or is past its retention", hint="wakeful.jobs"
    ):
        await cancel(sql, job_id)


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_a_job_that_the_snapshot_does_not_show_is_refused_at_once(
    db: ClonedDatabase, sql: Connection, isolation: Isolation
) -> None:
    beside = await db.connect()
    async with sql.transaction(isolation=isolation):
        await sql.execute("select count(*) from wakeful.jobs")
        made = await enqueue(beside)
        with refused("WK011", "is not visible to this transaction, or was moving", hint="READ COMMITTED"):
            async with sql.transaction():
                await cancel(sql, made.job_id)


@pytest.mark.parametrize(
    ("reason", "message"), [("x" * 1001, "reason is 1001 bytes long"), ("a\nb", "control character")]
)
async def test_a_reason_is_one_short_line(sql: Connection, reason: str, message: str) -> None:
    job_id = await job_in(sql, "READY")

    with refused("WK001", message, hint="."):
        await cancel(sql, job_id, reason)


async def test_an_empty_reason_is_as_good_as_none(sql: Connection) -> None:
    assert await cancel(sql, await job_in(sql, "READY"), "") == "CANCELLED"


async def test_who_cancelled_what_stands_in_the_audit(db: ClonedDatabase, sql: Connection) -> None:
    operator = await db.connect(application="psql of Ann")
    waiting, running = await job_in(sql, "READY"), await job_in(sql, "RUNNING")
    ended = await job_in(sql, "DONE")

    await cancel(operator, waiting, "not wanted")
    await cancel(operator, running)
    await cancel(operator, ended)

    entries = await sql.fetch("select * from wakeful.audit order by audit_id")
    assert [(entry["action"], entry["object"]) for entry in entries] == [
        ("cancel", str(waiting)),
        ("cancel", str(running)),
    ]
    assert [json.loads(entry["detail"]) for entry in entries] == [
        {"was": "PENDING", "reason": "not wanted"},
        {"was": "RUNNING"},
    ]
    assert {(entry["actor"], entry["application"]) for entry in entries} == {("postgres", "psql of Ann")}


async def test_a_cancelled_transaction_cancels_nothing(sql: Connection) -> None:
    job_id = await job_in(sql, "READY", dedupe_key="k")
    transaction = sql.transaction()
    await transaction.start()
    await cancel(sql, job_id)
    await transaction.rollback()

    assert await status_of(sql, job_id) == "PENDING"
    assert await sql.fetchval("select wakeful.find_active('k')") == job_id
    await claim(sql, job_id)


async def cancel(connection: Connection, job_id: UUID | None, reason: str | None = None) -> str:
    answer: str = await connection.fetchval("select wakeful.cancel($1, $2)", job_id, reason)
    return answer
