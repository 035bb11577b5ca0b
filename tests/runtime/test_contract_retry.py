"""The contract, rows "retry", "result", "unknown type", "dead letter" and "degrade", by handlers that really run."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from support.databases import ClonedDatabase, Connection
from support.factories import enqueue
from support.working import job_row, table_of
from wakeful import Discard, Fail, JobContext, RateLimited, Registry, Retry, Snooze, testing
from wakeful.core import jsontext
from wakeful.core.settings import JobSettings, Settings
from wakeful.store.statements import statements


def at_once(attempt: int) -> float:
    return 0


@dataclass(frozen=True)
class Typed:
    place_id: str
    pages: int


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


def raising(error: BaseException) -> Callable[[JobContext], object]:
    async def handler(job: JobContext) -> None:
        raise error

    return handler


def returning(value: object) -> Callable[[JobContext], object]:
    async def handler(job: JobContext) -> object:
        return value

    return handler


async def delay_of(sql: Connection, job_id: object) -> timedelta:
    delay: timedelta = await sql.fetchval(
        "select run_after - clock_timestamp() from wakeful.scheduled where job_id = $1", job_id
    )
    return delay


async def test_a_failed_attempt_goes_back_with_its_reason_and_backoff_until_attempts_are_spent(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = (await enqueue(sql, max_attempts=3)).job_id
    seen = []
    async with testing.instance(db, registry=raising(ValueError("no such place")), backoff=at_once) as w:
        while await w.run_one():
            row = await job_row(sql, job_id)
            seen.append((row["status"], row["attempts"], row["last_error"]))

    reason = "ValueError: no such place"
    assert seen == [("PENDING", 1, reason), ("PENDING", 2, reason), ("DEAD", 3, reason)]
    errors = (await job_row(sql, job_id))["errors"]
    assert [one["attempt"] for one in errors] == [1, 2, 3]
    assert "test_contract_retry.py" in errors[0]["traceback"]


@pytest.mark.case("F55")
@pytest.mark.parametrize(("attempt", "seconds"), [(1, 5), (3, 20), (99, 600)])
async def test_the_delay_doubles_from_5_s_to_600_s_and_jitter_takes_off_a_fifth_at_most(
    db: ClonedDatabase, sql: Connection, attempt: int, seconds: int
) -> None:
    job_id = (await enqueue(sql, max_attempts=1000)).job_id
    await sql.execute("update wakeful.ready set attempts = $1", attempt - 1)
    async with testing.instance(db, registry=raising(ValueError("no"))) as w:
        assert await w.run_one()
        assert not await w.run_one()

    delay = (await delay_of(sql, job_id)).total_seconds()
    assert 0.8 * seconds - 5 <= delay <= seconds


@pytest.mark.case("F55")
@pytest.mark.parametrize("attempts", [31, 63, 64, 1_100, 100_000, 2**31 - 2, 2**31 - 1])
async def test_one_failure_more_after_any_number_of_attempts_waits_ten_minutes_at_most(
    db: ClonedDatabase, sql: Connection, attempts: int
) -> None:
    job_id = (await enqueue(sql)).job_id
    await sql.execute("update wakeful.ready set attempts = $1, max_attempts = 2147483647", attempts)
    async with testing.instance(db, registry=raising(ValueError("again"))) as w:
        assert await w.run_one()

    row = await job_row(sql, job_id)
    assert row["attempts"] == min(attempts + 1, 2**31 - 1)
    if row["attempts"] == 2**31 - 1:
        assert row["status"] == "DEAD"
    else:
        assert 479 <= (await delay_of(sql, job_id)).total_seconds() <= 600


@pytest.mark.case("F55")
async def test_many_that_fail_at_once_do_not_come_back_at_once(db: ClonedDatabase, sql: Connection) -> None:
    for _ in range(40):
        await enqueue(sql)
    async with testing.instance(db, registry=raising(ValueError("no"))) as w:
        assert await w.run_all() == 40

    spread = await sql.fetchval(
        """select extract(epoch from max(s.run_after - e.at) - min(s.run_after - e.at))
           from wakeful.scheduled s cross join lateral (select (s.errors -> 0 ->> 'at')::timestamptz as at) e"""
    )
    assert spread > 0.5


async def test_a_retry_with_no_delay_is_claimable_at_once_at_a_new_position(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = (await enqueue(sql)).job_id
    other = (await enqueue(sql)).job_id
    async with testing.instance(db, registry=raising(Retry(0))) as w:
        first = await w.claim()
        assert first is not None
        assert await w.fail(first, "no") == "PENDING"
        assert await table_of(sql, job_id) == ["ready"]

        order = [await w.claim(), await w.claim()]
        assert [job and job.job_id for job in order] == [other, job_id]


@pytest.mark.parametrize(
    ("directive", "status", "counts"),
    [
        (Retry(60, "busy"), "PENDING", (1, 0)),
        (Snooze(60), "PENDING", (0, 1)),
        (RateLimited(60), "PENDING", (0, 1)),
        (Fail("no such place"), "DEAD", (1, 0)),
        (Fail("not now", retry=True), "PENDING", (1, 0)),
        (Discard("not needed"), "CANCELLED", (1, 0)),
    ],
)
async def test_a_directive_says_exactly_what_becomes_of_the_job(
    db: ClonedDatabase, sql: Connection, directive: Exception, status: str, counts: tuple[int, int]
) -> None:
    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db, registry=raising(directive)) as w:
        await w.run_one()

    row = await job_row(sql, job_id)
    assert row["status"] == status
    assert (row["attempts"], row["snoozed"]) == counts
    alerts = await sql.fetchval("select count(*) from wakeful.alert_outbox")
    assert alerts == (status == "DEAD")
    if isinstance(directive, Retry | Snooze):
        delay = (await delay_of(sql, job_id)).total_seconds()
        assert 59 <= delay <= 72


@pytest.mark.case("F57")
async def test_snoozing_is_bounded_in_all_and_leaves_attempts_and_history_alone(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = (await enqueue(sql)).job_id
    settings = Settings(jobs=JobSettings(snooze_limit=2.5))
    async with testing.instance(db, registry=raising(Snooze(1)), backoff=at_once, settings=settings) as w:
        for _ in range(2):
            assert await w.run_one()
            row = await job_row(sql, job_id)
            assert (row["attempts"], row["errors"], row["last_error"]) == (0, [], None)
            await sql.execute("update wakeful.scheduled set run_after = now()")
            await sql.fetch(statements()["promote_jobs"], *await lane_and_job(sql))
        assert await w.run_one()

    row = await job_row(sql, job_id)
    assert (row["attempts"], row["snoozed"]) == (1, 2)
    assert row["last_error"].startswith("SnoozedTooLong: ")


async def lane_and_job(sql: Connection) -> tuple[int, list[object]]:
    row = await sql.fetchrow("select lane_id, job_id from wakeful.scheduled")
    assert row is not None
    return row["lane_id"], [row["job_id"]]


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
        GeneratorExit(),
        StopAsyncIteration(),
        Unprintable(),
        ValueError("a\x00b\ud800" + "x" * 100_000),
        BaseExceptionGroup("several", [ValueError("a"), SystemExit(1)]),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_whatever_a_handler_raises_is_a_failed_attempt_and_the_next_job_runs(
    db: ClonedDatabase, sql: Connection, error: BaseException, kind: str
) -> None:
    bad = (await enqueue(sql, "BAD")).job_id
    good = (await enqueue(sql, "GOOD")).job_id
    registry = Registry()

    async def in_loop(job: JobContext) -> None:
        raise error

    def in_thread(job: JobContext) -> None:
        raise error

    registry.job("BAD")(in_loop if kind == "async" else in_thread)
    registry.job("GOOD")(returning("well"))
    async with testing.instance(db, registry=registry) as w:
        assert await w.run_all() == 2

    row = await job_row(sql, bad)
    assert (row["status"], row["attempts"]) == ("PENDING", 1)
    assert row["last_error"].startswith(type(error).__name__)
    assert len(row["last_error"].encode()) <= 16 * 1024
    assert (await job_row(sql, good))["result"] == "well"


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"channels": [{"channel": "feed", "status": "failed"}]},
        123456789012345678901234567890,
        "né \U0001f600 \\u0000 is not a NUL",
        [1, 2.5, -0.0, 1e-300, True, None],
    ],
)
async def test_what_a_handler_returns_is_stored_exactly(
    db: ClonedDatabase, sql: Connection, value: object
) -> None:
    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db, registry=returning(value)) as w:
        await w.run_one()

    row = await job_row(sql, job_id)
    assert (row["status"], row["result"]) == ("DONE", value)


async def test_exact_decimals_come_back_exact(db: ClonedDatabase, sql: Connection) -> None:
    given: Any = jsontext.loads('{"price": 0.1000000000000000055, "big": 1e400}')
    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db, registry=returning(given)) as w:
        await w.run_one()

    assert (await job_row(sql, job_id))["result"] == given


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), "\ud800", "x" * (1024 * 1024 + 1)])
async def test_a_result_that_can_not_be_stored_is_a_failed_attempt_that_says_why(
    db: ClonedDatabase, sql: Connection, value: object
) -> None:
    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db, registry=returning(value)) as w:
        await w.run_one()

    row = await job_row(sql, job_id)
    assert row["status"] == "PENDING"
    assert row["last_error"].startswith("ResultRefused: the result")


async def test_an_unknown_type_fails_loudly_with_backoff_and_is_dead_when_spent(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = (await enqueue(sql, "AI_CHECK", {"place_id": "abc"}, max_attempts=2)).job_id
    registry = Registry()
    registry.job("COLLECT")(returning(1))
    async with testing.instance(db, registry=registry, backoff=at_once) as w:
        assert await w.run_all() == 2

    row = await job_row(sql, job_id)
    assert row["status"] == "DEAD"
    assert row["last_error"].startswith("UnknownJobType: ")
    assert "AI_CHECK" in row["last_error"]
    key = await sql.fetchval("select dedupe_key from wakeful.alert_outbox")
    assert key == "job_dead:AI_CHECK:UnknownJobType"


async def test_a_payload_that_does_not_fit_is_dead_at_once_with_every_problem_and_its_alert(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry, called = Registry(), False

    @registry.job("COLLECT")
    async def collect(job: JobContext, payload: Typed) -> None:
        nonlocal called
        called = True

    job_id = (await enqueue(sql, payload={"place_id": 7})).job_id
    async with testing.instance(db, registry=registry) as w:
        await w.run_one()

    row = await job_row(sql, job_id)
    assert (row["status"], row["attempts"], called) == ("DEAD", 1, False)
    assert row["last_error"].startswith("InvalidPayload: ")
    assert "place_id" in row["last_error"]
    assert "pages" in row["last_error"]
    assert await sql.fetchval("select count(*) from wakeful.alert_outbox") == 1


async def test_degraded_work_is_done_with_its_reasons(db: ClonedDatabase, sql: Connection) -> None:
    async def handler(job: JobContext) -> str:
        job.degrade("copy provider down\x00")
        job.degrade("no pictures")
        job.degrade("no pictures")
        return "facts alone"

    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db, registry=handler) as w:
        await w.run_one()

    row = await job_row(sql, job_id)
    assert (row["status"], row["result"]) == ("DONE", "facts alone")
    assert row["degraded"] == ["copy provider down␀", "no pictures"]


async def test_a_type_without_history_leaves_no_finished_row_and_still_frees_its_key(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry = Registry()
    registry.job("COLLECT", history=False)(returning(1))
    job_id = (await enqueue(sql, dedupe_key="k")).job_id
    async with testing.instance(db, registry=registry) as w:
        assert await w.run_one()

    assert await table_of(sql, job_id) == []
    assert (await enqueue(sql, dedupe_key="k")).created
