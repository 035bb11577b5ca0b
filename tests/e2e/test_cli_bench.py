"""`wakeful bench` on somebody's database: it says what it found, and nothing of it stays, however it ends."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from support import factories
from support.cluster import Cluster
from support.commands import running_command, wakeful
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from wakeful.store.statements import statements

TABLES = """
select c.relname from pg_class c
where c.relnamespace = 'wakeful'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition order by c.relname
"""
# The fleet's, whoever works first: which server this is, and when its duties are next due.
OF_THE_FLEET = {"installation", "duty"}


async def everything(sql: Connection) -> dict[str, list[str]]:
    """Every row of every table."""
    return {
        table: [row[0] for row in await sql.fetch(f"select t::text from wakeful.{table} as t order by 1")]
        for (table,) in await sql.fetch(TABLES)
        if table not in OF_THE_FLEET
    }


async def anybodys_work(sql: Connection) -> dict[str, list[str]]:
    """Make jobs of others, in every state that a measurement passes through; gives all that is there."""
    await factories.declare(sql, "COLLECT")
    for state in ("READY", "SCHEDULED", "DONE", "DEAD"):
        await factories.job_in(sql, state)
    await sql.fetch(statements()["fold_lanes"], 100)
    return await everything(sql)


@asynccontextmanager
async def member_of(db: ClonedDatabase, sql: Connection, role: str) -> AsyncIterator[str]:
    """A role that may log in and has no rights but that one's."""
    name = f"{db.name}_{role}"
    await sql.execute(f"create role {name} login in role wakeful_{role}")
    try:
        yield name
    finally:
        await sql.execute(f"drop role {name}")


async def test_a_worker_measures_prints_every_figure_and_leaves_nothing(
    db: ClonedDatabase, sql: Connection
) -> None:
    before = await anybodys_work(sql)
    async with member_of(db, sql, "worker") as worker:
        ended = await wakeful("bench", "--jobs", 300, "--json", db=db, role=worker)
    assert ended.code == 0, ended.err
    found = ended.document()
    assert (found["jobs"], found["jobs_drained"]) == (300, 300)
    for name in (
        "round_trip_ms",
        "commit_ms",
        "async_commit_ms",
        "enqueue_per_second",
        "drain_per_second",
        "daemon_cpu_us_per_job",
        "wake_p50_ms",
        "wake_p99_ms",
        "wal_bytes_per_job",
    ):
        assert found[name] > 0
    assert "limit" in found["limit"]
    assert await everything(sql) == before


async def test_one_that_has_too_little_time_tells_what_it_did_and_leaves_nothing(
    db: ClonedDatabase, sql: Connection
) -> None:
    ended = await wakeful("bench", "--jobs", 100_000, "--seconds", "0.3s", db=db)
    assert ended.code == 0, ended.err
    assert "jobs/s" in ended.out
    assert not any((await everything(sql)).values())


@pytest.mark.parametrize(
    ("amid", "signum"),
    [
        ("select exists (select from wakeful.instance)", signal.SIGTERM),
        ("select exists (select from wakeful.ready where queue like 'wakeful-bench-%')", signal.SIGINT),
        ("select count(*) > 100 from wakeful.finished where queue like 'wakeful-bench-%'", signal.SIGTERM),
    ],
    ids=["its start", "its enqueues", "its drain"],
)
async def test_one_that_is_stopped_amid_its_work_ends_with_130_and_leaves_nothing(
    db: ClonedDatabase, sql: Connection, amid: str, signum: signal.Signals
) -> None:
    before = await anybodys_work(sql)
    async with running_command("bench", "--jobs", 20_000, db=db) as process:
        await eventually(lambda: sql.fetchval(amid), timeout=30)
        process.send_signal(signum)
        assert process.stderr is not None
        said = b"".join([chunk async for chunk in process.stderr])
        assert (await process.wait(), said.decode()[-2000:]) == (130, said.decode()[-2000:])
    assert await everything(sql) == before


@pytest.mark.parametrize("role", ["observer", "producer"])
async def test_a_role_that_could_not_clean_up_is_refused_before_anything_is_made(
    db: ClonedDatabase, sql: Connection, role: str
) -> None:
    async with member_of(db, sql, role) as name:
        ended = await wakeful("bench", "--jobs", 10, db=db, role=name)
    assert (ended.code, ended.out) == (1, "")
    assert "hint: " in ended.err
    assert "wakeful_worker" in ended.err
    assert ("it lacks " in ended.err) == (role == "observer")  # a producer can't even look
    assert not any((await everything(sql)).values())


async def test_an_instance_that_would_take_the_measured_jobs_is_named(
    db: ClonedDatabase, sql: Connection
) -> None:
    await sql.fetch(
        statements()["register_instance"],
        *(1, "greedy", "there", 4711, "0", 30.0, True, "{}", ["*"]),
        *([], [], "hash"),
    )
    before = await everything(sql)
    ended = await wakeful("bench", "--jobs", 10, db=db)
    assert (ended.code, ended.out) == (1, "")
    assert "the instance greedy (process 4711 on there) serves every job type" in ended.err
    assert await everything(sql) == before


async def test_a_database_without_the_schema_is_told_what_to_do(cluster: Cluster) -> None:
    ended = await wakeful("bench", "--database", cluster.dsn("postgres"))
    assert (ended.code, ended.out) == (78, "")
    assert "wakeful migrate" in ended.err


@pytest.mark.parametrize(
    "arguments", [("--jobs", "0"), ("--jobs", "1000001"), ("--seconds", "0"), ("--seconds", "long")]
)
async def test_sizes_that_make_no_sense_are_refused(arguments: tuple[str, str]) -> None:
    ended = await wakeful("bench", *arguments)
    assert (ended.code, ended.out) == (2, "")
