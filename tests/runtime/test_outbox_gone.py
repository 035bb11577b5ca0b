"""A group of deaths is over when none of its jobs is dead any more, and people hear why."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from support.databases import ClonedDatabase, Connection
from support.dispatching import Heard, composed, counts_add_up, heard, store_of, take
from support.factories import claim, depart, enqueue, finish
from wakeful.outbox.folding import fold_events
from wakeful.store import outbox, upkeep
from wakeful.store.database import Database
from wakeful.store.outbox import Resolved

ENTRY = {"type": "PlaceGone", "fingerprint": "PlaceGone@shop.places:fetch"}
REASON = "all of its jobs were requeued or removed"


@pytest.fixture
def said() -> Heard:
    return heard()


@pytest.fixture
async def store(db: ClonedDatabase, said: Heard) -> AsyncIterator[Database]:
    async with store_of(db, said) as store:
        yield store


async def death(sql: Connection, job_id: UUID | None = None, *, entry: dict[str, str] = ENTRY) -> UUID:
    """Let a job die, a new one or one that was requeued."""
    job_id = job_id or (await enqueue(sql)).job_id
    await claim(sql, job_id)
    await depart(sql, job_id, "refuse", reason="PlaceGone: it is gone", entry=entry)
    return job_id


async def requeued(sql: Connection, *jobs: UUID) -> None:
    for job_id in jobs:
        assert await sql.fetchval("select wakeful.requeue($1)", job_id) == job_id


async def test_it_ends_when_the_last_of_its_jobs_is_requeued_and_says_so(
    store: Database, said: Heard, sql: Connection
) -> None:
    jobs = [await death(sql) for _ in range(3)]
    await composed(store, said, "hook")
    assert [one["type"] for one in await take(sql)] == ["alert.opened"]
    await requeued(sql, *jobs[:2])
    assert await outbox.resolve_gone(store) == []
    await requeued(sql, jobs[2])

    assert await outbox.resolve_gone(store) == [Resolved(alert_id=1, kind="job_dead", occurrences=3)]
    assert await outbox.resolve_gone(store) == []

    await composed(store, said, "hook")
    (end,) = await take(sql)
    assert (end["type"], end["data"]["resolved_reason"]) == ("alert.resolved", REASON)
    await counts_add_up(sql)


async def test_a_job_that_is_done_or_was_removed_is_dead_no_more(
    store: Database, said: Heard, sql: Connection
) -> None:
    done, removed = await death(sql), await death(sql)
    await fold_events(store, said.telemetry)
    await requeued(sql, done)
    await claim(sql, done)
    await finish(sql, done)
    await sql.execute("delete from wakeful.dead where job_id = $1", removed)

    assert len(await outbox.resolve_gone(store)) == 1


async def test_a_job_that_died_again_of_the_same_keeps_its_group_open(
    store: Database, said: Heard, sql: Connection
) -> None:
    job_id = await death(sql)
    await fold_events(store, said.telemetry)
    await requeued(sql, job_id)
    await death(sql, job_id)

    assert await outbox.resolve_gone(store) == []  # it waits to be folded
    await fold_events(store, said.telemetry)
    assert await outbox.resolve_gone(store) == []
    assert await sql.fetchval("select occurrences from wakeful.alert") == 2


async def test_a_job_that_died_again_of_something_else_is_in_that_group_alone(
    store: Database, said: Heard, sql: Connection
) -> None:
    job_id = await death(sql)
    await fold_events(store, said.telemetry)
    await requeued(sql, job_id)
    await death(sql, job_id, entry={"type": "Other"})
    await fold_events(store, said.telemetry)

    assert [one.alert_id for one in await outbox.resolve_gone(store)] == [1]


async def test_a_group_whose_events_are_pruned_is_not_taken_for_empty(
    store: Database, said: Heard, sql: Connection
) -> None:
    await death(sql)
    last = await death(sql)
    await fold_events(store, said.telemetry)
    await sql.execute(
        "update wakeful.alert_outbox set created_at = now() - interval '1 day' where outbox_id = 1"
    )
    await upkeep.prune_outbox(store, 3600, 100)
    await requeued(sql, last)

    assert await outbox.resolve_gone(store) == []


@pytest.mark.parametrize("body", ['{"run_no": "x"}', '{"run_no": null}', "[]", "7", "{}"])
async def test_an_event_that_names_no_run_of_a_job_keeps_its_group_open(
    store: Database, said: Heard, sql: Connection, body: str
) -> None:
    await requeued(sql, await death(sql))
    await sql.execute(
        """insert into wakeful.alert_outbox (kind, dedupe_key, title, severity, body, job_id)
           select o.kind, o.dedupe_key, 'by hand', 'error', $1::text::jsonb, null from wakeful.alert_outbox o""",
        body,
    )
    await fold_events(store, said.telemetry)

    assert await outbox.resolve_gone(store) == []


async def test_of_a_great_many_deaths_the_small_groups_are_looked_at_and_the_rest_is_left_to_be_quiet(
    store: Database, said: Heard, sql: Connection
) -> None:
    jobs = [await death(sql) for _ in range(3)]
    jobs += [await death(sql, entry={"type": "Other"}) for _ in range(2)]
    await fold_events(store, said.telemetry)
    await requeued(sql, *jobs)

    assert await outbox.resolve_gone(store, most=1) == []
    assert [one.occurrences for one in await outbox.resolve_gone(store, most=4)] == [2]
    assert [one.occurrences for one in await outbox.resolve_gone(store, most=4)] == [3]


async def test_what_follows_is_a_new_alert(store: Database, said: Heard, sql: Connection) -> None:
    job_id = await death(sql)
    await composed(store, said, "hook")
    await take(sql)
    await requeued(sql, job_id)
    await outbox.resolve_gone(store)
    await death(sql, job_id)
    await composed(store, said, "hook")

    messages = await take(sql)
    assert [(one["type"], one["data"]["alert_id"]) for one in messages] == [
        ("alert.resolved", 1),
        ("alert.opened", 2),
    ]
