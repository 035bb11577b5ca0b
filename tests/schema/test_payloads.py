"""What a payload may hold: what was given comes out again, or is refused; nothing is changed silently."""

from __future__ import annotations

import json

import pytest

from support.databases import Connection
from support.factories import enqueue
from support.payloads import KEPT, NO_JSON
from support.refusals import refused

LIMIT = 1_048_576
OVERHEAD = len('{"x": ""}')


@pytest.mark.case("F52")
@pytest.mark.parametrize(("given", "kept"), KEPT)
async def test_a_payload_comes_out_as_it_was_given(sql: Connection, given: str, kept: str) -> None:
    one = await enqueue(sql, payload=given)
    many = await sql.fetchval(
        """select job_id from wakeful.enqueue_many(jsonb_build_array(
               jsonb_build_object('job_type', 'COLLECT', 'payload', $1::jsonb)))""",
        given,
    )

    for job_id in (one.job_id, many):
        assert await sql.fetchval("select payload::text from wakeful.jobs where job_id = $1", job_id) == kept


@pytest.mark.case("F52")
@pytest.mark.parametrize(
    ("given", "sqlstate", "message"),
    NO_JSON,
)
async def test_what_is_no_json_is_refused_by_postgresql_itself(
    sql: Connection, given: str, sqlstate: str, message: str
) -> None:
    with refused(sqlstate, message):
        await enqueue(sql, payload=given)


async def test_a_raw_nul_never_reaches_the_function(sql: Connection) -> None:
    with refused("22021", "invalid byte sequence"):
        await sql.fetchval("select $1::text", "\0")


@pytest.mark.parametrize("over", [-1, 0])
async def test_a_payload_up_to_the_limit_is_taken(sql: Connection, over: int) -> None:
    payload = json.dumps({"x": "x" * (LIMIT - OVERHEAD + over)})

    assert (await enqueue(sql, payload=payload)).created


async def test_a_payload_over_the_limit_is_refused_with_both_sizes(sql: Connection) -> None:
    payload = json.dumps({"x": "x" * (LIMIT - OVERHEAD + 1)})

    with refused("WK003", f"payload is {LIMIT + 1} bytes of JSON; the limit is {LIMIT}", hint="reference"):
        await enqueue(sql, payload=payload)


async def test_the_limit_counts_bytes_not_characters(sql: Connection) -> None:
    await sql.execute("update wakeful.installation set payload_limit = 20")

    await enqueue(sql, payload={"x": "ä" * 5})
    with refused("WK003", "payload is 21 bytes of JSON; the limit is 20"):
        await enqueue(sql, payload='{"x": "ääääää"}')


@pytest.mark.case("F04")
@pytest.mark.parametrize("size", [7_900, 8_100, 200_000, 1_000_000])
async def test_the_size_of_a_payload_has_nothing_to_do_with_the_notification(
    sql: Connection, size: int
) -> None:
    await sql.add_listener("wakeful", lambda *_: None)

    assert (await enqueue(sql, payload={"x": "x" * size})).created


@pytest.mark.case("F52")
async def test_five_megabytes_are_refused_and_leave_nothing(sql: Connection) -> None:
    with refused("WK003", "the limit is 1048576"):
        await enqueue(sql, payload={"x": "x" * 5_000_000})

    assert await sql.fetchval("select count(*) from wakeful.jobs") == 0
