"""Cancel and requeue while the job's row moves (I15): never "not found" for a job that was only moving.

Each test holds the move open in one transaction, sends the call, sees it wait for that transaction, and lets the move
commit or roll back. So the order is the database's own, without a sleep.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID

import anyio
import pytest

from support.databases import ClonedDatabase, Connection, Isolation
from support.eventually import blocked
from support.factories import State, claim, depart, enqueue, finish, job_in, status_of
from support.refusals import refused

Move = Callable[[Connection, UUID], Awaitable[object]]


async def promote(connection: Connection, job_id: UUID) -> None:
    await connection.execute(
        """with due as (delete from wakeful.scheduled where job_id = $1 returning *)
           insert into wakeful.ready
           select (jsonb_populate_record(
               null::wakeful.ready, to_jsonb(d) || jsonb_build_object('pos', nextval('wakeful.position')))).*
           from due d""",
        job_id,
    )


async def retry_later(connection: Connection, job_id: UUID) -> None:
    await depart(connection, job_id, "fail", delay=timedelta(hours=1))


async def retry_now(connection: Connection, job_id: UUID) -> None:
    await depart(connection, job_id, "fail")


async def hand_back(connection: Connection, job_id: UUID) -> None:
    await depart(connection, job_id, "hand_back")


async def die(connection: Connection, job_id: UUID) -> None:
    await depart(connection, job_id, "refuse")


async def cancel(connection: Connection, job_id: UUID) -> object:
    return await connection.fetchval("select wakeful.cancel($1)", job_id)


async def requeue(connection: Connection, job_id: UUID) -> object:
    return await connection.fetchval("select wakeful.requeue($1)", job_id)


async def requeue_and_die_again(connection: Connection, job_id: UUID) -> None:
    await requeue(connection, job_id)
    await claim(connection, job_id)
    await die(connection, job_id)


MOVES: list[tuple[State, Move, str, str]] = [
    # from, move, cancel's answer when the move commits, and the status in the end
    ("SCHEDULED", promote, "CANCELLED", "CANCELLED"),
    ("READY", claim, "RUNNING", "RUNNING"),
    ("RUNNING", retry_later, "CANCELLED", "CANCELLED"),
    ("RUNNING", retry_now, "CANCELLED", "CANCELLED"),
    ("RUNNING", hand_back, "CANCELLED", "CANCELLED"),
    ("RUNNING", finish, "DONE", "DONE"),
    ("RUNNING", die, "DEAD", "DEAD"),
    ("READY", cancel, "CANCELLED", "CANCELLED"),
    ("SCHEDULED", cancel, "CANCELLED", "CANCELLED"),
]


@pytest.mark.case("I15")
@pytest.mark.parametrize(("state", "move", "answer", "status"), MOVES)
async def test_cancel_finds_a_job_that_moves_meanwhile(
    db: ClonedDatabase, sql: Connection, state: State, move: Move, answer: str, status: str
) -> None:
    job_id = await job_in(sql, state, dedupe_key="k")

    answers = await call_during(db, sql, move, cancel, job_id, commits=True)

    assert answers == [answer]
    assert await status_of(sql, job_id) == status
    assert await sql.fetchval("select count(*) from wakeful.jobs") == 1
    holder = job_id if status in ("PENDING", "RUNNING") else None
    assert await sql.fetchval("select wakeful.find_active('k')") == holder


@pytest.mark.parametrize(("state", "move", "answer", "status"), MOVES)
async def test_cancel_finds_a_job_whose_move_rolls_back(
    db: ClonedDatabase, sql: Connection, state: State, move: Move, answer: str, status: str
) -> None:
    job_id = await job_in(sql, state)

    answers = await call_during(db, sql, move, cancel, job_id, commits=False)

    assert answers == ["RUNNING" if state == "RUNNING" else "CANCELLED"]


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
@pytest.mark.parametrize(("state", "move", "answer", "status"), MOVES)
async def test_without_fresh_snapshots_cancel_says_try_again(
    db: ClonedDatabase,
    sql: Connection,
    state: State,
    move: Move,
    answer: str,
    status: str,
    isolation: Isolation,
) -> None:
    job_id = await job_in(sql, state)
    old = await db.connect()
    transaction = old.transaction(isolation=isolation)
    await transaction.start()
    await old.execute("select count(*) from wakeful.jobs")
    await move(sql, job_id)

    with refused("40001", "could not serialize access due to concurrent"):
        await cancel(old, job_id)

    await transaction.rollback()


@pytest.mark.parametrize("state", ["DEAD", "CANCELLED"])
async def test_of_two_requeues_one_brings_the_job_back(
    db: ClonedDatabase, sql: Connection, state: State
) -> None:
    job_id = await job_in(sql, state)

    answers = await call_during(db, sql, requeue, requeue, job_id, commits=True)

    assert answers == [None]
    assert await sql.fetchval("select count(*) from wakeful.jobs") == 1
    assert await sql.fetchval("select count(*) from wakeful.audit where action = 'requeue'") == 1


@pytest.mark.parametrize("state", ["DEAD", "CANCELLED"])
async def test_the_second_requeue_does_it_when_the_first_rolls_back(
    db: ClonedDatabase, sql: Connection, state: State
) -> None:
    job_id = await job_in(sql, state)

    answers = await call_during(db, sql, requeue, requeue, job_id, commits=False)

    assert answers == [job_id]
    assert await status_of(sql, job_id) == "PENDING"


async def test_a_requeue_finds_a_job_that_was_requeued_and_died_again_meanwhile(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = await job_in(sql, "DEAD")

    answers = await call_during(db, sql, requeue_and_die_again, requeue, job_id, commits=True)

    assert answers == [job_id]
    assert await status_of(sql, job_id) == "PENDING"


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_without_fresh_snapshots_the_second_requeue_says_try_again(
    db: ClonedDatabase, sql: Connection, isolation: Isolation
) -> None:
    job_id = await job_in(sql, "DEAD")
    old = await db.connect()
    transaction = old.transaction(isolation=isolation)
    await transaction.start()
    await old.execute("select count(*) from wakeful.jobs")
    await requeue(sql, job_id)

    with refused("40001", "could not serialize access"):
        await requeue(old, job_id)

    await transaction.rollback()


@pytest.mark.parametrize("commits", [True, False])
async def test_a_requeue_waits_for_who_is_taking_its_key(
    db: ClonedDatabase, sql: Connection, commits: bool
) -> None:
    job_id = await job_in(sql, "DEAD", dedupe_key="k")

    async def take_key(connection: Connection, _: UUID) -> None:
        await enqueue(connection, dedupe_key="k")

    async def requeue_or_refusal(connection: Connection, job_id: UUID) -> object:
        if not commits:
            return await requeue(connection, job_id)
        with refused("WK012", "its dedupe key is taken by job"):
            await requeue(connection, job_id)
        return "refused"

    answers = await call_during(db, sql, take_key, requeue_or_refusal, job_id, commits=commits)

    assert answers == ["refused" if commits else job_id]
    assert await status_of(sql, job_id) == ("DEAD" if commits else "PENDING")


@pytest.mark.case("I15")
async def test_a_look_sees_a_moving_job_exactly_once(db: ClonedDatabase, sql: Connection) -> None:
    job_id = await job_in(sql, "SCHEDULED")
    looker = await db.connect()
    seen: set[tuple[str, ...]] = set()

    async def look(until: anyio.Event) -> None:
        while not until.is_set():
            rows = await looker.fetch("select status from wakeful.jobs where job_id = $1", job_id)
            seen.add(tuple(row[0] for row in rows))
            seen.add(
                tuple(row["status"] for row in await looker.fetch("select * from wakeful.job($1)", job_id))
            )

    async with anyio.create_task_group() as group:
        stop = anyio.Event()
        group.start_soon(look, stop)
        for _ in range(60):
            await promote(sql, job_id)
            await claim(sql, job_id)
            await retry_later(sql, job_id)
            await sql.execute("update wakeful.scheduled set attempts = 0")
        stop.set()

    assert seen <= {("PENDING",), ("RUNNING",)}
    assert seen


async def call_during(
    db: ClonedDatabase, observer: Connection, move: Move, call: Move, job_id: UUID, *, commits: bool
) -> list[object]:
    """Make the call while the move is open; let the move commit or roll back once the call waits for it."""
    mover, caller = await db.connect(), await db.connect()
    gate = mover.transaction()
    await gate.start()
    await move(mover, job_id)
    answers: list[object] = []

    async def answer() -> None:
        answers.append(await call(caller, job_id))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(answer)
            await blocked(observer, caller, by=mover)
            await (gate.commit() if commits else gate.rollback())
    return answers
