"""How the lists are read: a page of jobs by the indexes, whatever lies in the tables; never a sort of everything."""

from __future__ import annotations

import pytest

from support.databases import Connection
from wakeful.store.statements import statements


@pytest.mark.parametrize("statement", ["list_jobs", "find_job_ids"])
async def test_a_page_is_read_in_the_order_of_the_indexes(sql: Connection, statement: str) -> None:
    await sql.execute("select wakeful.enqueue('COLLECT', subject => n::text) from generate_series(1, 2000) n")
    await sql.execute("analyze")
    text = statements()[statement]
    for number, value in enumerate(
        ("null", "'{COLLECT}'", "null", "null", "null", "null", "null", "50"), start=1
    ):
        text = text.replace(f"${number}", value)

    plan = "\n".join(row[0] for row in await sql.fetch(f"explain {text}"))

    assert "Merge Append" in plan
    assert "Index Scan" in plan
    assert "Seq Scan on ready" not in plan


async def test_queues_are_counted_without_the_finished_jobs(sql: Connection) -> None:
    plan = "\n".join(row[0] for row in await sql.fetch(f"explain {statements()['list_queues']}"))

    assert "ready" in plan
    assert "finished" not in plan
