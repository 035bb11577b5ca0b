"""Three roles: a producer calls its functions and reads nothing, an observer looks, a worker works."""

from __future__ import annotations

import json
from typing import Literal

import pytest

from support.databases import ClonedDatabase, Connection
from support.factories import declare, enqueue, finish, job_in
from support.refusals import refused

Role = Literal["producer", "observer", "worker", "nobody"]
# Whoever is not named here is refused, so that a new function or table is until somebody decides.
MAY_CALL = {
    "wakeful_producer": {"enqueue", "enqueue_many", "cancel", "job", "find_active", "backlog", "alert"},
    "wakeful_observer": {"job", "find_active", "backlog", "redacted"},
    "public": set[str](),
}
NOT_FOR_WORKERS = {"grant_roles", "adopt"}
# A table or a function that is made of one of Wakeful's types or tables would stand in the way of a migration.
# (A view may be made over a table that its author can't read; only who may create something somewhere can make it.)
TIES = [
    "create table {mine}.tied (held wakeful.ready)",
    "create temp table tied (held wakeful.jobs)",
    "create table {mine}.tied (held wakeful.fault[])",
    "create domain {mine}.tied as wakeful.departure",
    "create function {mine}.tied(wakeful.batch_item) returns void language sql as ''",
    "create function {mine}.tied() returns setof wakeful.finished language sql as 'select null'",
    "create table {mine}.tied (like wakeful.ready)",
    "create table {mine}.tied () inherits (wakeful.ready)",
    "create table {mine}.tied (job_id uuid references wakeful.dead)",
    "create trigger tied before insert on wakeful.ready execute function suppress_redundant_updates_trigger()",
    "create function wakeful.tied() returns void language sql as ''",
    "create or replace function wakeful.backlog(queue text default null) returns bigint language sql as 'select 0'",
    "alter function wakeful.backlog(text) security invoker",
    "begin; lock table wakeful.ready",
]
ZERO = "00000000-0000-0000-0000-000000000000"

# Every public function, and who may call it.
CALLS = {
    "select * from wakeful.enqueue('T')": "producer worker",
    "select * from wakeful.enqueue_many('[]')": "producer worker",
    "select wakeful.find_active('k')": "producer worker observer",
    f"select * from wakeful.job('{ZERO}')": "producer worker observer",
    "select wakeful.backlog()": "producer worker observer",
    "select wakeful.alert('k')": "producer worker",
    "select wakeful.cancel(job_id) from wakeful.enqueue('T')": "producer worker",
    "select wakeful.requeue(job_id) from wakeful.enqueue('T')": "worker",
    "select wakeful.pause('q')": "worker",
    "select wakeful.resume('q')": "worker",
    "select * from wakeful.expire_finished('7 days')": "worker",
    "select wakeful.raise_position()": "worker",
    "select wakeful.expire_audit('90 days', 1)": "worker",
    "select wakeful.adopt('1')": "",
    "select wakeful.grant_roles()": "",
}
# What none but a worker may reach past the public functions.
INSIDE = [
    "select * from wakeful.depart('{}')",
    "select wakeful.noted('pause', 'q')",
    "select wakeful.option_fault('T', '{}', null, null, null, null, null, null, null, null, null, null, null, 1)",
    "select wakeful.batch_items('[]')",
    "select wakeful.notify_lanes('{1}')",
]
SHOWN = """
    jobs queue lane job_type instance duty alert alert_outbox alert_delivery alert_notice alert_sink alert_mute audit
    job_log progress installation migration
"""
HIDDEN = """
    ready scheduled dead finished finished_0 dedupe lane_seen job_type_declaration
"""


@pytest.mark.parametrize("role", ["producer", "observer", "worker", "nobody"])
@pytest.mark.parametrize(("call", "allowed"), CALLS.items())
async def test_each_role_calls_its_own_functions_and_no_others(
    db: ClonedDatabase, role: Role, call: str, allowed: str
) -> None:
    connection = await as_role(db, role)

    if role in allowed.split():
        await connection.fetch(call)
    else:
        with refused("42501", "permission denied"):
            await connection.fetch(call)


@pytest.mark.parametrize("role", MAY_CALL)
async def test_every_function_is_refused_that_is_not_on_the_list(sql: Connection, role: str) -> None:
    assert await callable_by(sql, role) == MAY_CALL[role]


async def test_a_worker_calls_all_but_what_is_the_owners(sql: Connection) -> None:
    every = await callable_by(sql, "postgres")

    assert len(every) > 30
    assert await callable_by(sql, "wakeful_worker") == every - NOT_FOR_WORKERS


async def test_what_a_migration_adds_is_nobodys(sql: Connection) -> None:
    """PostgreSQL lets everybody call a new function; each migration ends with grant_roles()."""
    await sql.execute(
        """create function wakeful.added() returns int language sql as 'select 1';
           create procedure wakeful.added_too() language sql as '';
           create type wakeful.added_type as (a int);
           create sequence wakeful.added_sequence;
           create table wakeful.added_table (a int)"""
    )
    await sql.execute("select wakeful.grant_roles()")

    for role, names in MAY_CALL.items():
        assert await callable_by(sql, role) == names
        assert await readable_by(sql, role) == (set(SHOWN.split()) if role == "wakeful_observer" else set())


@pytest.mark.parametrize("role", ["wakeful_producer", "wakeful_observer", "wakeful_worker", "public"])
async def test_the_catalogue_gives_nobody_more_than_reading(sql: Connection, role: str) -> None:
    written = """select c.relname || ': ' || p.kind as given
                 from pg_class c
                 cross join unnest('{insert,update,references,delete,truncate,trigger}'::text[])
                            with ordinality as p (kind, n)
                 where c.relnamespace = 'wakeful'::regnamespace and c.relkind in ('r', 'p', 'v')
                   and (has_table_privilege($1, c.oid, p.kind)
                        or p.n <= 3 and has_any_column_privilege($1, c.oid, p.kind))"""
    types = """select typname from pg_type
               where typnamespace = 'wakeful'::regnamespace and has_type_privilege($1, oid, 'usage')"""
    given = {row["given"] for row in await sql.fetch(written, role)}

    if role == "wakeful_worker":
        assert {one.split(": ")[1] for one in given} == {"insert", "update", "delete"}
    else:
        assert given == set()
    assert await readable_by(sql, role) >= (set(SHOWN.split()) if role == "wakeful_observer" else set())
    assert await sql.fetch(types, role) == []
    assert not await sql.fetchval("select has_schema_privilege($1, 'wakeful', 'create')", role)
    assert await sql.fetchval("select has_schema_privilege($1, 'wakeful', 'usage')", role) == (
        role != "public"
    )


@pytest.mark.parametrize("role", ["producer", "observer", "worker"])
async def test_no_role_owns_anything_or_has_an_attribute(sql: Connection, role: str) -> None:
    owned = """select classid::regclass::text, objid from pg_shdepend
               where refobjid = $1::regrole and deptype = 'o'"""
    attributes = (
        "select rolcanlogin or rolsuper or rolcreaterole or rolcreatedb or rolbypassrls or rolreplication"
    )

    assert await sql.fetch(owned, f"wakeful_{role}") == []
    assert not await sql.fetchval(f"{attributes} from pg_roles where rolname = $1", f"wakeful_{role}")


@pytest.mark.parametrize("role", ["producer", "worker", "nobody"])
@pytest.mark.parametrize("statement", TIES)
async def test_nothing_of_ones_own_can_be_tied_to_wakefuls(
    db: ClonedDatabase, sql: Connection, role: Role, statement: str
) -> None:
    tier = await as_role(db, role)
    await sql.execute(f"create schema mine authorization {login_of(db, role)}")
    if role == "worker" and statement.startswith(("begin; lock", "create table {mine}.tied (like")):
        return  # it may write, and a copy of the columns is tied to nothing

    with refused("42501"):
        await tier.execute(statement.format(mine="mine"))


@pytest.mark.parametrize("role", ["producer", "observer", "nobody"])
@pytest.mark.parametrize("call", INSIDE)
async def test_what_is_inside_is_for_workers_alone(db: ClonedDatabase, role: Role, call: str) -> None:
    with refused("42501", "permission denied"):
        await (await as_role(db, role)).fetch(call)


@pytest.mark.parametrize("table", f"{SHOWN} {HIDDEN}".split())
async def test_only_observers_and_workers_read_and_only_what_is_shown(db: ClonedDatabase, table: str) -> None:
    for role in ("producer", "nobody"):
        with refused("42501", "permission denied"):
            await (await as_role(db, role)).fetch(f"select * from wakeful.{table}")
    await (await as_role(db, "worker")).fetch(f"select * from wakeful.{table}")
    observer = await as_role(db, "observer")
    if table in SHOWN.split():
        await observer.fetch(f"select * from wakeful.{table}")
    else:
        with refused("42501", "permission denied"):
            await observer.fetch(f"select * from wakeful.{table}")


@pytest.mark.parametrize("role", ["producer", "observer", "nobody"])
@pytest.mark.parametrize(
    "statement", ["insert into {} default values", "delete from {}", "truncate {}", "drop table {}"]
)
@pytest.mark.parametrize("table", ["ready", "dead", "finished", "audit", "installation", "alert_outbox"])
async def test_none_but_workers_write(db: ClonedDatabase, role: Role, statement: str, table: str) -> None:
    with refused("42501"):
        await (await as_role(db, role)).execute(statement.format(f"wakeful.{table}"))


@pytest.mark.parametrize(
    "statement",
    [
        "update wakeful.installation set payload_limit = 1",
        "delete from wakeful.migration",
        "update wakeful.audit set actor = 'somebody else'",
        "delete from wakeful.audit",
        "truncate wakeful.finished",
        "create table wakeful.mine ()",
        "select setval('wakeful.position', 1)",
    ],
)
async def test_a_worker_cannot_rewrite_the_past_or_the_schema(db: ClonedDatabase, statement: str) -> None:
    with refused("42501"):
        await (await as_role(db, "worker")).execute(statement)


async def test_a_producer_reads_no_payload_not_even_its_own(db: ClonedDatabase, sql: Connection) -> None:
    producer = await as_role(db, "producer")
    made = await enqueue(producer, payload={"token": "s3cret"}, dedupe_key="k")

    seen = [
        *await producer.fetch("select * from wakeful.job($1)", made.job_id),
        *await producer.fetch("select * from wakeful.enqueue('T', dedupe_key => 'k')"),
    ]

    assert seen
    assert "s3cret" not in str(seen)


async def test_an_observer_sees_payloads_without_their_secrets(db: ClonedDatabase, sql: Connection) -> None:
    await declare(sql, "COLLECT", secret_paths=["token"])
    await job_in(sql, "DEAD", payload={"token": "s3cret", "a": 1})
    observer = await as_role(db, "observer")

    assert await observer.fetchval("select payload from wakeful.jobs") == '{"a": 1, "token": "[secret]"}'
    assert (
        await observer.fetchval("select payload from wakeful.jobs where payload ->> 'token' = 's3cret'")
        is None
    )


@pytest.mark.parametrize("role", ["producer", "observer", "worker"])
async def test_a_result_that_echoes_its_payload_shows_no_secret(
    db: ClonedDatabase, sql: Connection, role: Role
) -> None:
    await declare(sql, "COLLECT", secret_paths=["card.token"])
    job_id = await job_in(sql, "RUNNING")
    await finish(sql, job_id, result={"card": {"token": "s3cret", "kind": "gift"}, "n": 1})
    looker = await as_role(db, role)

    seen = await looker.fetchval("select result from wakeful.job($1)", job_id)

    assert json.loads(seen) == {"card": {"token": "[secret]", "kind": "gift"}, "n": 1}
    if role != "producer":
        assert await looker.fetchval("select result from wakeful.jobs where job_id = $1", job_id) == seen


async def test_an_observer_cannot_look_behind_the_view_with_a_function_of_its_own(
    db: ClonedDatabase, sql: Connection
) -> None:
    """A cheap leaky function must not be run on a row's secret before the view hides it."""
    await declare(sql, "COLLECT", secret_paths=["token"])
    await job_in(sql, "READY", payload={"token": "s3cret"})
    observer = await as_role(db, "observer")
    heard: list[str] = []
    observer.add_log_listener(lambda _, message: heard.append(str(message)))

    await observer.execute(
        """create function pg_temp.leak(payload jsonb) returns boolean language plpgsql cost 0.0001 as $$
           begin raise notice 'saw %', payload; return true; end $$"""
    )
    await observer.fetch("select job_id from wakeful.jobs where pg_temp.leak(payload)")

    assert heard
    assert "s3cret" not in "".join(heard)


async def test_the_audit_names_the_person_not_the_owner_of_the_function(
    db: ClonedDatabase, sql: Connection
) -> None:
    producer = await as_role(db, "producer")
    made = await enqueue(producer)

    await producer.fetchval("select wakeful.cancel($1)", made.job_id)

    assert await sql.fetchval("select actor from wakeful.audit") == login_of(db, "producer")


async def test_set_role_is_enough(sql: Connection) -> None:
    await sql.execute("set role wakeful_producer")

    assert (await enqueue(sql)).created
    with refused("42501", "permission denied"):
        await sql.fetch("select * from wakeful.jobs")


async def test_to_grant_again_changes_nothing(sql: Connection) -> None:
    grants = """select relname as name, relacl::text as acl from pg_class where relnamespace = 'wakeful'::regnamespace
                union all
                select oid::regprocedure::text, proacl::text from pg_proc where pronamespace = 'wakeful'::regnamespace
                order by 1"""
    before = await sql.fetch(grants)

    assert await sql.fetchval("select wakeful.grant_roles()") == []

    assert await sql.fetch(grants) == before


async def callable_by(sql: Connection, role: str) -> set[str]:
    """Names of the functions in Wakeful's schema that a role may call, whatever way the right reached it."""
    called = """select proname from pg_proc
                where pronamespace = 'wakeful'::regnamespace and has_function_privilege($1, oid, 'execute')"""
    return {row["proname"] for row in await sql.fetch(called, role)}


async def readable_by(sql: Connection, role: str) -> set[str]:
    """Names of the tables, views and sequences there that a role may read, be it one column of them."""
    read = """select relname from pg_class
              where relnamespace = 'wakeful'::regnamespace and case
                  when relkind in ('r', 'p', 'v', 'm', 'f') then
                      has_table_privilege($1, oid, 'select') or has_any_column_privilege($1, oid, 'select')
                  when relkind = 'S' then has_sequence_privilege($1, oid, 'usage, select, update')
                  else false end"""
    return {row["relname"] for row in await sql.fetch(read, role)}


async def as_role(db: ClonedDatabase, role: Role) -> Connection:
    """Log in as somebody who has this role and no other right."""
    login = login_of(db, role)
    owner = await db.connect()
    if not await owner.fetchval("select exists (select from pg_roles where rolname = $1)", login):
        await owner.execute(f"create role {login} login")
        if role != "nobody":
            await owner.execute(f"grant wakeful_{role} to {login}")
    return await db.connect(role=login)


def login_of(db: ClonedDatabase, role: Role) -> str:
    return f"{role}_of_{db.name}"
