"""The hot statements find their rows by primary key, whatever the statistics say, with a generic plan and without.

A queue's table is empty at one moment and a million rows long at the next; statistics are wrong as a rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from support.databases import ClonedDatabase, Connection
from support.plans import Mode, Node, pages_read, plan_of, reads_of, rows_read_by
from wakeful.core.settings import DatabaseSettings
from wakeful.store.connect import open_connection
from wakeful.store.statements import statements

LANES, JOBS_A_LANE, OWNED = 4, 2000, 50


async def fill(sql: Connection, *, jobs: int = JOBS_A_LANE) -> None:
    await sql.execute(
        f"""select wakeful.enqueue_many(jsonb_agg(jsonb_build_object(
                'job_type', 'TYPE' || l, 'dedupe_key', l || ':' || n, 'payload', jsonb_build_object('n', n))))
            from generate_series(1, {LANES}) as l, generate_series(1, {jobs}) as n
            group by l"""
    )
    await register(sql)
    await sql.execute(
        f"""update wakeful.ready r
            set owner = 77, claim = r.pos * 7, attempts = 1, run_no = 1, started_at = now(), deadline_at = now()
            from (select lane_id, pos, row_number() over (partition by lane_id order by pos) as n
                  from wakeful.ready) as first
            where r.lane_id = first.lane_id and r.pos = first.pos and first.n <= {OWNED}"""
    )


async def register(sql: Connection) -> None:
    """The instance that claims."""
    await sql.execute(
        """insert into wakeful.instance (instance_id, incarnation, name, host, pid, version, lease)
           values (77, 1, 'w', 'here', 1, 'test', '30 s')
           on conflict do nothing"""
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
    plan = await owned.plan("claim_jobs", owned.lane, str(limit), "77", "1", "123", "false", "0", "null")

    assert plan["Actual Rows"] == limit
    assert pages_read(plan) < 100 + 20 * limit


async def test_a_claim_that_was_planned_when_there_were_no_jobs_reads_its_own_rows_only(
    mode: Mode, sql: Connection
) -> None:
    await sql.execute("alter table wakeful.ready set (autovacuum_enabled = false)")
    await fill(sql)
    lane = await sql.fetchval("select min(lane_id) from wakeful.ready")
    await sql.execute("delete from wakeful.ready; delete from wakeful.dedupe")
    await sql.execute("vacuum analyze wakeful.ready")
    await sql.execute(f"set plan_cache_mode = {mode}")
    await sql.execute(f"prepare claiming as {statements()['claim_jobs']}")
    claiming = f"execute claiming ({lane}, 500, 77, 1, 123, false, 0, null)"
    for _ in range(6):
        await sql.execute(claiming)
    await fill(sql)

    async with sql.transaction():
        before = (await rows_read_by(sql))["ready"]
        claimed = await sql.fetch(claiming)
        read = (await rows_read_by(sql))["ready"] - before

    assert len(claimed) == 500
    # Each of them, and those at the head that have an owner; each again by its id.
    assert read <= 2 * 500 + OWNED


@pytest.mark.parametrize(
    ("statement", "nobody", "arguments"),
    [
        ("find_lanes", "null, null, '{}', '{}', true", "null, null, '{}', '{}', true"),
        ("sweep_lanes", "'{1}', '{0}', 9", "array[%(lane)s], '{0}', 1000000"),
        ("look_up_held", "'{1}', '{1}', '{1}'", "array[%(lane)s], array[%(pos)s], array[%(pos)s * 7]"),
        ("release_claim", "1, 1, 0", "%(lane)s, %(pos)s * 7, %(pos)s"),
        ("find_claimed", "1, 1, 0", "%(lane)s, %(pos)s * 7, %(pos)s"),
    ],
)
async def test_what_a_daemon_planned_when_there_were_no_jobs_reads_few_rows(
    db: ClonedDatabase, sql: Connection, statement: str, nobody: str, arguments: str
) -> None:
    await sql.execute("alter table wakeful.ready set (autovacuum_enabled = false)")
    await fill(sql)
    await sql.execute("delete from wakeful.ready; delete from wakeful.dedupe")
    await sql.execute("vacuum analyze wakeful.ready")
    opened = await open_connection(DatabaseSettings(dsn=db.dsn), application="wakeful")
    daemon = opened.connection
    try:
        await daemon.execute("set plan_cache_mode = force_generic_plan")
        await daemon.execute(f"prepare planned as {statements()[statement]}")
        for _ in range(6):
            await daemon.execute(f"execute planned ({nobody})")
        await fill(sql)
        first = await sql.fetchrow("select lane_id as lane, pos from wakeful.ready order by lane_id, pos")
        assert first is not None
        async with daemon.transaction():
            before = (await rows_read_by(daemon))["ready"]
            await daemon.execute(f"execute planned ({arguments % dict(first)})")
            read = (await rows_read_by(daemon))["ready"] - before
    finally:
        await daemon.close()

    # At most those at the head of each lane that have an owner, more than once, and what is looked for in the lane.
    assert read <= (
        JOBS_A_LANE + 1 if statement in {"release_claim", "find_claimed"} else 4 * LANES * OWNED
    ), read


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
    plan = await owned.plan("find_lanes", "null", "null", "'{}'", "'{}'", "true")

    assert plan["Actual Rows"] == LANES
    assert all("Seq Scan" not in one for one in reads_of(plan, "ready"))
    assert pages_read(plan) < LANES * OWNED


@pytest.mark.case("I19")
@pytest.mark.parametrize("others", ["true", "false"])
async def test_looking_for_lanes_that_are_known_reads_what_is_behind_their_cursors_only(
    owned: Owned, others: str
) -> None:
    lanes, cursors = await heads(owned.sql)
    plan = await owned.plan("find_lanes", "null", "null", lanes, cursors, others)

    assert plan["Actual Rows"] == LANES
    assert all("ready_pkey (" in one and "lane_id" in one for one in reads_of(plan, "ready"))
    assert pages_read(plan) < 20 * LANES


async def test_a_sweep_reads_what_is_behind_its_floors_only(owned: Owned) -> None:
    lanes, cursors = await heads(owned.sql)
    plan = await owned.plan("sweep_lanes", lanes, cursors, "9223372036854775807")

    assert plan["Actual Rows"] == LANES
    assert not_by_key(plan, "ready") == []
    assert pages_read(plan) < 10 * LANES


async def heads(sql: Connection) -> tuple[str, str]:
    """Each lane with the position of its last owned row, as SQL literals."""
    rows = await sql.fetch(
        "select lane_id, max(pos) as pos from wakeful.ready where owner is not null group by 1 order by 1"
    )
    return tuple(  # type: ignore[return-value]
        f"array[{','.join(str(row[column]) for row in rows)}]::bigint[]" for column in ("lane_id", "pos")
    )


CROWD = 20_000


@pytest.mark.case("F16")
@pytest.mark.parametrize("crowd", ["running", "dead"])
async def test_behind_a_cursor_a_claim_costs_the_same_whatever_lies_at_the_head(
    mode: Mode, db: ClonedDatabase, sql: Connection, crowd: str
) -> None:
    """Rows that run, or rows that are finished and that a snapshot from before still sees."""
    await sql.execute("alter table wakeful.ready set (autovacuum_enabled = false)")
    await register(sql)
    await enqueue_some(sql, "CROWDED", CROWD)
    await sql.execute("update wakeful.ready set owner = 77, claim = 1")
    reader = await db.connect()
    async with reader.transaction(isolation="repeatable_read"):
        await reader.fetchval("select count(*) from wakeful.ready")
        if crowd == "dead":
            await sql.execute("delete from wakeful.ready")
        cursor = await sql.fetchval("select last_value from wakeful.position")
        crowded, calm = await enqueue_some(sql, "CROWDED", 200), await enqueue_some(sql, "CALM", 200)

        async def pages(statement: str, *arguments: object) -> int:
            return pages_read(await plan_of(sql, mode, statement, *map(str, arguments)))

        claim = (100, 77, 1, 123, "false")
        free = await pages("claim_jobs", f"({calm})::bigint", *claim, 0, "null")
        behind = await pages("claim_jobs", f"({crowded})::bigint", *claim, cursor, "null")
        from_the_head = await pages("claim_jobs", f"({crowded})::bigint", *claim, 0, "null")
        sweep = await pages("sweep_lanes", f"array[{crowded}]", f"array[{cursor}]", 2 * cursor)

    assert behind <= 1.2 * free
    assert from_the_head > 2 * free
    assert sweep < 20


async def enqueue_some(sql: Connection, job_type: str, jobs: int) -> int:
    """Enqueue so many jobs; gives their lane."""
    await sql.execute(
        """select wakeful.enqueue_many(jsonb_agg(jsonb_build_object('job_type', $1::text)), false)
           from generate_series(1, $2::integer)""",
        *(job_type, jobs),
    )
    lane: int = await sql.fetchval("select wakeful.lane_id('default', 'normal', $1, null, false)", job_type)
    return lane


def not_by_key(plan: dict[str, object], table: str) -> list[str]:
    """Reads of a table that are neither by row id nor by the whole primary key."""
    key = {"ready": ("ready_pkey", "pos"), "dedupe": ("dedupe_pkey", "key")}[table]
    return [
        one
        for one in reads_of(plan, table)
        if not one.startswith("Tid Scan") and not all(part in one for part in key)
    ]
