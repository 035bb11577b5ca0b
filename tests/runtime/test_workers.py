"""A worker keeps its task, row after row of jobs, while nobody has taken hold of it (decisions 37 and 54)."""

from __future__ import annotations

import asyncio

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.running import brisk, running
from wakeful import JobContext, Registry

WORKERS = 10
JOBS = 400


async def test_however_many_jobs_there_are_each_worker_runs_them_in_one_task(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry, tasks = Registry(), set[str]()

    @registry.job("QUICK")
    async def quick(job: JobContext) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task.get_name())  # the name, since a reference would be a trace

    await sql.execute(
        """select wakeful.enqueue_many(jsonb_agg('{"job_type": "QUICK"}'::jsonb), false)
           from generate_series(1, $1::integer)""",
        JOBS,
    )
    async with running(db, registry, settings=brisk(concurrency=WORKERS)):
        done = "select count(*) from wakeful.finished"
        await eventually(lambda: sql.fetchval(done), until=lambda count: count == JOBS)

    assert len(tasks) <= WORKERS
