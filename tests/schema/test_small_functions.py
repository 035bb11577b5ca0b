"""The functions that the others stand on: ids, lanes, slots, error history, redaction, subjects."""

from __future__ import annotations

import hashlib
import json
import time
from uuid import UUID

import pytest

from support.databases import Connection


async def test_an_id_is_a_uuid_of_version_7_with_the_time_in_milliseconds(sql: Connection) -> None:
    before = time.time_ns() // 1_000_000
    made = [row[0] for row in await sql.fetch("select wakeful.uuid7() from generate_series(1, 200)")]
    after = time.time_ns() // 1_000_000

    assert {found.version for found in made} == {7}
    assert {found.variant for found in made} == {"specified in RFC 4122"}
    assert all(before <= _milliseconds(found) <= after for found in made)
    assert len(set(made)) == 200


async def test_ids_sort_by_the_time_that_they_were_made(sql: Connection) -> None:
    made = [await sql.fetchval("select wakeful.uuid7() from pg_sleep(0.002)") for _ in range(20)]

    assert made == sorted(made)


async def test_ids_of_one_batch_are_each_another_one_and_of_version_7(sql: Connection) -> None:
    jobs = json.dumps([{"job_type": "T"}] * 5000)
    before = time.time_ns() // 1_000_000
    made = [
        row[0]
        for _ in range(2)
        for row in await sql.fetch("select job_id from wakeful.enqueue_many($1)", jobs)
    ]
    after = time.time_ns() // 1_000_000

    assert {(found.version, found.variant) for found in made} == {(7, "specified in RFC 4122")}
    assert all(before <= _milliseconds(found) <= after for found in made)
    random = {found.int & (1 << 60) - 1 for found in made}
    assert len(random) == len(made)
    assert all(0.4 < sum(bits >> n & 1 for bits in random) / len(random) < 0.6 for n in range(60))


# Stored in every row of `ready`: these numbers must never change.
LANES = [
    (("default", "normal", "COLLECT", None, False), 349425236489393575),
    (("default", "normal", "COLLECT", None, True), -1090706734921007872),
    (("default", "normal", "COLLECT", "llm", False), 5749845376612078099),
    (("", "", "", "", False), -3482547964869146997),
    (("größe", "batch", 'O\'Brien "x"', "キー", True), -8889772184131534946),
]


@pytest.mark.parametrize(("parts", "number"), LANES)
async def test_a_lane_id_is_the_same_on_every_server_and_in_every_version(
    sql: Connection, parts: tuple[object, ...], number: int
) -> None:
    assert await sql.fetchval("select wakeful.lane_id($1, $2, $3, $4, $5)", *parts) == number
    assert _lane_id(*parts) == number


async def test_parts_of_a_lane_do_not_run_into_one_another(sql: Connection) -> None:
    lanes = await sql.fetch(
        """select distinct wakeful.lane_id(q, p, t, l, s)
           from (values ('a', 'b', 'c', null, false), ('ab', '', 'c', null, false), ('a', 'bc', '', null, false),
                        ('a', 'b', 'c', '', false), ('a', 'b', 'c', '-', false), ('a,1:b', '', 'c', null, false),
                        ('a', 'b', 'c', null, true), ('a', 'b', 'c', 'suspect', false)) as v (q, p, t, l, s)"""
    )

    assert len(lanes) == 8


@pytest.mark.parametrize(
    ("width", "at", "slot"),
    [
        ("12 hours", "1970-01-01 00:00+00", 0),
        ("12 hours", "1970-01-01 11:59:59.999999+00", 0),
        ("12 hours", "1970-01-01 12:00+00", 1),
        ("12 hours", "1970-01-08 23:59+00", 15),
        ("12 hours", "1970-01-09 00:00+00", 0),
        ("30 days", "1970-03-31 00:00+00", 2),
        ("0.5 seconds", "1970-01-01 00:00:01.6+00", 3),
    ],
)
async def test_a_time_falls_into_a_slot_of_the_ring(sql: Connection, width: str, at: str, slot: int) -> None:
    await sql.execute(f"update wakeful.installation set finished_slot_width = '{width}'")

    assert await sql.fetchval(f"select wakeful.finished_slot('{at}')") == slot


@pytest.mark.case("F55")
@pytest.mark.parametrize(
    ("attempts", "longest"),
    [(-1, 5), (0, 5), (1, 5), (2, 10), (3, 20), (7, 320), (8, 600), (99, 600), (2**31 - 1, 600)],
)
async def test_the_backoff_doubles_to_ten_minutes_less_some_jitter(
    sql: Connection, attempts: int, longest: int
) -> None:
    seconds = [
        row[0]
        for row in await sql.fetch(
            "select extract(epoch from wakeful.backoff($1))::float8 from generate_series(1, 50)", attempts
        )
    ]

    assert longest * 0.8 <= min(seconds) < max(seconds) <= longest


async def test_the_error_history_keeps_the_last_ten(sql: Connection) -> None:
    errors = "[]"
    for number in range(13):
        errors = await sql.fetchval("select wakeful.with_error($1, $2)", errors, json.dumps({"n": number}))

    assert [entry["n"] for entry in json.loads(errors)] == list(range(3, 13))
    assert await sql.fetchval("select wakeful.with_error('[1]', null)") == "[1]"


@pytest.mark.parametrize(
    ("payload", "paths", "shown"),
    [
        ({"token": "x", "a": 1}, ["token"], {"token": "[secret]", "a": 1}),
        ({"auth": {"key": "x", "user": "u"}}, ["auth.key"], {"auth": {"key": "[secret]", "user": "u"}}),
        ({"auth": {"key": {"deep": 1}}}, ["auth.key"], {"auth": {"key": "[secret]"}}),
        ({"a": None}, ["a"], {"a": "[secret]"}),
        ({"a": 1}, ["b", "a.b", "a.b.c"], {"a": 1}),
        ({"list": [{"k": 1}, {"k": 2}]}, ["list.1.k"], {"list": [{"k": 1}, {"k": "[secret]"}]}),
        ({"a": 1}, None, {"a": 1}),
    ],
)
async def test_secret_paths_are_replaced_and_nothing_else(
    sql: Connection, payload: object, paths: list[str] | None, shown: object
) -> None:
    found = await sql.fetchval("select wakeful.redacted($1, $2)", json.dumps(payload), paths)

    assert json.loads(found) == shown


@pytest.mark.parametrize(
    ("payload", "path", "subject"),
    [
        ('{"place_id": "p1", "subject": "s1"}', None, "s1"),
        ('{"place_id": "p1"}', None, "p1"),
        ('{"place_id": "p1", "shop": {"id": 7}}', "shop.id", "7"),
        ('{"place_id": "p1", "shop": {}}', "shop.id", "p1"),
        ('{"place_id": 12345678901234567890}', None, "12345678901234567890"),
        ('{"subject": null, "place_id": "p1"}', None, "p1"),
        ('{"subject": {"a": 1}, "place_id": ["p1"]}', None, None),
        ('{"subject": true}', None, None),
        ("{}", None, None),
        (json.dumps({"subject": "x" * 2000}), None, "x" * 500),
    ],
)
async def test_the_subject_is_found_in_the_payload(
    sql: Connection, payload: str, path: str | None, subject: str | None
) -> None:
    found = await sql.fetchval("select wakeful.payload_subject($1, $2, '{subject,place_id}')", payload, path)

    assert found == subject


def _milliseconds(found: UUID) -> int:
    return found.int >> 80


def _lane_id(*parts: object) -> int:
    *texts, suspect = parts
    named = ["-" if text is None else f"{len(str(text).encode())}:{text}" for text in texts]
    hashed = hashlib.sha256(",".join([*named, "suspect" if suspect else ""]).encode()).digest()
    return int.from_bytes(hashed[:8], signed=True)
