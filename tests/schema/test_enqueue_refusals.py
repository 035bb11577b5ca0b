"""Bad input to wakeful.enqueue(): a stable SQLSTATE, a message that says what, a hint that says what to do instead."""

from __future__ import annotations

import pytest

from support.databases import Connection
from support.refusals import refused

REFUSALS = [
    ("null", "WK001", "job_type is null", "wakeful.enqueue\\('COLLECT'"),
    ("''", "WK001", "job_type is empty", "Give a name"),
    ("repeat('x', 201)", "WK001", "job_type is 201 bytes long; the limit is 200", "Shorten"),
    ("repeat('ä', 101)", "WK001", "job_type is 202 bytes long", "Shorten"),
    (r"E'a\nb'", "WK001", "job_type contains a control character", "Remove line breaks"),
    ("'T', null", "WK002", "payload is null", "Wrap the value"),
    ("'T', 'null'", "WK002", "payload is a JSON null, not a JSON object", "Wrap the value"),
    ("'T', '[1]'", "WK002", "payload is a JSON array", "Wrap the value"),
    ("'T', '\"x\"'", "WK002", "payload is a JSON string", "Wrap the value"),
    ("'T', '1'", "WK002", "payload is a JSON number", "Wrap the value"),
    ("'T', 'true'", "WK002", "payload is a JSON boolean", "Wrap the value"),
    ("'T', priority => 'urgent'", "WK004", 'unknown priority "urgent"', "interactive, normal or batch"),
    ("'T', priority => ''", "WK004", 'unknown priority ""', "interactive, normal or batch"),
    ("'T', priority => 'Normal'", "WK004", 'unknown priority "Normal"', "interactive, normal or batch"),
    ("'T', run_after => 'infinity'", "WK005", "run_after is infinity", "within ten years"),
    ("'T', run_after => '-infinity'", "WK005", "run_after is -infinity", "within ten years"),
    (
        "'T', run_after => now() + interval '10 years 1 day'",
        "WK005",
        "not within ten years",
        "within ten years",
    ),
    ("'T', run_after => '20000-01-01'", "WK005", "not within ten years", "within ten years"),
    ("'T', max_attempts => 0", "WK006", "max_attempts is 0", "1 to 1000"),
    ("'T', max_attempts => -1", "WK006", "max_attempts is -1", "1 to 1000"),
    ("'T', max_attempts => 1001", "WK006", "max_attempts is 1001", "1 to 1000"),
    ("'T', deadline => '0'", "WK007", "deadline is 00:00:00", "more than 0, at most 30 days"),
    ("'T', deadline => '-1 second'", "WK007", "deadline is -00:00:01", "more than 0"),
    ("'T', deadline => '30 days 1 second'", "WK007", "deadline is 30 days 00:00:01", "at most 30 days"),
    ("'T', deadline => '178000000 years'", "WK007", "deadline is 178000000 years", "at most 30 days"),
    (
        "'T', tags => array(select n::text from generate_series(1, 21) n)",
        "WK008",
        "tags are more than 20",
        "few",
    ),
    ("'T', tags => array[repeat('x', 2001)]", "WK008", "longer than 2000 bytes", "short labels"),
    ("'T', tags => array['a', null]", "WK008", "contain null", "short labels"),
    ("'T', tags => '{{a,b},{c,d}}'", "WK008", "tags are .* nested", "short labels"),
    ("'T', meta => '[]'", "WK008", "meta is not a JSON object", "traceparent"),
    ("'T', meta => jsonb_build_object('x', repeat('x', 16384))", "WK008", "at most 16384 bytes", "payload"),
    ("'T', queue => ''", "WK001", "queue is empty", "leave the option out"),
    ("'T', queue => repeat('x', 8000)", "WK001", "queue is 8000 bytes long; the limit is 200", "Shorten"),
    (r"'T', queue => E'a\tb'", "WK001", "queue contains a control character", "tabs"),
    ("'T', subject => ''", "WK001", "subject is empty", "leave the option out"),
    ("'T', subject => repeat('x', 1001)", "WK001", "subject is 1001 bytes long", "payload"),
    ("'T', dedupe_key => ''", "WK001", "dedupe_key is empty", "leave the option out"),
    (
        "'T', dedupe_key => repeat('x', 8192)",
        "WK001",
        "dedupe_key is 8192 bytes long; the limit is 1000",
        "Shorten",
    ),
    (r"'T', dedupe_key => E'a\x01b'", "WK001", "dedupe_key contains a control character", "Remove"),
    ("'T', \"group\" => ''", "WK001", "group is empty", "leave the option out"),
    ("'T', \"group\" => repeat('x', 201)", "WK001", "group is 201 bytes long", "Shorten"),
    ("'T', limit_key => ''", "WK001", "limit_key is empty", "leave the option out"),
    ("'T', limit_key => repeat('x', 201)", "WK001", "limit_key is 201 bytes long", "Shorten"),
]


@pytest.mark.case("F04")
@pytest.mark.parametrize(("arguments", "sqlstate", "message", "hint"), REFUSALS)
async def test_bad_input_is_refused_with_its_code_and_a_hint(
    sql: Connection, arguments: str, sqlstate: str, message: str, hint: str
) -> None:
    with refused(sqlstate, message, hint=hint):
        await sql.execute(f"select * from wakeful.enqueue({arguments})")

    assert await sql.fetchval("select count(*) from wakeful.jobs") == 0


@pytest.mark.parametrize(
    "arguments",
    [
        "repeat('x', 200)",
        "'T', queue => repeat('ä', 100), \"group\" => repeat('x', 200), limit_key => repeat('x', 200)",
        "'T', subject => repeat('x', 1000), dedupe_key => repeat('x', 1000)",
        "'T', max_attempts => 1",
        "'T', deadline => '30 days'",
        "'T', deadline => '0.000001'",
        "'T', run_after => now() + interval '10 years'",
        "'T', tags => array(select repeat('x', 100) from generate_series(1, 20))",
        "'T', tags => '{}', meta => jsonb_build_object('x', repeat('x', 16384 - 9))",
        "'T', '{}', null, null, null, null, null, null, null, null, null, null, null",
        "' spaces ', queue => ' '",
    ],
)
async def test_what_is_just_within_the_limits_is_taken(sql: Connection, arguments: str) -> None:
    assert await sql.fetchval(f"select created from wakeful.enqueue({arguments})") is True


@pytest.mark.parametrize(
    ("arguments", "sqlstate", "message"),
    [
        ("'T', colour => 'red'", "42883", "colour"),
        ("'T', run_at => now()", "42883", "run_at"),
        ("'T', '{'", "22P02", "invalid input syntax for type json"),
        ("'T', max_attempts => 'many'", "22P02", "invalid input syntax for type integer"),
        ("'T', max_attempts => 2147483648", "42883", "does not exist"),
        ("'T', run_after => 'soon'", "22007", "invalid input syntax for type timestamp with time zone"),
        ("'T', run_after => '2026-02-30'", "22008", "out of range"),
        ("'T', deadline => 'long'", "22007", "invalid input syntax for type interval"),
        ("'T', group => 'g'", "42601", "syntax error"),
    ],
)
async def test_what_postgresql_cannot_read_keeps_its_own_code(
    sql: Connection, arguments: str, sqlstate: str, message: str
) -> None:
    with refused(sqlstate, message):
        await sql.execute(f"select * from wakeful.enqueue({arguments})")
