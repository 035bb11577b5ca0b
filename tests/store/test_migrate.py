"""Migrating: a transaction a step, ten at once, killed in the middle, by roles with few rights; and the check of it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import anyio
import pytest

from support.catalogue import catalogue
from support.cluster import Cluster, execute
from support.databases import ClonedDatabase, Connection, cloned_database
from support.deaf_pooler import deaf_pooler
from support.dispatching import heard
from support.eventually import eventually
from wakeful.core.settings import DatabaseSettings
from wakeful.errors import SchemaMismatch, WakefulError
from wakeful.store.database import open_database
from wakeful.store.migrate import Migrated, check_schema, migrate, pending
from wakeful.store.migration_script import script
from wakeful.store.versions import Migration, Versions, migration_of, versions
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import MIGRATION_APPLIED

CHILD = Path(__file__).resolve().parents[1] / "support" / "migrating_child.py"
SECOND = migration_of(
    "0002_first_note.sql", "create table wakeful.second (n integer);\ninsert into wakeful.second values (1);"
)
THIRD = migration_of("0003_breaks.sql", "-- breaking\nalter table wakeful.second add column m integer;")


@pytest.fixture
async def empty(cluster: Cluster) -> AsyncIterator[ClonedDatabase]:
    """A database without Wakeful."""
    async with cloned_database(cluster, template="template1") as database:
        yield database


async def migrate_at(dsn: str, *, known: Versions | None = None) -> Migrated:
    return await migrate(DatabaseSettings(dsn=dsn), Telemetry(strict=True), known=known)


async def check_at(dsn: str, *, known: Versions | None = None) -> None:
    async with open_database(DatabaseSettings(dsn=dsn), Telemetry()) as database:
        await check_schema(database, known=known)


def with_steps(*steps: Migration) -> Versions:
    """Our schema as it was in version 1, and steps after it; a fresh install holds them too."""
    schema = "\n".join([versions().schema, *(one.text for one in steps)])
    return Versions(schema=schema, steps=steps)


async def test_a_fresh_install_is_schema_sql_and_knows_its_server(
    empty: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    done = await migrate(DatabaseSettings(dsn=empty.dsn), said.telemetry)
    connection = await empty.connect()

    assert [one.name for one in done.applied] == ["schema.sql"]
    assert done.for_administrator == ()
    assert said.recorder.of(MIGRATION_APPLIED, name="schema.sql")
    assert await catalogue(connection) == await catalogue(sql)
    assert await connection.fetchval("select system_identifier from wakeful.installation") == (
        await sql.fetchval("select system_identifier::text from pg_control_system()")
    )
    noted = await connection.fetch("select version, name, checksum from wakeful.migration")
    assert [tuple(row) for row in noted] == [(1, "schema.sql", versions().install().checksum)]
    await check_at(empty.dsn)


async def test_what_is_up_to_date_is_left_alone(empty: ClonedDatabase) -> None:
    assert [one.name for one in await pending(DatabaseSettings(dsn=empty.dsn))] == ["schema.sql"]
    await migrate_at(empty.dsn)

    assert await pending(DatabaseSettings(dsn=empty.dsn)) == ()
    assert await migrate_at(empty.dsn) == Migrated(applied=(), for_administrator=())


async def test_the_subject_paths_of_the_configuration_are_what_an_enqueue_goes_by(
    db: ClonedDatabase, sql: Connection
) -> None:
    await migrate(DatabaseSettings(dsn=db.dsn), Telemetry(strict=True), subject_paths=("shop.id",))
    job_id = await sql.fetchval(
        """select job_id from wakeful.enqueue('COLLECT', '{"shop": {"id": "abc"}}')"""
    )
    assert await sql.fetchval("select subject from wakeful.ready where job_id = $1", job_id) == "abc"

    await migrate_at(db.dsn)
    assert await sql.fetchval("select subject_paths from wakeful.installation") == ["shop.id"]


@pytest.mark.case("F85")
async def test_ten_at_once_take_each_step_once(empty: ClonedDatabase) -> None:
    known = with_steps(SECOND, THIRD)
    done: list[Migrated] = []

    async def one() -> None:
        done.append(await migrate_at(empty.dsn, known=known))

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(one)

    assert [step.name for one in done for step in one.applied] == ["schema.sql"]
    await check_at(empty.dsn, known=known)


@pytest.mark.case("F85")
async def test_ten_at_once_upgrade_once(db: ClonedDatabase, sql: Connection) -> None:
    known = with_steps(SECOND, THIRD)
    done: list[Migrated] = []

    async def one() -> None:
        done.append(await migrate_at(db.dsn, known=known))

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(one)

    assert sorted(step.version for one in done for step in one.applied) == [2, 3]
    assert await sql.fetchval("select count(*) from wakeful.second") == 1


async def test_an_upgraded_schema_is_a_fresh_one(empty: ClonedDatabase, db: ClonedDatabase) -> None:
    known = with_steps(SECOND, THIRD)
    await migrate_at(
        empty.dsn, known=replace(known, schema=known.schema.replace("values (1, 1)", "values (3, 3)"))
    )
    await migrate_at(db.dsn, known=known)
    fresh, upgraded = await empty.connect(), await db.connect()

    assert await catalogue(upgraded) == await catalogue(fresh)
    noted = "select version, name from wakeful.migration where version > 1 order by version"
    assert await upgraded.fetch(noted) == await fresh.fetch(noted)


@pytest.mark.case("F85")
async def test_a_migration_that_was_killed_in_the_middle_leaves_nothing(empty: ClonedDatabase) -> None:
    holder, observer = await empty.connect(), await empty.connect()
    await observer.execute(
        """create function public.wait_here() returns event_trigger language plpgsql as
               $$ begin perform pg_advisory_xact_lock(4711); end $$;
           create event trigger wait_here on ddl_command_end when tag in ('CREATE VIEW')
               execute function public.wait_here()"""
    )
    await holder.execute("select pg_advisory_lock(4711)")
    async with await anyio.open_process([sys.executable, str(CHILD), empty.dsn], stderr=None) as child:
        pid = await eventually(lambda: _migrating(observer, waits=True))
        child.kill()
        await child.wait()
    await holder.execute("select pg_advisory_unlock(4711)")
    await eventually(lambda: _is_gone(observer, pid))

    assert await observer.fetchval("select to_regnamespace('wakeful') is null")
    await observer.execute("drop event trigger wait_here")
    assert len((await migrate_at(empty.dsn)).applied) == 1


async def _migrating(observer: Connection, *, waits: bool) -> int | None:
    pid: int | None = await observer.fetchval(
        """select pid from pg_stat_activity
           where application_name = 'wakeful migrate' and datname = current_database()
             and (wait_event = 'advisory') is not distinct from $1""",
        waits,
    )
    return pid


async def _is_gone(observer: Connection, pid: int | None) -> bool:
    return not await observer.fetchval("select exists (select from pg_stat_activity where pid = $1)", pid)


async def test_it_works_where_a_pooler_stands_between(empty: ClonedDatabase) -> None:
    async with deaf_pooler(empty.cluster.socket, empty.name) as dsn:
        assert len((await migrate_at(dsn)).applied) == 1
        await check_at(dsn)
    connection = await empty.connect()

    assert await connection.fetchval("select count(*) from pg_locks where locktype = 'advisory'") == 0


async def test_a_step_that_fails_leaves_the_schema_as_it_was(db: ClonedDatabase, sql: Connection) -> None:
    broken = migration_of("0003_broken.sql", "create table wakeful.half (n integer);\nselect 1 / 0;")
    with pytest.raises(WakefulError, match="division by zero"):
        await migrate_at(db.dsn, known=with_steps(SECOND, broken))

    assert await sql.fetchval("select schema_version from wakeful.installation") == 2
    assert await sql.fetchval("select to_regclass('wakeful.half') is null")


@pytest.mark.case("F85")
async def test_a_breaking_step_shuts_older_daemons_out(db: ClonedDatabase) -> None:
    await migrate_at(db.dsn, known=with_steps(SECOND))
    await check_at(db.dsn)  # version 2 does not concern a daemon that knows version 1 only

    await migrate_at(db.dsn, known=with_steps(SECOND, THIRD))
    with pytest.raises(SchemaMismatch, match="newer version of Wakeful"):
        await check_at(db.dsn)
    with pytest.raises(SchemaMismatch, match="newer version of Wakeful"):
        await migrate_at(db.dsn)


async def test_a_daemon_refuses_what_is_missing_or_older(empty: ClonedDatabase, db: ClonedDatabase) -> None:
    with pytest.raises(SchemaMismatch, match=r"not installed .* run `wakeful migrate`"):
        await check_at(empty.dsn)
    with pytest.raises(SchemaMismatch, match=r"version 1, .* needs 2; run `wakeful migrate`"):
        await check_at(db.dsn, known=with_steps(SECOND))


async def test_a_step_that_was_changed_after_its_release_is_refused(db: ClonedDatabase) -> None:
    await migrate_at(db.dsn, known=with_steps(SECOND))
    changed = replace(SECOND, text=SECOND.text + "\n-- a word more")

    with pytest.raises(SchemaMismatch, match=r"0002_first_note\.sql was changed"):
        await migrate_at(db.dsn, known=with_steps(changed))


def test_a_file_without_a_number_is_no_step() -> None:
    with pytest.raises(WakefulError, match="no number"):
        migration_of("first.sql", "")
    with pytest.raises(WakefulError, match="no number above 1"):
        migration_of("0001_again.sql", "")


async def test_a_foreign_schema_of_our_name_is_left_alone(empty: ClonedDatabase) -> None:
    await execute(empty.dsn, "create schema wakeful; create table wakeful.theirs (n integer)")

    with pytest.raises(SchemaMismatch, match="that Wakeful did not make"):
        await migrate_at(empty.dsn)


async def test_the_text_for_an_administrator_does_the_same(empty: ClonedDatabase, sql: Connection) -> None:
    await execute(empty.dsn, script(await pending(DatabaseSettings(dsn=empty.dsn))))
    connection = await empty.connect()

    assert await catalogue(connection) == await catalogue(sql)
    assert (await migrate_at(empty.dsn)).applied == ()
    noted = await connection.fetch("select version, name, checksum from wakeful.migration")
    assert [tuple(row) for row in noted] == versions_noted()


def versions_noted() -> list[tuple[int, str, str]]:
    known = versions()
    return [note[:3] for note in known.notes_of(known.install())]


OWNER = "o'w\"ner"
DATABASE = 'Mein "Laden"; --'


@asynccontextmanager
async def owned_database(cluster: Cluster) -> AsyncIterator[str]:
    """A database, and the role that owns it and may not make roles, with names to quote; gives the role's DSN."""
    quoted_owner, quoted_database = OWNER.replace('"', '""'), DATABASE.replace('"', '""')
    await execute(cluster.dsn(), f'create role "{quoted_owner}" login nosuperuser nocreaterole')
    await execute(cluster.dsn(), f'create database "{quoted_database}" owner "{quoted_owner}"')
    folder = quote(str(cluster.server.socket_folder), safe="/")
    yield f"postgresql://{quote(OWNER, safe='')}@/{quote(DATABASE, safe='')}?host={folder}&port=5432"


async def test_an_owner_who_may_not_make_roles_says_what_an_administrator_runs(own_cluster: Cluster) -> None:
    async with owned_database(own_cluster) as dsn:
        done = await migrate_at(dsn)
        assert done.for_administrator == (
            "create role wakeful_producer nologin;",
            "create role wakeful_worker nologin;",
            "create role wakeful_observer nologin;",
        )
        await check_at(dsn)

        await execute(own_cluster.dsn(), "\n".join(done.for_administrator))
        assert await migrate_at(dsn) == Migrated(applied=(), for_administrator=())
        await execute(own_cluster.dsn(), "create role producer login in role wakeful_producer")
        await execute(dsn.replace(quote(OWNER, safe=""), "producer"), "select wakeful.enqueue('COLLECT')")


async def test_a_role_that_may_not_create_a_schema_hears_what_helps(own_cluster: Cluster) -> None:
    await execute(own_cluster.dsn(), "create role guest login")
    async with owned_database(own_cluster) as dsn:
        with pytest.raises(SchemaMismatch, match=r"grant create on database .*wakeful migrate --sql"):
            await migrate_at(dsn.replace(quote(OWNER, safe=""), "guest"))


async def test_a_role_that_does_not_own_the_schema_may_not_upgrade_it(
    db: ClonedDatabase, sql: Connection
) -> None:
    await sql.execute("create role worker_of_migrate_test login in role wakeful_worker")
    try:
        await check_at(db.dsn_as("worker_of_migrate_test"))
        assert (await migrate_at(db.dsn_as("worker_of_migrate_test"))).applied == ()
        with pytest.raises(SchemaMismatch, match="as the owner of the schema"):
            await migrate_at(db.dsn_as("worker_of_migrate_test"), known=with_steps(SECOND))
    finally:
        await sql.execute("drop role worker_of_migrate_test")
