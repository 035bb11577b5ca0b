"""Every other end of an attempt: what it counts, where the job goes, and that a death is told once."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, get_args

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.factories import declare, enqueue
from support.working import Claimer, claimer_on, job_row, ready_row, settlement_of, table_of
from wakeful.store import jobs as store
from wakeful.store.jobs import Claimed, Verb

VERBS: tuple[Verb, ...] = get_args(Verb)
LATER = 3600.0


async def one_job(claimer: Claimer, sql: Connection, **options: Any) -> Claimed:
    await enqueue(sql, **options)
    (claimed,) = await claimer.claim()
    return claimed


async def next_end(claimer: Claimer, verb: Verb, *, reason: str = "it went wrong") -> str | None:
    """Claim the one job there is and end the attempt; gives its status."""
    (claimed,) = await claimer.claim()
    settled = await claimer.settle(claimed, verb, reason=reason)
    return settled.status if settled else None


async def outbox(sql: Connection) -> list[Any]:
    return await sql.fetch("select * from wakeful.alert_outbox order by outbox_id")


@pytest.mark.parametrize(
    ("verb", "counts"),
    [
        ("fail", {"attempts": 1, "handed_back": 0, "snoozed": 0, "lost": 0}),
        ("snooze", {"attempts": 0, "handed_back": 0, "snoozed": 1, "lost": 0}),
        ("hand_back", {"attempts": 0, "handed_back": 1, "snoozed": 0, "lost": 0}),
        ("put_back", {"attempts": 0, "handed_back": 0, "snoozed": 0, "lost": 0}),
        ("lose", {"attempts": 0, "handed_back": 0, "snoozed": 0, "lost": 1}),
    ],
)
@pytest.mark.parametrize("delay", [0.0, LATER])
async def test_a_job_that_goes_back_counts_what_happened_and_its_run_number_stays(
    db: ClonedDatabase, sql: Connection, verb: Verb, counts: dict[str, int], delay: float
) -> None:
    async with claimer_on(db) as claimer:
        claimed = await one_job(claimer, sql, dedupe_key="k")
        settled = await claimer.settle(claimed, verb, delay=delay)

        assert settled is not None
        assert (settled.status, settled.delay) == ("PENDING", delay)
        row = await job_row(sql, claimed.job.job_id)
        assert {name: row[name] for name in counts} == counts
        assert (row["status"], row["run_no"], row["instance_id"]) == ("PENDING", 1, None)
        assert await table_of(sql, claimed.job.job_id) == ["scheduled" if delay else "ready"]
        assert await sql.fetchval("select wakeful.find_active('k')") == claimed.job.job_id


async def test_what_is_due_now_goes_to_a_new_position_behind_what_waits_and_never_back_in_place(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer:
        claimed = await one_job(claimer, sql)
        behind = (await enqueue(sql)).job_id
        await claimer.settle(claimed, "fail")

        assert (await ready_row(sql, claimed.job.job_id))["pos"] > (await ready_row(sql, behind))["pos"]
        assert [one.job.job_id for one in await claimer.claim()] == [behind, claimed.job.job_id]


async def test_a_delayed_retry_is_not_claimable_before_its_time(db: ClonedDatabase, sql: Connection) -> None:
    async with claimer_on(db) as claimer:
        claimed = await one_job(claimer, sql)
        before: datetime = await sql.fetchval("select clock_timestamp()")
        await claimer.settle(claimed, "fail", delay=LATER)

        due = (await job_row(sql, claimed.job.job_id))["run_after"]
        assert timedelta(seconds=LATER) <= due - before < timedelta(seconds=LATER + 10)
        assert await claimer.claim() == []


async def test_an_attempt_too_many_is_the_last_one(db: ClonedDatabase, sql: Connection) -> None:
    async with claimer_on(db) as claimer:
        job_id = (await enqueue(sql, max_attempts=3, dedupe_key="k")).job_id
        fates = [await next_end(claimer, "fail", reason="ValueError: no") for _ in range(3)]

        assert fates == ["PENDING", "PENDING", "DEAD"]
        row = await job_row(sql, job_id)
        assert (row["status"], row["attempts"], row["last_error"]) == ("DEAD", 3, "ValueError: no")
        assert row["instance_id"] == claimer.owner.instance_id
        assert await sql.fetchval("select wakeful.find_active('k')") is None
        assert await sql.fetchval("select cause from wakeful.dead") == "attempts"


async def test_a_refusal_is_death_at_once(db: ClonedDatabase, sql: Connection) -> None:
    async with claimer_on(db) as claimer:
        claimed = await one_job(claimer, sql)
        settled = await claimer.settle(claimed, "refuse", reason="InvalidPayload: no")

    assert settled is not None
    assert settled.status == "DEAD"
    assert [row["kind"] for row in await outbox(sql)] == ["job_dead"]


async def test_a_job_that_loses_its_owner_too_often_is_dead_with_its_alert_and_its_attempts_are_not_spent(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer:
        job_id = (await enqueue(sql, subject="abc")).job_id
        reason = "lease-expired reclaim: its owner is dead"
        fates = [await next_end(claimer, "lose", reason=reason) for _ in range(3)]

        assert fates == ["PENDING", "PENDING", "DEAD"]
        row = await job_row(sql, job_id)
        assert (row["attempts"], row["lost"]) == (0, 3)
        assert row["last_error"] == "worker lost 3 times: lease-expired reclaim: its owner is dead"
        assert [one["dedupe_key"] for one in await outbox(sql)] == ["job_dead:COLLECT:lose"]


@pytest.mark.parametrize(
    ("options", "subject"),
    [
        ({"subject": "given", "payload": {"place_id": "payload"}}, "given"),
        ({"payload": {"place_id": "fallback", "order": {"no": 17}}}, "17"),
        ({"job_type": "NOBODY_KNOWS", "payload": {"place_id": "fallback"}}, "fallback"),
        ({"job_type": "NOBODY_KNOWS", "payload": {"subject": "first", "place_id": "second"}}, "first"),
        ({"job_type": "NOBODY_KNOWS", "payload": {"subject": {"no": "text"}}}, None),
    ],
)
async def test_a_death_is_told_once_with_the_subject_that_people_know(
    db: ClonedDatabase, sql: Connection, options: dict[str, Any], subject: str | None
) -> None:
    await declare(sql, "COLLECT", subject_path="order.no")
    async with claimer_on(db) as claimer:
        claimed = await one_job(claimer, sql, **options)
        await claimer.settle(claimed, "refuse", reason="Boom: it went wrong\nsecond line")

    (row,) = await outbox(sql)
    job_type = options.get("job_type", "COLLECT")
    assert row["dedupe_key"] == f"job_dead:{job_type}:refuse"
    assert (row["kind"], row["job_type"], row["job_id"]) == ("job_dead", job_type, claimed.job.job_id)
    assert (row["severity"], row["subject"]) == ("error", subject)
    assert row["title"] == f"{job_type} died: Boom: it went wrong"
    assert row["fingerprint"].startswith(f"{job_type}:")
    assert json.loads(row["body"])["attempts"] == 1
    assert row["created_at"] is not None


@pytest.mark.parametrize("verb", ["fail", "snooze", "put_back", "lose", "discard"])
async def test_no_other_end_tells_anybody(db: ClonedDatabase, sql: Connection, verb: Verb) -> None:
    async with claimer_on(db) as claimer:
        await claimer.settle(await one_job(claimer, sql), verb)

    assert await outbox(sql) == []


async def test_a_job_handed_back_for_the_fifth_time_raises_an_alert_and_goes_on(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer:
        job_id = (await enqueue(sql, subject="abc")).job_id
        told = []
        for _ in range(6):
            await next_end(claimer, "hand_back")
            told.append(len(await outbox(sql)))

        assert told == [0, 0, 0, 0, 1, 1]
        assert (await outbox(sql))[0]["dedupe_key"] == "never_finishes:COLLECT"
        row = await job_row(sql, job_id)
        assert (row["handed_back"], row["attempts"], row["run_no"]) == (6, 0, 6)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("delay", [0.0, LATER])
async def test_every_way_out_obeys_a_cancellation_that_was_asked_for(
    db: ClonedDatabase, sql: Connection, verb: Verb, delay: float
) -> None:
    async with claimer_on(db) as claimer:
        claimed = await one_job(claimer, sql, dedupe_key="k", max_attempts=1)
        assert await sql.fetchval("select wakeful.cancel($1, 'not needed')", claimed.job.job_id) == "RUNNING"
        settled = await claimer.settle(claimed, verb, delay=delay)

        assert settled is not None
        assert settled.status == "CANCELLED"
        assert (await job_row(sql, claimed.job.job_id))["status"] == "CANCELLED"
        assert await outbox(sql) == []
        assert await sql.fetchval("select wakeful.find_active('k')") is None


async def test_the_last_ten_failures_are_kept_with_their_attempt_and_run(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer:
        job_id = (await enqueue(sql, max_attempts=20)).job_id
        for number in range(1, 13):
            (claimed,) = await claimer.claim()
            entry = json.dumps({"type": "Boom", "message": f"no {number}", "traceback": "…"})
            one = settlement_of(claimed, "fail", entry=entry)
            await store.settle(claimer.database, claimed.job.lane_id, [one], lost_limit=3)

        errors = (await job_row(sql, job_id))["errors"]
        assert [one["message"] for one in errors] == [f"no {number}" for number in range(3, 13)]
        assert [(one["attempt"], one["run_no"]) for one in errors] == [(n, n) for n in range(3, 13)]
        assert set(errors[0]) == {"at", "attempt", "run_no", "type", "message", "traceback"}


async def test_a_snooze_adds_up_the_time_that_it_asked_for(db: ClonedDatabase, sql: Connection) -> None:
    async with claimer_on(db) as claimer:
        job_id = (await enqueue(sql)).job_id
        for expected in (0.0, 60.0, 120.0):
            (claimed,) = await claimer.claim()
            assert claimed.snoozed == expected
            await claimer.settle(claimed, "snooze", delay=60.0)
            await sql.execute("update wakeful.scheduled set run_after = now()")
            await claimer.database.fetch("promote_jobs", claimed.job.lane_id, [job_id])

        assert (await job_row(sql, job_id))["errors"] == []


async def test_settling_is_fenced_by_pairs_of_position_and_token(db: ClonedDatabase, sql: Connection) -> None:
    for _ in range(2):
        await enqueue(sql)
    async with claimer_on(db) as claimer:
        (first,) = await claimer.claim(limit=1)
        (second,) = await claimer.claim(limit=1)
        swapped = [
            settlement_of(first, "refuse", claim=second.job.claim),
            settlement_of(second, "refuse", claim=first.job.claim),
        ]

        assert await store.settle(claimer.database, first.job.lane_id, swapped, lost_limit=3) == {}
    assert await sql.fetchval("select count(*) from wakeful.ready where owner is not null") == 2
    assert await outbox(sql) == []


@pytest.mark.case("I2")
async def test_a_locked_row_or_key_is_left_for_later_and_holds_nobody_up(
    db: ClonedDatabase, sql: Connection
) -> None:
    locked_row = (await enqueue(sql)).job_id
    locked_key = (await enqueue(sql, dedupe_key="locked")).job_id
    for _ in range(10):
        await enqueue(sql)
    async with claimer_on(db) as claimer:
        claimed = await claimer.claim()
        batch = [settlement_of(one, "refuse") for one in claimed]
        async with sql.transaction():
            await sql.execute("select wakeful.cancel($1)", locked_row)
            await sql.execute("select from wakeful.dedupe where key = 'locked' for update")
            with anyio.fail_after(30):
                settled = await store.settle(claimer.database, claimed[0].job.lane_id, batch, lost_limit=3)

        assert len(settled) == 10
        later = await store.settle(claimer.database, claimed[0].job.lane_id, batch, lost_limit=3)
        assert set(later) == {locked_row, locked_key}


async def test_one_statement_ends_attempts_in_different_ways(db: ClonedDatabase, sql: Connection) -> None:
    for _ in range(len(VERBS)):
        await enqueue(sql)
    async with claimer_on(db) as claimer:
        claimed = await claimer.claim()
        batch = [settlement_of(one, verb) for one, verb in zip(claimed, VERBS, strict=True)]
        settled = await store.settle(claimer.database, claimed[0].job.lane_id, batch, lost_limit=3)

    by_verb = {verb: settled[one.job.job_id].status for one, verb in zip(claimed, VERBS, strict=True)}
    assert by_verb == {
        "fail": "PENDING",
        "refuse": "DEAD",
        "lose": "PENDING",
        "snooze": "PENDING",
        "hand_back": "PENDING",
        "put_back": "PENDING",
        "discard": "CANCELLED",
    }
    assert len(await outbox(sql)) == 1
