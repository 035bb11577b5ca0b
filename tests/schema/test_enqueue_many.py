"""wakeful.enqueue_many(): one answer for each element, in order; a bad element stops no other."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import timedelta

import asyncpg
import pytest

from support.databases import Connection
from support.factories import declare, enqueue
from support.refusals import refused


@pytest.mark.case("F51")
async def test_a_thousand_with_duplicates_and_faults_are_answered_one_by_one(sql: Connection) -> None:
    jobs: list[object] = [
        {"job_type": "COLLECT", "payload": {"n": n}, "dedupe_key": f"k{n}"} for n in range(1000)
    ]
    for position in range(100, 110):
        jobs[position] = {"job_type": "COLLECT", "dedupe_key": f"k{position - 100}"}
    jobs[500] = {"job_type": "COLLECT", "priority": "urgent"}
    jobs[501] = [1]
    jobs[502] = {"payload": {}}

    answers = await enqueue_many(sql, jobs)

    assert [answer["ordinal"] for answer in answers] == list(range(1, 1001))
    assert sum(answer["created"] for answer in answers) == 987
    assert [answer["job_id"] for answer in answers[100:110]] == [answer["job_id"] for answer in answers[:10]]
    assert [answer["sqlstate"] for answer in answers[500:503]] == ["WK004", "WK002", "WK001"]
    assert await sql.fetchval("select count(*) from wakeful.jobs") == 987


async def test_jobs_of_one_lane_keep_the_order_of_the_array(sql: Connection) -> None:
    answers = await enqueue_many(sql, [{"job_type": "COLLECT", "payload": {"n": n}} for n in range(50)])

    found = await sql.fetch("select job_id from wakeful.ready order by lane_id, pos")
    assert [row[0] for row in found] == [answer["job_id"] for answer in answers]


async def test_the_first_of_a_repeated_key_is_the_one_that_is_created(sql: Connection) -> None:
    answers = await enqueue_many(
        sql, [{"job_type": "COLLECT", "payload": {"n": n}, "dedupe_key": "k"} for n in range(3)]
    )

    assert [answer["created"] for answer in answers] == [True, False, False]
    assert len({answer["job_id"] for answer in answers}) == 1
    assert json.loads(await sql.fetchval("select payload from wakeful.jobs")) == {"n": 0}


async def test_a_faulty_element_does_not_take_the_key_from_the_next(sql: Connection) -> None:
    answers = await enqueue_many(
        sql,
        [
            {"job_type": "COLLECT", "dedupe_key": "k", "max_attempts": 0},
            {"job_type": "COLLECT", "dedupe_key": "k"},
        ],
    )

    assert [answer["sqlstate"] for answer in answers] == ["WK006", None]
    assert answers[1]["created"]


async def test_a_key_that_is_active_is_a_hit_that_names_the_job(sql: Connection) -> None:
    active = await enqueue(sql, dedupe_key="k")

    answers = await enqueue_many(sql, [{"job_type": "COLLECT", "dedupe_key": "k"}] * 2)

    assert [(answer["job_id"], answer["created"]) for answer in answers] == [(active.job_id, False)] * 2


async def test_every_option_is_kept_as_in_a_single_enqueue(sql: Connection) -> None:
    await sql.execute(
        """select * from wakeful.enqueue_many('[{
               "job_type": "T", "payload": {"a": 1}, "queue": "q", "priority": "batch", "subject": "s",
               "dedupe_key": "k1", "run_after": "2031-01-01T00:00:00Z", "max_attempts": 7, "deadline": "10 minutes",
               "tags": ["x", "y"], "meta": {"m": 1}, "group": "g", "limit_key": "l"}]');
           select * from wakeful.enqueue(
               'T', '{"a": 1}', 'q', 'batch', 's', 'k2', '2031-01-01T00:00:00Z', 7, '10 minutes', '{x,y}', '{"m": 1}',
               'g', 'l')"""
    )

    many, single = [
        dict(row) for row in await sql.fetch("select * from wakeful.scheduled order by dedupe_key")
    ]
    assert set(many) == set(single)
    unlike = {name for name in many if many[name] != single[name]}
    assert unlike == {"job_id", "dedupe_key", "created_at"}


async def test_a_declared_type_gives_the_defaults(sql: Connection) -> None:
    await declare(
        sql,
        "COLLECT",
        queue="crawl",
        priority="interactive",
        max_attempts=2,
        deadline=timedelta(minutes=10),
        subject_path="shop.id",
        limit_key="web",
    )

    await enqueue_many(sql, [{"job_type": "COLLECT", "payload": {"shop": {"id": "s1"}}}])

    row = await sql.fetchrow("select * from wakeful.ready")
    assert row is not None
    assert (row["queue"], row["priority"], row["max_attempts"]) == ("crawl", "interactive", 2)
    assert (row["deadline"], row["subject"], row["limit_key"]) == (timedelta(minutes=10), "s1", "web")
    assert row["lane_id"] == await sql.fetchval(
        "select wakeful.lane_id('crawl', 'interactive', 'COLLECT', 'web', false)"
    )


async def test_null_options_are_left_out_and_a_missing_payload_is_empty(sql: Connection) -> None:
    nothing: dict[str, object] = dict.fromkeys(
        (
            "queue",
            "priority",
            "subject",
            "dedupe_key",
            "run_after",
            "max_attempts",
            "deadline",
            "tags",
            "meta",
            "group",
        )
    )

    answers = await enqueue_many(sql, [{"job_type": "COLLECT", **nothing}])

    assert answers[0]["created"]
    row = await sql.fetchrow("select queue, max_attempts, tags, meta, payload from wakeful.ready")
    assert row is not None
    assert tuple(row) == ("default", 5, [], "{}", "{}")


async def test_an_empty_name_is_not_one_left_out_also_among_others_of_its_kind(sql: Connection) -> None:
    answers = await enqueue_many(
        sql,
        [
            {"job_type": "T"},
            {"job_type": "T", "queue": ""},
            {"job_type": "T", "limit_key": ""},
            {"job_type": "T", "priority": ""},
            {"job_type": ""},
            {"queue": ""},
            {"job_type": "T", "queue": "default", "priority": "normal"},
        ],
    )

    assert [answer["ordinal"] for answer in answers] == [1, 2, 3, 4, 5, 6, 7]
    states = " ".join(str(answer["sqlstate"]) for answer in answers)
    assert states == "None WK001 WK001 WK004 WK001 WK001 None"
    lanes = await sql.fetch("select distinct lane_id, queue, priority, limit_key from wakeful.ready")
    assert [tuple(row)[1:] for row in lanes] == [("default", "normal", None)]


async def test_kinds_of_jobs_in_one_call_keep_their_own_defaults(sql: Connection) -> None:
    await declare(sql, "A", queue="a", priority="batch", max_attempts=2, subject_path="x.y", limit_key="l")
    await declare(sql, "B", queue="b", priority="interactive", max_attempts=3)
    payload = {"x": {"y": "deep"}, "subject": "flat"}

    await enqueue_many(
        sql,
        [
            {"job_type": name, "payload": payload, **options}
            for name in ("A", "B", "C")
            for options in ({}, {"queue": "q"}, {"priority": "normal", "limit_key": "m"})
        ],
    )

    rows = await sql.fetch(
        """select r.queue, r.priority, r.job_type, r.limit_key, r.max_attempts, r.subject,
                  lane_id = wakeful.lane_id(r.queue, r.priority, r.job_type, r.limit_key, false) as right_lane
           from wakeful.ready r order by r.pos"""
    )
    assert [tuple(row) for row in rows] == [
        ("a", "batch", "A", "l", 2, "deep", True),
        ("q", "batch", "A", "l", 2, "deep", True),
        ("a", "normal", "A", "m", 2, "deep", True),
        ("b", "interactive", "B", None, 3, "flat", True),
        ("q", "interactive", "B", None, 3, "flat", True),
        ("b", "normal", "B", "m", 3, "flat", True),
        ("default", "normal", "C", None, 5, "flat", True),
        ("q", "normal", "C", None, 5, "flat", True),
        ("default", "normal", "C", "m", 5, "flat", True),
    ]


FAULTS = [
    ("1", "WK002", "the element is a JSON number, not an object", "job_type"),
    ("null", "WK002", "the element is a JSON null", "job_type"),
    ('["payload"]', "WK002", "the element is a JSON array", "job_type"),
    ("{}", "WK001", "job_type is null", "COLLECT"),
    (
        '{"job_type": "T", "colour": 1, "run_at": 2}',
        "WK009",
        "unknown option colour, run_at",
        "Known are: .*run_after",
    ),
    ('{"job_type": "T", "notify": false}', "WK009", "unknown option notify", "Known are"),
    ('{"job_type": "T", "payload": null}', "WK002", "payload is null", "Wrap"),
    ('{"job_type": "T", "payload": [1]}', "WK002", "payload is a JSON array", "Wrap"),
    ('{"job_type": "T", "max_attempts": "many"}', "WK006", "not a whole number", "1 to 1000"),
    ('{"job_type": "T", "max_attempts": 1.5}', "WK006", "not a whole number", "1 to 1000"),
    ('{"job_type": "T", "max_attempts": 99999999999}', "WK006", "not a whole number", "1 to 1000"),
    ('{"job_type": "T", "max_attempts": 1001}', "WK006", "max_attempts is 1001", "1 to 1000"),
    ('{"job_type": "T", "run_after": "tomorow"}', "WK005", 'run_after is "tomorow"', "with its zone"),
    ('{"job_type": "T", "run_after": 1893456000}', "WK005", 'run_after is "1893456000"', "with its zone"),
    (
        '{"job_type": "T", "run_after": "infinity"}',
        "WK005",
        'run_after is "infinity"',
        "a past time means now",
    ),
    ('{"job_type": "T", "run_after": "-infinity"}', "WK005", "run_after is -infinity", "ten years"),
    ('{"job_type": "T", "run_after": "20000-01-01"}', "WK005", "ten years", "ten years"),
    ('{"job_type": "T", "deadline": "long"}', "WK007", 'deadline is "long"', "600 for seconds"),
    ('{"job_type": "T", "deadline": 0}', "WK007", 'deadline is "0"', "600 for seconds"),
    ('{"job_type": "T", "deadline": 2592001}', "WK007", "deadline is", "30 days"),
    ('{"job_type": "T", "deadline": 99999999999999999999}', "WK007", "deadline is", "30 days"),
    ('{"job_type": "T", "tags": "a"}', "WK008", "tags is not an array", "labels"),
    ('{"job_type": "T", "tags": {"a": 1}}', "WK008", "tags is not an array", "labels"),
    ('{"job_type": "T", "tags": ["a", null]}', "WK008", "contain null", "labels"),
    ('{"job_type": "T", "meta": "x"}', "WK008", "meta is not a JSON object", "traceparent"),
    ('{"job_type": "T", "queue": ""}', "WK001", "queue is empty", "leave the option out"),
    (r'{"job_type": "T", "dedupe_key": "a\nb"}', "WK001", "control character", "Remove"),
]


@pytest.mark.parametrize(("element", "sqlstate", "message", "hint"), FAULTS)
async def test_a_faulty_element_says_what_is_wrong_and_stops_no_other(
    sql: Connection, element: str, sqlstate: str, message: str, hint: str
) -> None:
    good = '{"job_type": "COLLECT"}'
    answers = await sql.fetch("select * from wakeful.enqueue_many($1)", f"[{good}, {element}, {good}]")

    assert [answer["created"] for answer in answers] == [True, False, True]
    faulty = answers[1]
    assert (faulty["job_id"], faulty["sqlstate"]) == (None, sqlstate)
    assert re.search(message, faulty["message"])
    assert re.search(hint, faulty["hint"])


@pytest.mark.parametrize(
    ("jobs", "sqlstate", "message"),
    [
        (None, "WK002", "jobs is not a JSON array"),
        ("{}", "WK002", "jobs is not a JSON array"),
        ("null", "WK002", "jobs is not a JSON array"),
        ("[" + ",".join(["1"] * 50_001) + "]", "WK003", "jobs has 50001 elements; the limit is 50000"),
        (r'[{"job_type": "T", "payload": {"s": "\u0000"}}]', "22P05", "Unicode"),
    ],
)
async def test_what_is_no_array_of_jobs_is_refused_as_a_whole(
    sql: Connection, jobs: str | None, sqlstate: str, message: str
) -> None:
    with refused(sqlstate, message):
        await sql.fetch("select * from wakeful.enqueue_many($1)", jobs)


async def test_an_empty_array_gives_nothing(sql: Connection) -> None:
    assert await enqueue_many(sql, []) == []


@pytest.mark.case("F51")
async def test_a_rollback_takes_all_of_it_back(sql: Connection) -> None:
    transaction = sql.transaction()
    await transaction.start()
    await enqueue_many(sql, [{"job_type": "COLLECT", "dedupe_key": "k"}, {"job_type": "COLLECT"}])
    await transaction.rollback()

    assert await sql.fetchval("select count(*) from wakeful.jobs") == 0
    assert await sql.fetchval("select wakeful.find_active('k')") is None


async def enqueue_many(connection: Connection, jobs: Sequence[object]) -> list[asyncpg.Record]:
    return list(await connection.fetch("select * from wakeful.enqueue_many($1)", json.dumps(jobs)))
