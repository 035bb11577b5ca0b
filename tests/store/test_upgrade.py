"""From each release's schema, kept as a file, the migrations lead to what schema.sql installs now."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.catalogue import catalogue
from support.cluster import Cluster, execute
from support.databases import cloned_database
from wakeful.core.settings import DatabaseSettings
from wakeful.store.migrate import migrate
from wakeful.store.versions import versions
from wakeful.telemetry.bus import Telemetry

RELEASES = Path(__file__).resolve().parents[1] / "schema" / "fixtures"
NOTE = """insert into wakeful.migration (version, name, checksum)
          select schema_version, 'kept', '' from wakeful.installation"""


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
