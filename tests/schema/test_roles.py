"""Three roles: a producer calls its functions and reads nothing, an observer looks, a worker works."""

from __future__ import annotations

from typing import Literal

import pytest

from support.databases import ClonedDatabase, Connection
from support.factories import declare, enqueue, job_in
from support.refusals import refused

Role = Literal["producer", "observer", "worker", "nobody"]
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
    jobs queue lane job_type instance duty alert alert_outbox alert_delivery audit job_log progress installation
    migration
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
