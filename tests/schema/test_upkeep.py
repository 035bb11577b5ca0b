"""What only the owner of the schema may do, on behalf of daemons: positions, adoption, the audit's end."""

from __future__ import annotations

import pytest

from support.databases import Connection
from support.factories import enqueue


async def test_a_sequence_that_went_backwards_is_brought_above_every_position(sql: Connection) -> None:
    for number in range(40):
        await enqueue(sql, queue=f"q{number % 7}")
    highest = await sql.fetchval("select max(pos) from wakeful.ready")
    await sql.execute("select setval('wakeful.position', 3)")

    raised = await sql.fetchval("select wakeful.raise_position()")

    assert raised > highest
    assert await sql.fetchval("select nextval('wakeful.position')") > raised


async def test_a_sequence_that_is_right_is_left_alone(sql: Connection) -> None:
    await enqueue(sql)
    before = await sql.fetchval("select last_value from wakeful.position")

    assert await sql.fetchval("select wakeful.raise_position()") is None

    assert await sql.fetchval("select last_value from wakeful.position") == before


async def test_an_empty_table_has_no_position_to_be_above_of(sql: Connection) -> None:
    assert await sql.fetchval("select wakeful.raise_position()") is None


async def test_lanes_with_negative_and_positive_ids_are_all_looked_at(sql: Connection) -> None:
    await enqueue(sql)
    for lane in (-(2**63), -1, 0, 1, 2**63 - 1):
        await sql.execute(
            """insert into wakeful.ready
               select (jsonb_populate_record(r, jsonb_build_object(
                   'lane_id', $1::bigint, 'pos', 1000 + $1::bigint % 10, 'job_id', wakeful.uuid7()))).*
               from wakeful.ready r limit 1""",
            lane,
        )

    raised = await sql.fetchval("select wakeful.raise_position()")

    assert raised > await sql.fetchval("select max(pos) from wakeful.ready")


async def test_adopting_a_server_is_kept_and_noted(sql: Connection) -> None:
    await sql.execute("select wakeful.adopt('7123')")

    assert await sql.fetchval("select system_identifier from wakeful.installation") == "7123"
    entry = await sql.fetchrow("select action, object from wakeful.audit")
    assert entry is not None
    assert tuple(entry) == ("adopt", "7123")


async def test_a_server_without_an_identifier_can_be_adopted_too(sql: Connection) -> None:
    await sql.execute("select wakeful.adopt(null)")

    assert await sql.fetchval("select system_identifier from wakeful.installation") is None
    assert await sql.fetchval("select object from wakeful.audit") == "unknown"


async def test_the_servers_identifier_is_its_own(sql: Connection) -> None:
    known = await sql.fetchval("select system_identifier::text from pg_control_system()")

    assert await sql.fetchval("select wakeful.system_identifier()") == known


@pytest.mark.parametrize("age", ["0", "-1 day", "90 days"])
async def test_no_entry_of_the_audit_goes_before_ninety_days(sql: Connection, age: str) -> None:
    for old in ("91 days", "89 days", "0"):
        await sql.execute(
            f"insert into wakeful.audit (happened_at, action, object) values (now() - interval '{old}', 'pause', 'q')"
        )

    assert await sql.fetchval(f"select wakeful.expire_audit('{age}', 100)") == 1

    assert await sql.fetchval("select count(*) from wakeful.audit") == 2


async def test_an_installation_is_one_row(sql: Connection) -> None:
    row = await sql.fetchrow(
        "select only_one, schema_version, breaking_version, payload_limit from wakeful.installation"
    )

    assert row is not None
    assert tuple(row) == (True, 1, 1, 1_048_576)
