"""Payloads from psql and from JavaScript: a handler gets what the producer wrote, digit by digit, or it was refused."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from support import payloads
from support.databases import ClonedDatabase, Connection
from support.factories import enqueue
from support.refusals import refused
from wakeful import JobContext, testing
from wakeful.core import jsontext

PRODUCER = Path(__file__).resolve().parents[1] / "support" / "enqueue_from_javascript.mjs"
# What JSON.parse() makes the same value of as JSON itself.
JAVASCRIPT = [
    '{"n": 9007199254740991}',
    '{"n": -9007199254740991}',
    '{"n": 1e21}',
    '{"n": 123456789012345680000}',
    '{"n": 0.1}',
    '{"n": 5e-324}',
    '{"n": 1.7976931348623157e308}',
    '{"n": 0.30000000000000004}',
    '{"d": "2031-01-01T00:00:00.000Z"}',
    '{"s": "\\u2028\\u2029\\u007f\\u0085"}',
    '{"s": "\\ud83d\\ude00 é e\\u0301 中文 \\u202e"}',
    '{"s": "\\\\u0000 \\\\x00"}',
    '{"__proto__": 1, "constructor": 2, "toString": null}',
    '{"10": "b", "9": "a"}',
    '{"l": [[], {}, [null]], "deep": {"a": {"b": {"c": []}}}}',
]
# What JavaScript says, and PostgreSQL refuses.
REFUSED = [
    ('{"s": "\\u0000"}', "22P05"),
    ('{"s": "\\ud800"}', "22P02"),
    ('{"s": "\\udc00x"}', "22P02"),
    ("[1]", "WK002"),
]


async def handled(db: ClonedDatabase) -> dict[UUID, object]:
    """Run what waits, and give each job's payload as its handler saw it."""
    seen: dict[UUID, object] = {}

    async def handler(job: JobContext) -> object:
        seen[job.job_id] = job.payload
        return job.payload

    async with testing.instance(db, registry=handler) as w:
        await w.run_all()
    return seen


@pytest.mark.case("F52")
async def test_what_psql_enqueues_reaches_the_handler_and_comes_back_digit_by_digit(
    db: ClonedDatabase, sql: Connection
) -> None:
    given = [text for text, _ in payloads.KEPT]
    said = await psql(db, given)
    jobs = [UUID(line) for line in said]

    seen = await handled(db)

    for job_id, (text, kept) in zip(jobs, payloads.KEPT, strict=True):
        assert exact(seen[job_id]) == exact(json.loads(text, parse_float=Decimal))
        row = await sql.fetchrow(
            "select payload::text, result::text from wakeful.jobs where job_id = $1", job_id
        )
        assert row is not None
        assert row["payload"] == kept
        assert exact(jsontext.loads(row["result"])) == exact(seen[job_id])


@pytest.mark.case("F52")
async def test_what_psql_can_not_say_in_json_is_refused_by_code_and_makes_no_job(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = await psql(db, [text for text, _, _ in payloads.NO_JSON])

    assert said == [sqlstate for _, sqlstate, _ in payloads.NO_JSON]
    assert await sql.fetchval("select count(*) from wakeful.jobs") == 0


@pytest.mark.case("F52")
async def test_what_javascript_enqueues_reaches_the_handler_as_the_same_value(db: ClonedDatabase) -> None:
    told = await javascript(db, JAVASCRIPT)

    seen = await handled(db)

    assert len(seen) == len(JAVASCRIPT)
    for text, line in zip(JAVASCRIPT, told, strict=True):
        assert exact(seen[UUID(line["job_id"])]) == exact(json.loads(text, parse_float=Decimal))
        assert exact(jsontext.loads(line["payload"])) == exact(json.loads(text, parse_float=Decimal))


@pytest.mark.case("F52")
async def test_what_javascript_can_say_and_jsonb_not_hold_is_refused_by_code(
    db: ClonedDatabase, sql: Connection
) -> None:
    told = await javascript(db, [text for text, _ in REFUSED])

    assert [line.get("sqlstate") for line in told] == [sqlstate for _, sqlstate in REFUSED]
    assert await sql.fetchval("select count(*) from wakeful.jobs") == 0


@pytest.mark.case("F52")
async def test_three_hundred_megabytes_are_refused_and_the_next_payload_is_taken(sql: Connection) -> None:
    with refused("54000", "string too long to represent as jsonb string"):
        await sql.execute(
            "select wakeful.enqueue('COLLECT', jsonb_build_object('x', repeat('x', 300000000)))"
        )

    assert (await enqueue(sql, payload={"x": "x" * 300_000})).created
    assert await sql.fetchval("select count(*) from wakeful.jobs") == 1


def exact(value: object) -> object:
    """A value in which numbers are equal only where every digit is."""
    if isinstance(value, dict):
        return {key: exact(one) for key, one in value.items()}
    if isinstance(value, list):
        return [exact(one) for one in value]
    if isinstance(value, float):
        return Decimal(repr(value))
    return Decimal(value) if isinstance(value, int) and not isinstance(value, bool) else value


async def psql(db: ClonedDatabase, given: list[str]) -> list[str]:
    """Enqueue each in one session of psql; gives the job id or the SQLSTATE of each."""
    script = "".join(
        f"select job_id from wakeful.enqueue('FROM_PSQL', $payload${text}$payload$);\n\\echo :SQLSTATE\n"
        for text in given
    )
    ended = await anyio.run_process(
        [db.cluster.binaries.program("psql"), "-X", "-q", "-A", "-t", "-d", db.dsn],
        input=script.encode(),
        check=True,
    )
    lines = re.sub(r"\n00000\n", "\n", ended.stdout.decode()).splitlines()
    assert len(lines) == len(given), ended.stderr.decode()
    return lines


async def javascript(db: ClonedDatabase, given: list[str]) -> list[dict[str, str]]:
    """Enqueue each from a program in JavaScript; gives what it says of each."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, with which a producer in JavaScript is run")
    ended = await anyio.run_process(
        [node, str(PRODUCER), str(db.cluster.socket), db.name, "postgres"],
        input="".join(f"{text}\n" for text in given).encode(),
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout.decode()
    return [json.loads(line) for line in ended.stdout.decode().strip().split("\n")]
