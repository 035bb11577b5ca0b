"""wakeful.requeue(): only an ended job, once, as good as new but with its history."""

from __future__ import annotations

import json
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from support.databases import ClonedDatabase, Connection, Isolation
from support.factories import Enqueued, State, claim, depart, enqueue, job_in, status_of
from support.refusals import refused


@pytest.mark.case("F59")
@pytest.mark.parametrize("state", ["DEAD", "CANCELLED"])
@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read", "serializable"])
async def test_a_dead_or_cancelled_job_waits_again(
    sql: Connection, state: State, isolation: Isolation
) -> None:
    job_id = await job_in(sql, state)

    async with sql.transaction(isolation=isolation):
        assert await requeue(sql, job_id) == job_id

    assert await status_of(sql, job_id) == "PENDING"
    assert await sql.fetchval("select count(*) from wakeful.jobs") == 1
    assert await sql.fetchval("select count(*) from wakeful.ready where owner is null") == 1


@pytest.mark.parametrize("state", ["READY", "SCHEDULED", "RUNNING", "DONE"])
async def test_in_any_other_status_nothing_happens_and_the_caller_is_told(
    sql: Connection, state: State
) -> None:
    job_id = await job_in(sql, state)
    before = await sql.fetchrow("select * from wakeful.jobs")

    assert await requeue(sql, job_id) is None

    assert await sql.fetchrow("select * from wakeful.jobs") == before
    assert await sql.fetchval("select count(*) from wakeful.audit") == 0


@pytest.mark.case("F59")
async def test_attempts_start_at_zero_and_the_rest_is_kept(sql: Connection) -> None:
    made = await enqueue(
        sql,
        "COLLECT",
        '{"n": 12345678901234567890.10}',
        queue="q",
        priority="batch",
        subject="s",
        max_attempts=3,
        deadline=timedelta(days=1, seconds=1),
        tags=["a"],
        meta={"m": 1},
        group="g",
        limit_key="l",
    )
    for verb in ("lose", "lose", "snooze", "hand_back", "fail"):
        await claim(sql, made.job_id)
        await depart(sql, made.job_id, verb, reason=verb, entry={"type": verb})
    before = await claim_and_kill(sql, made.job_id)

    await requeue(sql, made.job_id)

    after = await sql.fetchrow("select * from wakeful.ready")
    assert after is not None
    kept = set(after.keys()) & set(before) - {"run_after", "moved_by", "started_at"}
    reset = {name for name in kept if after[name] != before[name]}
    assert reset == {"attempts", "lost", "snoozed", "handed_back", "lane_id"}
    assert [after[name] for name in ("attempts", "lost", "snoozed", "handed_back")] == [0, 0, 0, 0]
    assert after["run_no"] == 6
    assert after["owner"] is after["claim"] is after["moved_by"] is after["cancel_requested_at"] is None
    assert after["lane_id"] == await sql.fetchval(
        "select wakeful.lane_id('q', 'batch', 'COLLECT', 'l', false)"
    )
    detail = json.loads(await sql.fetchval("select detail from wakeful.audit where action = 'requeue'"))
    assert detail == {"attempts": before["attempts"], "lost": 2}


async def test_a_cancelled_job_that_is_requeued_is_not_cancelled_again(sql: Connection) -> None:
    job_id = await job_in(sql, "RUNNING")
    await sql.fetchval("select wakeful.cancel($1)", job_id)
    await depart(sql, job_id, "fail")

    await requeue(sql, job_id)
    await claim(sql, job_id)

    assert await depart(sql, job_id, "fail") == "PENDING"


@pytest.mark.case("F50")
async def test_it_takes_its_key_again(sql: Connection) -> None:
    job_id = await job_in(sql, "DEAD", dedupe_key="k")

    await requeue(sql, job_id)

    assert await enqueue(sql, dedupe_key="k") == Enqueued(job_id, created=False)


@pytest.mark.case("F50")
@pytest.mark.parametrize("state", ["DEAD", "CANCELLED"])
async def test_it_is_refused_while_another_job_has_its_key(sql: Connection, state: State) -> None:
    job_id = await job_in(sql, state, dedupe_key="k")
    holder = await enqueue(sql, dedupe_key="k")

    with refused(
        "WK012", f"job {job_id} can't be requeued: .* taken by job {holder.job_id}", hint="Wait until"
    ):
        await requeue(sql, job_id)

    assert await status_of(sql, job_id) == state
    assert await status_of(sql, holder.job_id) == "PENDING"


@pytest.mark.parametrize("known", [True, False])
async def test_an_unknown_job_is_refused(sql: Connection, known: bool) -> None:
    job_id = uuid4() if known else None

    with refused("WK010", f"job {job_id or 'null'} does not exist", hint="wakeful.jobs"):
        await requeue(sql, job_id)


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_a_job_that_the_snapshot_does_not_show_is_refused_at_once(
    db: ClonedDatabase, sql: Connection, isolation: Isolation
) -> None:
    beside = await db.connect()
    async with sql.transaction(isolation=isolation):
        await sql.execute("select count(*) from wakeful.jobs")
        job_id = await job_in(beside, "DEAD")
        with refused("WK011", "is not visible to this transaction", hint="READ COMMITTED"):
            async with sql.transaction():
                await requeue(sql, job_id)


async def test_it_goes_behind_what_waits_already(sql: Connection) -> None:
    job_id = await job_in(sql, "DEAD")
    waiting = await enqueue(sql)

    await requeue(sql, job_id)

    found = await sql.fetch("select job_id from wakeful.ready order by lane_id, pos")
    assert [row[0] for row in found] == [waiting.job_id, job_id]


async def claim_and_kill(connection: Connection, job_id: UUID) -> dict[str, object]:
    await claim(connection, job_id)
    assert await depart(connection, job_id, "refuse", reason="no good", entry={"type": "Refused"}) == "DEAD"
    row = await connection.fetchrow("select * from wakeful.dead")
    assert row is not None
    return dict(row)


async def requeue(connection: Connection, job_id: UUID | None) -> UUID | None:
    answer: UUID | None = await connection.fetchval("select wakeful.requeue($1)", job_id)
    return answer
