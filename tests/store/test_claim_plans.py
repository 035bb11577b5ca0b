"""The hot statements find their rows by primary key, whatever the statistics say, with a generic plan and without.

A queue's table is empty at one moment and a million rows long at the next; statistics are wrong as a rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from support.databases import ClonedDatabase, Connection
from support.plans import Mode, Node, pages_read, plan_of, reads_of

LANES, JOBS_A_LANE, OWNED = 4, 2000, 50


async def fill(sql: Connection, *, jobs: int = JOBS_A_LANE) -> None:
    await sql.execute(
        f"""select wakeful.enqueue_many(jsonb_agg(jsonb_build_object(
                'job_type', 'TYPE' || l, 'dedupe_key', l || ':' || n, 'payload', jsonb_build_object('n', n))))
            from generate_series(1, {LANES}) as l, generate_series(1, {jobs}) as n
            group by l"""
    )
    await sql.execute(
        """insert into wakeful.instance (instance_id, incarnation, name, host, pid, version, lease)
           values (77, 1, 'w', 'here', 1, 'test', '30 s')
           on conflict do nothing"""
    )
    await sql.execute(
        f"""update wakeful.ready r
            set owner = 77, claim = r.pos * 7, attempts = 1, run_no = 1, started_at = now(), deadline_at = now()
            from (select lane_id, pos, row_number() over (partition by lane_id order by pos) as n
                  from wakeful.ready) as first
            where r.lane_id = first.lane_id and r.pos = first.pos and first.n <= {OWNED}"""
    )


@dataclass(frozen=True, slots=True)
class Owned:
    """The owned rows of one lane, as SQL literals."""

    sql: Connection
    lane: str
    positions: str
    tokens: str
    job_ids: str
    mode: Mode

    async def plan(self, statement: str, *arguments: str) -> Node:
        """The plan of a statement."""
        return await plan_of(self.sql, self.mode, statement, *arguments)

    def filled(self, value: str) -> str:
        """An array with this value for each of the rows."""
        return f"array_fill({value}, array[{OWNED}])"


@pytest.fixture(params=["force_generic_plan", "force_custom_plan"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """How the statement is planned."""
    given: Mode = request.param
    return given


@pytest.fixture(params=["fresh", "stale", "owned", "none"])
async def owned(request: pytest.FixtureRequest, mode: Mode, db: ClonedDatabase, sql: Connection) -> Owned:
    """8,000 jobs in four lanes, the first fifty of each owned.

    The statistics are of now, of an empty table, of a table of which every row was owned, or there are none.
    """
    tables = ("wakeful.ready", "wakeful.dedupe", "wakeful.progress")
    for table in tables:
        await sql.execute(f"alter table {table} set (autovacuum_enabled = false)")
    if request.param == "stale":
        await sql.execute(f"analyze {', '.join(tables)}")
    if request.param == "owned":
        await fill(sql, jobs=2 * OWNED)
        await sql.execute("update wakeful.ready set owner = 77, claim = 1")
        await sql.execute(f"analyze {', '.join(tables)}")
        await sql.execute("delete from wakeful.ready")
        await sql.execute("delete from wakeful.dedupe")
    await fill(sql)
    if request.param == "fresh":
        await sql.execute(f"analyze {', '.join(tables)}")
    lane = await sql.fetchval("select min(lane_id) from wakeful.ready")
    rows = await sql.fetch(
        "select pos, claim, job_id from wakeful.ready where lane_id = $1 and owner is not null order by pos",
        lane,
    )
    return Owned(
        sql,
        f"({lane})::bigint",
        f"array[{','.join(str(row['pos']) for row in rows)}]::bigint[]",
        f"array[{','.join(str(row['claim']) for row in rows)}]::bigint[]",
        f"'{{{','.join(str(row['job_id']) for row in rows)}}}'::uuid[]",
        mode,
    )


@pytest.mark.parametrize("limit", [10, 500])
async def test_a_claim_reads_its_own_rows_only(owned: Owned, limit: int) -> None:
    plan = await owned.plan("claim_jobs", owned.lane, str(limit), "77", "1", "123", "false")

    assert plan["Actual Rows"] == limit
    first, second = reads_of(plan, "ready")
    assert first.startswith("Index Scan ready_pkey")
    assert second.startswith("Tid Scan")
    assert pages_read(plan) < 100 + 20 * limit


async def test_a_finish_reads_its_own_rows_only(owned: Owned) -> None:
    plan = await owned.plan(
        "finish_jobs",
        *(owned.lane, owned.positions, owned.tokens),
        *(owned.filled("'null'::text"), owned.filled("null::text"), owned.filled("true")),
    )

    assert plan["Actual Rows"] == OWNED
    assert not_by_key(plan, "ready") == not_by_key(plan, "dedupe") == []
    assert pages_read(plan) < 60 * OWNED


async def test_a_settlement_reads_its_own_rows_only(owned: Owned) -> None:
    plan = await owned.plan(
        "settle_jobs",
        *(owned.lane, owned.positions, owned.tokens, owned.filled("'fail'::text")),
        *(owned.filled("null::text"), owned.filled("null::text"), owned.filled("0::float8"), "3"),
    )

    assert plan["Actual Rows"] == OWNED
    assert not_by_key(plan, "ready") == not_by_key(plan, "dedupe") == []
    assert pages_read(plan) < 100 * OWNED


@pytest.mark.parametrize("statement", ["look_up_held", "write_progress"])
async def test_a_beat_and_a_report_read_their_own_rows_only(owned: Owned, statement: str) -> None:
    documents = [owned.filled("'{}'::text")] if statement == "write_progress" else []
    plan = await owned.plan(statement, owned.filled(owned.lane), owned.positions, owned.tokens, *documents)

    assert plan["Actual Rows"] == OWNED
    assert not_by_key(plan, "ready") == []
    assert pages_read(plan) < 30 * OWNED


async def test_a_verdict_reads_its_own_rows_only(owned: Owned) -> None:
    plan = await owned.plan(
        "read_verdicts",
        *(owned.job_ids, owned.filled("0::bigint"), owned.filled(owned.lane), owned.positions),
    )

    assert plan["Actual Rows"] == OWNED
    assert all("Seq Scan" not in one for one in reads_of(plan, "ready"))
    assert pages_read(plan) < 100 * OWNED


async def test_looking_for_lanes_reads_the_head_of_each_lane_only(owned: Owned) -> None:
    plan = await owned.plan("find_lanes", "null", "null")

    assert plan["Actual Rows"] == LANES
    assert all("Seq Scan" not in one for one in reads_of(plan, "ready"))
    assert pages_read(plan) < LANES * OWNED


def not_by_key(plan: dict[str, object], table: str) -> list[str]:
    """Reads of a table that are neither by row id nor by the whole primary key."""
    key = {"ready": ("ready_pkey", "pos"), "dedupe": ("dedupe_pkey", "key")}[table]
    return [
        one
        for one in reads_of(plan, table)
        if not one.startswith("Tid Scan") and not all(part in one for part in key)
    ]
