"""From each release's schema, kept as a file, the migrations lead to what schema.sql installs now."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from support.catalogue import catalogue
from support.cluster import Cluster, execute
from support.databases import ClonedDatabase, Connection, cloned_database
from support.eventually import eventually
from support.factories import enqueue
from support.working import claimer_on
from wakeful.core.settings import DatabaseSettings
from wakeful.errors import StoreBusy
from wakeful.store.migrate import migrate
from wakeful.store.versions import versions
from wakeful.telemetry.bus import Telemetry

RELEASES = Path(__file__).resolve().parents[1] / "schema" / "fixtures"
NOTE = """insert into wakeful.migration (version, name, checksum)
          select schema_version, 'kept', '' from wakeful.installation"""
BLOCKED = """select exists (select from pg_stat_activity
                            where wait_event_type = 'Lock' and datname = current_database())"""


@pytest.mark.case("F85")
async def test_each_release_becomes_the_newest(cluster: Cluster) -> None:
    async with cloned_database(cluster) as fresh_database:
        fresh = await catalogue(await fresh_database.connect())
    releases = sorted(RELEASES.glob("schema-*.sql"))
    assert releases, "the schema of each release is kept"
    for release in releases:
        async with cloned_database(cluster, template="template1") as database:
            await execute(
                database.dsn,
                f"begin;\n{release.read_text()}\n{NOTE};\nselect wakeful.grant_roles();\ncommit;",
            )
            await migrate(DatabaseSettings(dsn=database.dsn), Telemetry(strict=True))
            upgraded = await catalogue(await database.connect())
        assert upgraded == fresh, f"{release.name}: schema.sql was changed without a migration"


async def test_schema_sql_says_the_version_that_it_is(cluster: Cluster) -> None:
    async with cloned_database(cluster) as database:
        connection = await database.connect()
        row = await connection.fetchrow("select schema_version, breaking_version from wakeful.installation")

    assert row is not None
    breaking = max((one.version for one in versions().steps if one.breaking), default=1)
    assert tuple(row) == (versions().newest, breaking)


@pytest.mark.case("F85")
@pytest.mark.parametrize("what", ["claim", "finish", "settle"])
async def test_a_statement_that_waited_for_a_migration_may_be_made_again(
    db: ClonedDatabase, sql: Connection, what: str
) -> None:
    migrating = await db.connect()
    async with claimer_on(db, connections=1) as claimer:
        for _ in range(8):  # until its plans are kept
            await enqueue(sql)
            await claimer.settle((await claimer.claim(1))[0], "discard")
            await enqueue(sql)
            await claimer.finish((await claimer.claim(1))[0])
        await enqueue(sql)
        claimed = await claimer.claim(1) if what != "claim" else []
        (lane,) = await sql.fetch("select lane_id from wakeful.ready")

        async def write() -> object:
            if what == "claim":
                return await claimer.claim(1, lane=lane[0])
            return await (
                claimer.finish(*claimed) if what == "finish" else claimer.settle(claimed[0], "fail")
            )

        async def write_while_it_migrates() -> None:
            with suppress(StoreBusy):
                answers.append(await write())

        answers: list[object] = []
        transaction = migrating.transaction()
        await transaction.start()
        await migrating.execute("alter table wakeful.ready add column note text")
        async with anyio.create_task_group() as group:
            group.start_soon(write_while_it_migrates)
            await eventually(lambda: sql.fetchval(BLOCKED), timeout=30)
            await transaction.commit()
        assert answers or await write()
