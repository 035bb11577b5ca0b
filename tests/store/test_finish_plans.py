"""What ends jobs reads the rows of those jobs and no others, whatever the statistics say and whenever it was planned.

Its statements call functions, of which EXPLAIN shows nothing: the server's own counts of what was read are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from support.databases import ClonedDatabase, Connection
from support.plans import Mode, nodes, pages_read, plan_of, rows_read_by
from wakeful.store.statements import statements

JOBS, OWNED = 4000, 50
TABLES = ("wakeful.ready", "wakeful.dedupe")
STATISTICS = ["fresh", "stale", "owned", "none", "planned when empty"]


async def fill(sql: Connection, keys: str = "key") -> None:
    await sql.execute(
        f"""select wakeful.enqueue_many(jsonb_agg(jsonb_build_object(
                'job_type', 'TYPE', 'payload', jsonb_build_object('n', n)) || case
                    when n % 2 = 0 then jsonb_build_object('dedupe_key', '{keys} ' || n) else '{{}}' end))
            from generate_series(1, {JOBS}) as n"""
    )
    await sql.execute(
        f"""update wakeful.ready r
            set owner = 77, claim = r.pos * 7, attempts = 1, run_no = 1, started_at = now(), deadline_at = now()
            where r.pos in (select pos from wakeful.ready order by pos limit {OWNED})"""
    )


@dataclass(frozen=True, slots=True)
class Owned:
    """A prepared statement, and the owned rows of the one lane as SQL literals."""

    sql: Connection
    lane: str
    positions: str
    tokens: str
    job_ids: str

    async def rows_read(self, statement: str) -> dict[str, int]:
        """Run the prepared statement, roll it back, and give how many rows of each table it read, in whatever way."""
        transaction = self.sql.transaction()
        await transaction.start()
        try:
            before = await rows_read_by(self.sql)
            rows = await self.sql.fetch(f"execute planned ({arguments(statement, self)})")
            after = await rows_read_by(self.sql)
        finally:
            await transaction.rollback()
        assert len(rows) == OWNED
        return {table: after[table] - before[table] for table in after}


def arguments(statement: str, owned: Owned) -> str:
    """The arguments of a statement, as SQL literals."""
    filled = "array_fill({}, array[cardinality({})])".format
    held = f"{owned.lane}, {owned.positions}, {owned.tokens}"
    if statement == "finish_jobs":
        texts = [filled("'null'::text", owned.positions), filled("null::text", owned.positions)]
        return ", ".join([held, *texts, filled("true", owned.positions)])
    if statement == "settle_jobs":
        values = ("'fail'::text", "null::text", "null::text", "5::float8")
        return ", ".join([held, *(filled(value, owned.positions) for value in values), "3"])
    if statement == "reclaim_jobs":
        return f"{owned.lane}, {owned.positions}, 77, null, null, 3"
    assert statement == "read_verdicts"
    return f"{owned.job_ids}, {owned.tokens}, {filled(owned.lane, owned.positions)}, {owned.positions}"


@pytest.fixture(params=["finish_jobs", "settle_jobs", "read_verdicts", "reclaim_jobs"])
def statement(request: pytest.FixtureRequest) -> str:
    """The statement that is looked at."""
    given: str = request.param
    return given


@pytest.fixture(params=["force_generic_plan", "force_custom_plan"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """How it is planned."""
    given: Mode = request.param
    return given


@pytest.fixture(params=STATISTICS)
async def owned(
    request: pytest.FixtureRequest, mode: Mode, statement: str, db: ClonedDatabase, sql: Connection
) -> Owned:
    """4,000 jobs in one lane, half of them with a dedupe key, the first fifty owned; the statement is prepared.

    The statistics are of now, of an empty table, of a table of which every row was owned, or there are none; or the
    statement was planned and used when the tables had been found empty.
    """
    nobody = Owned(
        sql, "1::bigint", "array[1]::bigint[]", "array[1]::bigint[]", f"array['{'0' * 32}']::uuid[]"
    )
    for table in TABLES:
        await sql.execute(f"alter table {table} set (autovacuum_enabled = false)")
    if request.param in ("stale", "planned when empty"):
        await sql.execute(f"vacuum analyze {', '.join(TABLES)}")
    if request.param == "owned":
        await fill(sql)
        await sql.execute("update wakeful.ready set owner = 77, claim = 1")
        await sql.execute(f"analyze {', '.join(TABLES)}")
        await sql.execute("truncate wakeful.ready, wakeful.dedupe")
    await sql.execute(f"set plan_cache_mode = {mode}")
    await sql.execute(f"prepare planned as {statements()[statement]}")
    if request.param == "planned when empty":
        for _ in range(6):
            await sql.execute(f"execute planned ({arguments(statement, nobody)})")
    await fill(sql)
    if request.param == "fresh":
        await sql.execute(f"analyze {', '.join(TABLES)}")
    return await owned_rows(sql)


async def owned_rows(sql: Connection) -> Owned:
    """The rows that have an owner."""
    rows = await sql.fetch("select lane_id, pos, claim, job_id from wakeful.ready where owner is not null")
    return Owned(
        sql,
        f"({rows[0]['lane_id']})::bigint",
        f"array[{','.join(str(row['pos']) for row in rows)}]::bigint[]",
        f"array[{','.join(str(row['claim']) for row in rows)}]::bigint[]",
        f"'{{{','.join(str(row['job_id']) for row in rows)}}}'::uuid[]",
    )


async def test_the_rows_of_these_jobs_are_read_and_no_others(owned: Owned, statement: str) -> None:
    read = await owned.rows_read(statement)

    # Found, and found again by its id to be locked and deleted; a key is looked up before and after it is locked.
    assert read["ready"] <= 3 * OWNED, read
    assert read["dedupe"] <= 3 * OWNED, read


@pytest.mark.parametrize("statement", ["finish_jobs", "settle_jobs"])
@pytest.mark.parametrize("_mode", ["force_generic_plan", "force_custom_plan"])
async def test_results_meet_their_jobs_without_comparing_each_with_every_other(
    sql: Connection, statement: str, _mode: Mode
) -> None:
    nobody = Owned(sql, "1::bigint", "array[1]::bigint[]", "array[1]::bigint[]", "")

    plan = await plan_of(sql, _mode, statement, *arguments(statement, nobody).split(", "))

    joins = {node["Node Type"] for node in nodes(plan) if node.get("Join Type") == "Full"}
    assert joins <= {"Hash Join", "Merge Join"}
    assert joins


@pytest.mark.parametrize("statement", ["finish_jobs", "settle_jobs"])
async def test_while_somebody_holds_a_snapshot_the_pages_that_are_read_do_not_grow(
    db: ClonedDatabase, sql: Connection, statement: str
) -> None:
    reader = await db.connect()
    pages = []
    async with reader.transaction(isolation="repeatable_read"):
        await reader.fetch("select count(*) from wakeful.ready")
        for number in range(12):
            # Keys of their own: of a key that is used again all former uses are looked at while the snapshot is held.
            await fill(sql, keys=f"key {number}")
            owned = await owned_rows(sql)
            planner = await db.connect()
            plan = await plan_of(planner, "force_generic_plan", statement, arguments(statement, owned))
            pages.append(pages_read(plan))
            await sql.execute("delete from wakeful.ready")
            await sql.execute("delete from wakeful.dedupe")

    assert pages[-1] <= 1.2 * pages[1], pages
