"""docs/sql-api.md: its SQL runs, and it names every public function, every option, every code and every column."""

from __future__ import annotations

import re

import pytest

from support.cluster import SCHEMA
from support.databases import Connection

PAGE = (SCHEMA.parent / "docs" / "sql-api.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`\"?(\w+)", PAGE)) | set(re.findall(r"wakeful\.(\w+)", PAGE))
CODES = re.compile(r"\bWK\d{3}\b")


async def test_the_sql_of_the_page_runs_from_top_to_bottom(sql: Connection) -> None:
    blocks = re.findall(r"```sql\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) >= 9

    for block in blocks:
        await sql.execute(
            block.replace("shop_web", f"shop_web_{await sql.fetchval('select pg_backend_pid()')}")
        )

    found = await sql.fetch(
        "select subject, status from wakeful.jobs where job_type = 'COLLECT' order by subject"
    )
    assert [tuple(row) for row in found] == [(name, "PENDING") for name in ("s1", "s10", "s2", "s9")]


async def test_the_answers_of_the_bulk_example_are_as_it_says(sql: Connection) -> None:
    (example,) = re.findall(r"(select \* from wakeful\.enqueue_many\('\[\n.*?\]'\));", PAGE, flags=re.DOTALL)

    answers = await sql.fetch(example)

    assert [(row["ordinal"], row["created"], row["sqlstate"]) for row in answers] == [
        (1, True, None),
        (2, False, None),
        (3, False, "WK004"),
    ]
    assert answers[0]["job_id"] == answers[1]["job_id"]


@pytest.mark.parametrize(
    "function", ["enqueue", "enqueue_many", "alert", "cancel", "requeue", "pause", "resume", "job"]
)
async def test_the_page_names_every_option(sql: Connection, function: str) -> None:
    names = await sql.fetchval(
        """select array_agg(a.name) from pg_proc p
           cross join unnest(p.proargnames, p.proargmodes) as a (name, mode)
           where p.oid = $1::text::regproc and coalesce(a.mode, 'i') = 'i'""",
        f"wakeful.{function}",
    )

    assert names
    assert [name for name in names if not re.search(rf"\b{name}\b", PAGE)] == []


async def test_the_page_names_every_column_of_the_view(sql: Connection) -> None:
    columns = await sql.fetch(
        "select attname from pg_attribute where attrelid = 'wakeful.jobs'::regclass and attnum > 0"
    )

    assert {row[0] for row in columns} <= NAMED


async def test_the_page_names_what_each_role_may_call(sql: Connection) -> None:
    rows = await sql.fetch(
        """select p.proname as name from pg_proc p
           where p.pronamespace = 'wakeful'::regnamespace
             and has_function_privilege('wakeful_producer', p.oid, 'execute')"""
    )

    (line,) = [line for line in PAGE.splitlines() if line.startswith("| `wakeful_producer`")]
    assert {row["name"] for row in rows} == set(re.findall(r"`(\w+)`", line)) - {"wakeful_producer"}


def test_the_page_and_the_schema_have_the_same_codes() -> None:
    listed = re.findall(r"^\| (WK\d{3}) \|", PAGE, flags=re.MULTILINE)

    assert listed == sorted(set(listed))
    assert set(listed) == set(CODES.findall(SCHEMA.read_text()))
