"""Jobs that lie ready before the clock starts, written by the producers' own function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.stage import Connection

BATCH = 20_000
# The padding is random, so that nothing compresses it; as hexadecimal digits, one byte each.
FILL = """
select count(*) from wakeful.enqueue_many(
    (select jsonb_agg(jsonb_build_object(
        'job_type', $1::text,
        'queue', ($4::text[])[1 + g % array_length($4::text[], 1)],
        'payload', case when $3::integer = 0 then jsonb_build_object('n', g) else
            jsonb_build_object('n', g, 'text', left((select string_agg(md5(random()::text || g || i), '')
                                                     from generate_series(0, $3::integer / 32) as i), $3::integer))
        end))
     from generate_series(1, $2::integer) as g), false)
"""
# From the first row of each lane to its last. Looked at by key, so that what looks takes nothing from what is measured
# where a snapshot keeps a million dead rows before them.
BY_KEY = "set enable_seqscan = off; set enable_bitmapscan = off"
AS_BEFORE = "reset enable_seqscan; reset enable_bitmapscan"
SPANS = """
select array_agg(lane_id), array_agg(first), array_agg(last)
from (select lane_id, min(pos) as first, max(pos) as last from wakeful.ready group by lane_id) as l
"""
LAST_GONE = """
select not exists (select from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as l (lane_id, first, last)
                   cross join lateral (select from wakeful.ready r
                                       where r.lane_id = l.lane_id and r.pos = l.last
                                       limit 1) as left_over)
"""
SPANS_GONE = """
select not exists (select from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as l (lane_id, first, last)
                   cross join lateral (select from wakeful.ready r
                                       where r.lane_id = l.lane_id and r.pos between l.first and l.last
                                       limit 1) as left_over)
"""
ALL_GONE = "select not exists (select from wakeful.ready) and not exists (select from wakeful.scheduled)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What to fill in: so many jobs of a type, over queues, each with so many bytes of payload (0: a number)."""

    jobs: int
    job_type: str = "bench.noop"
    payload: int = 0
    queues: Sequence[str] = ("default",)


async def fill(connection: Connection, load: Load) -> None:
    """Enqueue without waking anybody."""
    for begin in range(0, load.jobs, BATCH):
        number = min(BATCH, load.jobs - begin)
        await connection.fetch(FILL, load.job_type, number, load.payload, list(load.queues))


async def settle(connection: Connection) -> None:
    """Bring visibility and statistics up to date, as autovacuum would have done by now."""
    await connection.execute("vacuum (analyze) wakeful.ready")


async def close_queues(connection: Connection, queues: Sequence[str]) -> None:
    """Pause queues, so that daemons can start before the clock does."""
    for queue in queues:
        await connection.fetch("select wakeful.pause($1)", queue)


async def open_queues(connection: Connection, queues: Sequence[str]) -> None:
    """Open all of them at one moment."""
    await connection.fetch("select wakeful.resume(q) from unnest($1::text[]) as q", list(queues))
