"""What the planner makes of a statement of the daemon's: for its values, or with the generic plan of a prepared one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from support.databases import Connection
from wakeful.store.statements import statements

Node = dict[str, Any]
Mode = Literal["force_generic_plan", "force_custom_plan"]


async def plan_of(connection: Connection, mode: Mode, statement: str, *arguments: str) -> Node:
    """Run a statement of `sql/` with SQL literals, roll it back, and give its plan with what each node has read."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(f"set local plan_cache_mode = {mode}")
        await connection.execute(f"prepare planned as {statements()[statement]}")
        text = f"explain (analyze, buffers, format json) execute planned ({', '.join(arguments)})"
        plan: list[Node] = json.loads(await connection.fetchval(text))
    finally:
        await transaction.rollback()
        await connection.execute("deallocate all")
    root: Node = plan[0]["Plan"]
    return root


def nodes(plan: Node) -> Iterator[Node]:
    """Every node of a plan."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def reads_of(plan: Node, table: str) -> list[str]:
    """How each node reads this table: its kind, its index and the columns that find the rows."""
    return sorted(
        f"{node['Node Type']} {node.get('Index Name', '')} {node.get('Index Cond', node.get('TID Cond', ''))}"
        for node in nodes(plan)
        if node.get("Relation Name") == table and node["Node Type"] not in ("ModifyTable", "LockRows")
    )


def pages_read(plan: Node) -> int:
    """Pages that the whole statement has touched."""
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


async def rows_read_by(connection: Connection) -> dict[str, int]:
    """The rows that this session has read in its transaction, in whatever way, by table."""
    rows = await connection.fetch(
        """select relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) as rows
           from pg_stat_xact_user_tables where schemaname = 'wakeful'"""
    )
    return {row["relname"]: row["rows"] for row in rows}
