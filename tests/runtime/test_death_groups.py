"""Deaths are grouped by bug: class and own function, alike for handlers on the loop, in threads and in processes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support import isolated_jobs
from support.databases import ClonedDatabase, Connection
from support.dispatching import heard, store_of
from support.eventually import eventually
from support.factories import depart, enqueue, job_in
from support.isolation import ledger
from support.running import brisk, running
from wakeful import Fail, JobContext, Registry, Retry, testing
from wakeful.outbox.folding import fold_events

__all__ = ["ledger"]

HERE = __name__


class PlaceGone(Exception):
    """One class for two bugs."""


def look_up(place: str) -> None:
    raise PlaceGone(f"no place {place}")


def look_for_prices(place: str) -> None:
    raise PlaceGone(f"no prices of {place}")


async def keys(sql: Connection) -> list[str]:
    rows = await sql.fetch("select dedupe_key from wakeful.alert_outbox order by outbox_id")
    return [row[0] for row in rows]


def both() -> Registry:
    registry = Registry()

    @registry.job("LOOP", max_attempts=1)
    async def on_the_loop(job: JobContext) -> None:
        await _work(job)

    @registry.job("THREAD", max_attempts=1)
    def in_a_thread(job: JobContext) -> None:
        look = look_up if job.payload["bug"] == 1 else look_for_prices
        look(str(job.payload["place"]))

    return registry


async def _work(job: JobContext) -> None:
    match job.payload["bug"]:
        case 1:
            look_up(str(job.payload["place"]))
        case 2:
            look_for_prices(str(job.payload["place"]))
        case 3:
            raise Fail(f"no such place as {job.payload['place']}")
        case _:
            raise Retry(0, f"come again for {job.payload['place']}")


@pytest.mark.parametrize("job_type", ["LOOP", "THREAD"])
async def test_two_bugs_of_one_class_are_two_groups_and_one_bug_with_many_ids_is_one(
    db: ClonedDatabase, sql: Connection, job_type: str
) -> None:
    for place in ("9", "10", "4711"):
        for bug in (1, 2):
            await enqueue(sql, job_type, {"place": place, "bug": bug}, max_attempts=1)
    async with testing.instance(db, registry=both()) as w:
        assert await w.run_all() == 6
    async with store_of(db, said := heard()) as store:
        await fold_events(store, said.telemetry)

    rows = await sql.fetch("select dedupe_key, occurrences, fingerprint from wakeful.alert order by 1")
    assert [tuple(row) for row in rows] == [
        (f"job_dead:{job_type}:PlaceGone@{HERE}:{name}", 3, f"{job_type}:PlaceGone@{HERE}:{name}")
        for name in ("look_for_prices", "look_up")
    ]


@pytest.mark.parametrize(("bug", "kind"), [(3, "Fail"), (4, "Retry")])
async def test_a_failure_that_a_handler_asked_for_is_known_by_where_it_did(
    db: ClonedDatabase, sql: Connection, bug: int, kind: str
) -> None:
    for place in ("9", "10"):
        await enqueue(sql, "LOOP", {"place": place, "bug": bug}, max_attempts=1)
    async with testing.instance(db, registry=both()) as w:
        await w.run_all()

    assert await keys(sql) == [f"job_dead:LOOP:{kind}@{HERE}:_work"] * 2


async def test_in_a_process_of_its_own_a_handlers_bug_is_the_same(
    db: ClonedDatabase, sql: Connection, ledger: AsyncIterator[None]
) -> None:
    settings = brisk(concurrency=1)
    async with running(db, isolated_jobs.registry, settings=settings):
        for what in ("ValueError", "Fail"):
            await enqueue(sql, "RAISE", {"what": what}, max_attempts=1)
        told = await eventually(lambda: keys(sql), until=lambda found: len(found) == 2, timeout=60)

    assert sorted(told) == [
        "job_dead:RAISE:Fail@support.isolated_jobs:raise_it",
        "job_dead:RAISE:ValueError@support.isolated_jobs:raise_it",
    ]


async def test_where_nothing_was_raised_the_class_is_the_group(sql: Connection) -> None:
    for entry in (
        {"type": "LeaseExpired"},
        {"type": "PlaceGone", "fingerprint": "PlaceGone@shop:fetch"},
        None,
    ):
        job_id = await job_in(sql, "RUNNING")
        await depart(sql, job_id, "refuse", entry=entry)

    assert await keys(sql) == [
        *("job_dead:COLLECT:LeaseExpired", "job_dead:COLLECT:PlaceGone@shop:fetch", "job_dead:COLLECT:refuse")
    ]
