"""Installing: by an owner who may do little, beside other people's schemas, under any name, all or nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import asyncpg
import pytest

from support.cluster import SCHEMA, Cluster, execute
from support.databases import ClonedDatabase, Connection
from support.eventually import blocked
from support.factories import enqueue
from support.refusals import refused

INSTALL = SCHEMA.read_text()
ROLES = ["wakeful_producer", "wakeful_worker", "wakeful_observer"]


class Bare:
    """A server on which nothing of Wakeful's was ever installed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._opened: list[Connection] = []

    async def connect(self, database: str = "postgres", role: str = "postgres") -> Connection:
        connection = await asyncpg.connect(self._cluster.dsn(database, role=role))
        self._opened.append(connection)
        return connection

    async def run(self, script: str) -> None:
        await execute(self._cluster.dsn(), script)

    def close(self) -> None:
        for connection in self._opened:
            connection.terminate()


@pytest.fixture
async def bare(own_cluster: Cluster) -> AsyncIterator[Bare]:
    bare = Bare(own_cluster)
    yield bare
    bare.close()


async def test_an_owner_who_may_make_no_roles_is_given_the_statements_for_an_administrator(
    bare: Bare,
) -> None:
    await bare.run("create role app login nosuperuser nocreatedb nocreaterole")
    await bare.run("create database shop owner app")
    owner = await bare.connect("shop", "app")
    await install(owner)

    statements = await owner.fetchval("select wakeful.grant_roles()")

    assert statements == [f"create role {role} nologin;" for role in ROLES]
    assert (await enqueue(owner)).created
    for statement in statements:
        await bare.run(statement)
    assert await owner.fetchval("select wakeful.grant_roles()") == []
    await bare.run("create role producer login in role wakeful_producer")
    producer = await bare.connect("shop", "producer")
    assert (await enqueue(producer)).created
    with refused("42501", "permission denied"):
        await producer.fetch("select * from wakeful.jobs")


async def test_an_owner_who_may_make_roles_makes_them(bare: Bare) -> None:
    await bare.run("create role app login createrole")
    await bare.run("create database shop owner app")
    owner = await bare.connect("shop", "app")
    await install(owner)

    assert await owner.fetchval("select wakeful.grant_roles()") == []

    found = await owner.fetch(
        "select rolname, rolcanlogin from pg_roles where rolname like 'wakeful%' order by 1"
    )
    assert [tuple(row) for row in found] == [(role, False) for role in sorted(ROLES)]


async def test_two_databases_that_make_the_roles_at_once_both_succeed(bare: Bare) -> None:
    await bare.run("create database one")
    await bare.run("create database two")
    one, two, observer = await bare.connect("one"), await bare.connect("two"), await bare.connect()
    await install(one)
    await install(two)
    gate = one.transaction()
    await gate.start()
    await one.fetchval("select wakeful.grant_roles()")
    answers: list[list[str]] = []

    async def grant() -> None:
        answers.append(await two.fetchval("select wakeful.grant_roles()"))

    async with anyio.create_task_group() as group:
        group.start_soon(grant)
        await blocked(observer, two)
        await gate.commit()

    assert answers == [[]]
    assert await two.fetchval(
        "select has_function_privilege('wakeful_producer', 'wakeful.backlog(text)', 'execute')"
    )


async def test_names_that_need_quotes_are_no_trouble(bare: Bare) -> None:
    await bare.run('create role "O\'Brien ""the owner""" login')
    await bare.run('create database "shop \'of\' ""ours""; --" owner "O\'Brien ""the owner"""')
    owner = await bare.connect("shop 'of' \"ours\"; --", 'O\'Brien "the owner"')
    await install(owner)

    await owner.fetchval("select wakeful.grant_roles()")
    made = await enqueue(owner, 'type "x"', queue="it's; --", dedupe_key='"')
    await owner.fetchval("select wakeful.pause('it''s; --')")
    await owner.fetchval("select wakeful.cancel($1)", made.job_id)

    assert await owner.fetchval("select distinct actor from wakeful.audit") == 'O\'Brien "the owner"'


async def test_other_peoples_schemas_with_the_same_names_are_left_alone(sql: Connection) -> None:
    await sql.execute("drop schema wakeful cascade")
    await sql.execute(
        """create schema shop;
           create table shop.jobs (id int); create table public.ready (id int); create table public.queue (id int);
           create function public.enqueue(text) returns int language sql as 'select 1';
           create type public.fault as (a int); create view public.jobs as select 1 as one;
           set search_path = shop, public"""
    )
    theirs = """select c.oid::regclass::text, c.relkind::text, c.relacl::text from pg_class c
                where c.relnamespace::regnamespace::text in ('shop', 'public') order by 1"""
    before = await sql.fetch(theirs)

    await install(sql)
    await enqueue(sql)

    assert await sql.fetch(theirs) == before
    assert await sql.fetchval("select count(*) from wakeful.jobs") == 1
    assert await sql.fetchval("select count(*) from public.ready") == 0


async def test_an_installation_that_fails_leaves_nothing(sql: Connection) -> None:
    await sql.execute("drop schema wakeful cascade")

    with pytest.raises(asyncpg.DivisionByZeroError):
        await sql.execute(f"begin;\n{INSTALL}\nselect 1 / 0; commit")
    await sql.execute("rollback")

    assert await sql.fetchval("select to_regnamespace('wakeful')") is None


async def test_a_second_installation_is_refused_and_changes_nothing(sql: Connection) -> None:
    await enqueue(sql)

    with refused("42P06", "already exists"):
        await install(sql)

    assert await sql.fetchval("select count(*) from wakeful.jobs") == 1


async def test_everything_lies_in_its_own_schema_and_goes_with_it(sql: Connection) -> None:
    await sql.execute("drop schema wakeful cascade")
    outside = """select count(*) from (
                     select oid from pg_class union all select oid from pg_proc union all select oid from pg_type
                     union all select oid from pg_extension union all select oid from pg_trigger
                     union all select oid from pg_event_trigger) as every"""
    before = await sql.fetchval(outside)

    await install(sql)
    await sql.execute("drop schema wakeful cascade")

    assert await sql.fetchval(outside) == before


async def test_no_extension_is_needed(db: ClonedDatabase, sql: Connection) -> None:
    await sql.execute("drop schema wakeful cascade; drop extension if exists pg_stat_statements")
    await install(sql)

    await enqueue(sql)

    extensions = await sql.fetch("select extname from pg_extension")
    assert [row[0] for row in extensions] == ["plpgsql"]


async def install(connection: Connection) -> None:
    """Run schema.sql in one transaction, as `wakeful migrate` does."""
    async with connection.transaction():
        await connection.execute(INSTALL)
