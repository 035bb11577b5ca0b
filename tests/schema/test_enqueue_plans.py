"""An enqueue finds what it looks up by its key, however much there is, also with plans from when there was nothing."""

from __future__ import annotations

import pytest

from support.databases import ClonedDatabase, Connection

LOOKED_UP = ("installation", "job_type", "lane", "lane_seen", "dedupe", "ready", "scheduled")
CALLS = {
    "single": """select wakeful.enqueue('T7', '{"place_id": "p"}', dedupe_key => 'new ' || clock_timestamp()),
                        wakeful.enqueue('T8', queue => 'q8', dedupe_key => 'k8'),
                        wakeful.enqueue('T9', queue => 'q9', run_after => now() + interval '1 hour'),
                        wakeful.enqueue('unknown', queue => 'new ' || clock_timestamp())""",
    "many": """select wakeful.enqueue_many((
                   select jsonb_agg(jsonb_build_object(
                       'job_type', 'T' || n, 'queue', 'q' || n / 2,
                       'dedupe_key', case when n % 3 > 0 then 'k' || n end))
                   from generate_series(1, 100) as n))""",
}


@pytest.mark.parametrize("when", ["planned empty", "planned full", "analyzed"])
@pytest.mark.parametrize("call", CALLS)
async def test_an_enqueue_looks_up_by_keys_only(
    db: ClonedDatabase, sql: Connection, call: str, when: str
) -> None:
    for table in LOOKED_UP:
        await sql.execute(f"alter table wakeful.{table} set (autovacuum_enabled = false)")
    if when == "planned empty":
        for _ in range(7):
            await sql.fetch(CALLS[call])
    await fill(await db.connect())
    if when == "analyzed":
        await sql.execute(f"analyze {', '.join(f'wakeful.{table}' for table in LOOKED_UP)}")

    async with sql.transaction():
        before = await rows_read(sql)
        await sql.fetch(CALLS[call])
        after = await rows_read(sql)

    walked = {table for table in LOOKED_UP if after[table][0] > before[table][0]}
    fetched = {table for table in LOOKED_UP if after[table][1] - before[table][1] > 300}
    assert (walked, fetched) == (set(), set())


async def fill(sql: Connection) -> None:
    """Three thousand of each thing that is looked up."""
    await sql.execute(
        """insert into wakeful.job_type (
               job_type, hash, queue, priority, max_attempts, deadline, lease, secret_paths, history, steps)
           select 'T' || n, '', 'default', 'normal', 5, '1 h', '30 s', '{}', true, '{}'
           from generate_series(1, 3000) as n;
           insert into wakeful.lane (lane_id, queue, priority, job_type, suspect)
           select wakeful.lane_id('q' || n, 'normal', 'T' || n, null, false), 'q' || n, 'normal', 'T' || n, false
           from generate_series(1, 3000) as n;
           insert into wakeful.lane_seen (lane_id, queue, priority, job_type, suspect)
           select n, 'r' || n, 'normal', 'T' || n, false from generate_series(1, 3000) as n;
           insert into wakeful.dedupe (key, job_id)
           select 'k' || n, wakeful.uuid7() from generate_series(1, 3000) as n on conflict do nothing"""
    )


async def rows_read(sql: Connection) -> dict[str, tuple[int, int]]:
    """Rows read in this transaction by walking through a table, and by its indexes."""
    rows = await sql.fetch(
        """select relname, seq_tup_read, coalesce(idx_tup_fetch, 0)
           from pg_stat_xact_user_tables where schemaname = 'wakeful'"""
    )
    return {row[0]: (row[1], row[2]) for row in rows}
