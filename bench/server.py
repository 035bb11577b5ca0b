"""What the server did between two moments: WAL with its full-page images apart, processor time, statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.processes import tree_cpu_seconds
from bench.stage import Connection, Stage

# Size of records, and of full-page images, between two places in the WAL.
WAL_BETWEEN = """
select coalesce(sum(record_size), 0)::float8, coalesce(sum(fpi_size), 0)::float8
from pg_get_wal_stats($1::pg_lsn, $2::pg_lsn, false)
"""


# Known by what only they say, since comments are not kept; constants are by then parameters.
SAYS: Mapping[str, str] = {
    "claim": "%as snoozed_s%as wait_s%",
    "finish": "%insert into wakeful.finished (%",
    "look": "%as suspect%",
    "enqueue": "%wakeful.enqueue(%",
}
COSTS = """
select coalesce(sum(calls), 0)::bigint as calls, coalesce(sum(rows), 0)::bigint as rows,
       coalesce(sum(total_exec_time), 0)::float8 as milliseconds, coalesce(sum(wal_bytes), 0)::float8 as wal
from pg_stat_statements
where toplevel and query like $1 and query not like 'create %'
  and dbid = (select oid from pg_database where datname = current_database())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one statement took so far: calls, rows, milliseconds in the server, bytes of WAL."""

    calls: int
    rows: int
    milliseconds: float
    wal: float

    def __sub__(self, other: Cost) -> Cost:
        """What it took between two moments."""
        return Cost(
            calls=self.calls - other.calls,
            rows=self.rows - other.rows,
            milliseconds=self.milliseconds - other.milliseconds,
            wal=self.wal - other.wal,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment: place in the WAL, processor seconds of the whole server, statements that ran in this database."""

    lsn: int
    cpu: float
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wal:
    """Bytes of WAL between two moments: records without full-page images, and these."""

    records: float
    images: float


async def mark(here: Stage, connection: Connection) -> Mark:
    """Remember this moment."""
    lsn = await connection.fetchval("select pg_current_wal_insert_lsn()")
    calls = await connection.fetchval(
        "select coalesce(sum(calls), 0)::bigint from pg_stat_statements"
        " where toplevel and dbid = (select oid from pg_database where datname = current_database())"
    )
    return Mark(lsn=lsn, cpu=tree_cpu_seconds(here.cluster.pid), calls=calls)


async def cost_of(connection: Connection, statement: str) -> Cost:
    """What the statement of this name (of SAYS) took in this database so far."""
    row = await connection.fetchrow(COSTS, SAYS[statement])
    assert row is not None, "an aggregate has a row"
    return Cost(**row)


async def wal_between(connection: Connection, first: Mark, last: Mark) -> Wal:
    """Read the WAL itself: nothing in it is hidden by a later checkpoint's full-page images."""
    await connection.execute("select pg_switch_wal()")  # so that all of it lies in the past
    row = await connection.fetchrow(WAL_BETWEEN, first.lsn, last.lsn)
    assert row is not None, "an aggregate has a row"
    return Wal(records=row[0], images=row[1])
