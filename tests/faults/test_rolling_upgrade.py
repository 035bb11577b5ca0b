"""A fleet is upgraded under load: old daemons run while the schema moves on, new ones take over, and nothing is lost.

The release after this one is made by the test; the schema starts as the oldest release installed it.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import pytest

from support.cluster import Cluster, execute
from support.commands import wakeful
from support.databases import ClonedDatabase, cloned_database
from support.eventually import eventually
from support.process import Daemon, entries, running_daemon
from support.releases import ANY_PORT, NEXT, Release, next_release

RELEASES: Final = Path(__file__).resolve().parents[1] / "schema" / "fixtures"
ADDITIVE: Final = """
alter table wakeful.ready add column note text;
alter table wakeful.finished add column note text;
comment on column wakeful.ready.note is 'What people wrote about it';
comment on column wakeful.finished.note is 'What people wrote about it';
create function wakeful.annotate(job_id uuid, note text) returns boolean language sql as $$
    update wakeful.ready r set note = annotate.note where r.job_id = annotate.job_id returning true
$$;
comment on function wakeful.annotate(uuid, text) is 'Write a note on a job';
"""
BREAKING: Final = "-- breaking\nalter table wakeful.ready add column note text;\n"
QUICK: Final = {
    "lease.default": "6s",
    "lease.long": "6s",
    "lease.beat": "1s",
    "reaper.interval": "1s",
    "poll.min": "100ms",
    "poll.max": "500ms",
    "drain.grace": "10s",
}


@pytest.fixture
async def empty(cluster: Cluster) -> AsyncIterator[ClonedDatabase]:
    """A database without Wakeful."""
    async with cloned_database(cluster, template="template1") as database:
        yield database


@asynccontextmanager
async def load(db: ClonedDatabase) -> AsyncIterator[list[str]]:
    """Enqueue all the time, one job a transaction, until the block ends; gives the ids of those that were committed."""
    connection, made, stop = await db.connect(), list[str](), anyio.Event()

    async def produce() -> None:
        while not stop.is_set():
            made.append(
                await connection.fetchval(
                    "select job_id::text from wakeful.enqueue('probe.sleep', '{\"seconds\": 0.02}')"
                )
            )
            await anyio.sleep(0.03)

    async with anyio.create_task_group() as group:
        group.start_soon(produce)
        yield made
        stop.set()


async def install_oldest(db: ClonedDatabase) -> None:
    """Install what the oldest release did, and bring it up to this one."""
    oldest = min(RELEASES.glob("schema-*.sql")).read_text()
    note = """insert into wakeful.migration (version, name, checksum)
              select schema_version, 'schema.sql', '' from wakeful.installation"""
    await execute(db.dsn, f"begin;\n{oldest}\n{note};\nselect wakeful.grant_roles();\ncommit;")
    assert (await wakeful("migrate", db=db)).code == 0


async def migrated(release: Release, db: ClonedDatabase) -> str:
    """Migrate with this release; gives what it said."""
    process = release.start("migrate", db=db)
    said, _ = await anyio.to_thread.run_sync(process.communicate)
    assert process.returncode == 0, said
    return str(said)


@pytest.mark.timeout(300)  # five starts of a process and a load, on a machine that may be busy
@pytest.mark.case("F85")
async def test_a_rolling_upgrade_under_load_loses_and_doubles_nothing(
    empty: ClonedDatabase, tmp_path: Path
) -> None:
    ledger, release = tmp_path / "ledger", next_release(tmp_path / "next", ADDITIVE)
    await install_oldest(empty)
    sql = await empty.connect()

    async def done() -> int:
        found: int = await sql.fetchval("select count(*) from wakeful.finished where status = 'DONE'")
        return found

    async def more(than: int) -> None:
        await eventually(done, until=lambda seen: seen > than, timeout=60)

    with ExitStack() as daemons:

        def start(tag: str, around: Sequence[str] = ()) -> Daemon:
            daemon = running_daemon(empty.dsn, settings=QUICK, ledger=ledger, tag=tag, around=around)
            return daemons.enter_context(daemon)

        old = [start("old-1"), start("old-2")]
        async with load(empty) as made:
            await more(than=20)
            assert f"{NEXT:04}_next.sql" in await migrated(release, empty)
            await more(than=await done() + 20)  # by old daemons, on the new schema
            new = []
            for number, leaving in enumerate(old, 1):
                new.append(start(f"new-{number}", release.around))
                await anyio.to_thread.run_sync(partial(new[-1].wait_for, "daemon.started", timeout=60))
                leaving.send(signal.SIGTERM)
                code = await anyio.to_thread.run_sync(partial(leaving.exit_code, timeout=60))
                assert code == 0, "\n".join(leaving.raw[-40:])
            await more(than=await done() + 20)
        await eventually(done, until=lambda seen: seen == len(made), timeout=60)
        for daemon in new:
            daemon.send(signal.SIGTERM)
            assert daemon.exit_code() == 0
    assert await sql.fetchval("select max(attempts) from wakeful.jobs") == 1
    assert await sql.fetchval("select count(*) from wakeful.jobs where status <> 'DONE'") == 0
    ends = Counter(str(one["job_id"]) for one in entries(ledger) if one["what"] == "END")
    assert ends == Counter(made)
    assert {str(one["tag"])[:3] for one in entries(ledger)} == {"old", "new"}


@pytest.mark.case("F85")
async def test_a_daemon_that_is_too_old_says_so_and_one_that_is_too_new_says_what_to_do(
    db: ClonedDatabase, tmp_path: Path
) -> None:
    release = next_release(tmp_path / "next", BREAKING)

    too_new = release.start("run", db=db)
    said, _ = await anyio.to_thread.run_sync(too_new.communicate)
    assert too_new.returncode == 78
    assert "run `wakeful migrate`" in said

    await migrated(release, db)
    too_old = await wakeful("run", db=db, environ=ANY_PORT)
    assert too_old.code == 78
    assert "run a newer version of Wakeful here" in too_old.out + too_old.err


@pytest.mark.case("F85")
async def test_a_migration_killed_in_the_middle_leaves_the_old_daemons_at_work_and_can_be_made_again(
    db: ClonedDatabase, tmp_path: Path
) -> None:
    release = next_release(tmp_path / "next", ADDITIVE)
    sql, reader = await db.connect(), await db.connect()

    async def waits() -> bool:
        found: bool = await sql.fetchval(
            """select exists (select from pg_stat_activity where application_name = 'wakeful migrate'
                              and wait_event_type = 'Lock' and datname = current_database())"""
        )
        return found

    with running_daemon(db.dsn, settings=QUICK) as daemon:
        daemon.wait_for("daemon.started")
        transaction = reader.transaction()
        await transaction.start()
        await reader.execute("select count(*) from wakeful.finished")
        process = release.start("migrate", db=db)
        await eventually(waits, timeout=30)  # it has altered `ready`, and waits for `finished`
        process.kill()
        await anyio.to_thread.run_sync(process.communicate)
        await transaction.rollback()
        assert await sql.fetchval("select schema_version from wakeful.installation") == NEXT - 1
        job_id = await sql.fetchval("select job_id from wakeful.enqueue('probe.ok')")
        status = "select status from wakeful.jobs where job_id = $1"
        await eventually(lambda: sql.fetchval(status, job_id), until=lambda seen: seen == "DONE", timeout=30)

        await migrated(release, db)
        assert await sql.fetchval("select schema_version from wakeful.installation") == NEXT
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 0


@pytest.mark.case("F85")
async def test_five_daemons_started_at_once_on_an_empty_database_install_it_once(
    empty: ClonedDatabase, tmp_path: Path
) -> None:
    with ExitStack() as daemons:
        started = [
            daemons.enter_context(running_daemon(empty.dsn, "--migrate", settings=QUICK, tag=str(number)))
            for number in range(5)
        ]
        for daemon in started:
            daemon.wait_for("daemon.started", timeout=60)
        sql = await empty.connect()
        assert [
            row[0] for row in await sql.fetch("select name from wakeful.migration where version = 1")
        ] == ["schema.sql"]
        assert sum(len(daemon.events("migration.applied", name="schema.sql")) for daemon in started) == 1
        assert await sql.fetchval("select count(*) from wakeful.instance where state = 'live'") == 5
        for daemon in started:
            daemon.send(signal.SIGTERM)
        assert [daemon.exit_code() for daemon in started] == [0] * 5
