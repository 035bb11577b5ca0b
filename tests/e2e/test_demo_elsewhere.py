"""`wakeful demo --database`: only queue `demo` of somebody's database, politely, and nothing of theirs is touched."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from support.cluster import Cluster, execute
from support.databases import ClonedDatabase, Connection
from support.demos import processes_of, run_demo

PASSWORD = "correct-horse"


@pytest.fixture
async def empty(cluster: Cluster) -> AsyncIterator[str]:
    """The DSN of a database without the schema."""
    name = f"empty_{secrets.token_hex(4)}"
    await execute(cluster.dsn(), f"create database {name}")
    yield cluster.dsn(name)
    await execute(cluster.dsn(), f"drop database {name} with (force)")


def with_password(dsn: str) -> str:
    """The same DSN with a password, which nobody asks for."""
    parts = urlsplit(dsn)
    user = parts.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{user}:{PASSWORD}@"))


async def test_in_an_empty_database_it_installs_the_schema_and_uses_queue_demo(
    empty: str, tmp_path: Path
) -> None:
    ended = run_demo("--once", "--json", "--database", with_password(empty), data=tmp_path / "data")
    assert ended.code == 0, ended.out + ended.err
    order = [line["event"] for line in ended.told]
    assert order.index("schema.installing") < order.index("schema.installed") < order.index("demo.ready")
    assert len(ended.events("pipeline.ended", status="DONE")) == 4
    assert ended.events("alert.told", job_type="AI_CHECK")
    connection = await asyncpg.connect(empty)
    queues = await connection.fetchval("select array_agg(distinct queue) from wakeful.jobs")
    await connection.close()
    assert queues == ["demo"]
    assert PASSWORD not in ended.out + ended.err
    assert PASSWORD not in (tmp_path / "data" / "daemon.log").read_text()
    assert not (tmp_path / "data" / "cluster").exists()
    assert processes_of(tmp_path / "data") == []


async def test_beside_others_it_is_a_guest(db: ClonedDatabase, sql: Connection, tmp_path: Path) -> None:
    theirs = await sql.fetch(
        "select job_id from wakeful.enqueue_many("
        """'[{"job_type": "COLLECT", "payload": {"place_id": "theirs", "url": "http://corner-bakery.test/"}},"""
        """  {"job_type": "NOBODY_SERVES_THIS", "payload": {}}]')"""
    )
    await sql.execute("select wakeful.alert('theirs', 'An alert of theirs', 'theirs:1')")
    ended = run_demo("--once", "--json", "--database", db.dsn, data=tmp_path / "data")
    assert ended.code == 0, ended.out + ended.err
    assert len(ended.events("pipeline.ended", status="DONE")) == 4
    untouched = await sql.fetch(
        "select status, attempts, run_no from wakeful.jobs where job_id = any($1)",
        [row["job_id"] for row in theirs],
    )
    assert [tuple(row) for row in untouched] == [("PENDING", 0, 0)] * 2
    assert await sql.fetchval("select array_agg(alert_id) from wakeful.alert_outbox") == [None]
    assert await sql.fetchval("select count(*) from wakeful.jobs where job_type = 'AI_CHECK'") == 0
    assert await sql.fetchval("select count(*) from wakeful.instance") == 0


async def test_it_does_not_run_beside_an_instance_that_serves_its_types(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    await sql.execute(
        "insert into wakeful.instance (incarnation, name, host, pid, version, lease, serves)"
        """ values (1, 'theirs', 'elsewhere', 7, '1', '1 minute', '{"COLLECT": "hash"}')"""
    )
    ended = run_demo("--once", "--database", db.dsn, data=tmp_path / "data")
    assert ended.code == 1
    assert "the instance theirs (process 7 on elsewhere) serves COLLECT" in ended.err
    assert await sql.fetchval("select count(*) from wakeful.jobs") == 0


async def test_a_role_that_may_not_install_the_schema_is_told_what_helps(
    empty: str, cluster: Cluster, tmp_path: Path
) -> None:
    role = f"humble_{secrets.token_hex(4)}"
    await execute(cluster.dsn(), f"create role {role} login")
    try:
        name = urlsplit(empty).path[1:]
        ended = run_demo("--once", "--database", cluster.dsn(name, role=role), data=tmp_path / "data")
    finally:
        await execute(cluster.dsn(), f"drop role {role}")
    assert ended.code == 78
    assert f"the role {role} may not create a schema" in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / "data" / "owner").exists()


def test_a_server_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    dsn = f"postgresql://demo:{PASSWORD}@127.0.0.1:1/nothing"
    ended = run_demo("--once", "--database", dsn, data=tmp_path / "data")
    assert ended.code == 1
    assert "Connect" in ended.err or "connect" in ended.err
    assert PASSWORD not in ended.out + ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--site", "not a site"), 2, "--site"),
        (("--database", "mysql://db"), 78, "database.dsn"),
        (("--every", "1ms"), 2, "less than 0.5 s"),
    ],
)
def test_a_mistake_is_said_before_anything_starts(
    tmp_path: Path, arguments: tuple[str, str], code: int, said: str
) -> None:
    ended = run_demo("--once", *arguments, data=tmp_path / "data")
    assert (ended.code, said in ended.err) == (code, True)
    assert not (tmp_path / "data").exists()


def test_a_mistake_in_the_examples_variables_is_said_before_anything_starts(tmp_path: Path) -> None:
    given = {"ONBOARDING_LLM_URL": "ftp://model", "ONBOARDING_TYPO": "1"}
    ended = run_demo("--once", data=tmp_path / "data", environ=given)
    assert ended.code == 78
    assert "ONBOARDING_LLM_URL" in ended.err
    assert "ONBOARDING_TYPO" in ended.err
    assert not (tmp_path / "data").exists()


def test_without_a_library_of_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "PIL").mkdir()
    missing = "raise ModuleNotFoundError(\"No module named 'PIL'\", name='PIL')"
    (tmp_path / "PIL" / "__init__.py").write_text(missing)
    ended = run_demo("--once", data=tmp_path / "data", environ={"PYTHONPATH": str(tmp_path)})
    assert ended.code == 1
    assert ended.err.splitlines() == [
        "wakeful: the demo needs a library that is not installed: PIL",
        '  hint: pip install "wakeful[demo]"',
    ]
    assert not (tmp_path / "data").exists()
