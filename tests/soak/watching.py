"""Looks at a running soak: throughput from the ledger, rows without an owner, and what the fleet uses."""

from __future__ import annotations

import json
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from soak.evidence import Orphan, Usage
from soak.producing import BROKEN
from soak.stage import WORKER, Stage
from support.databases import Connection

QUICK = "soak.quick"
WINDOW_SECONDS = 1.5
STEP_SECONDS = 0.1
SHARE = 0.95
LOOK_SECONDS = 0.5

ORPHANS = """select r.job_id::text, r.run_no, r.claim,
       extract(epoch from clock_timestamp() - i.beat_at)::double precision as silent
from wakeful.ready r
left join wakeful.instance i on i.instance_id = r.owner
left join wakeful.job_type t on t.job_type = r.job_type
where r.owner is not null
  and (i.instance_id is null or i.state = 'dead'
       or i.beat_at + coalesce(t.lease, interval '30 seconds') < clock_timestamp())"""


LIVE = """select count(distinct pid) from wakeful.instance
where state = 'live' and pid = any ($1::integer[]) and beat_at > clock_timestamp() - make_interval(secs => $2)"""


@dataclass(slots=True)
class Finishes:
    """When quick jobs came to their end, as the ledger says, read on as it grows."""

    ledger: Path
    at: list[float] = field(default_factory=list)
    _read: int = 0
    _rest: bytes = b""

    def read(self) -> None:
        """Read what is new."""
        if not self.ledger.exists():
            return
        with self.ledger.open("rb") as ledger:
            ledger.seek(self._read)
            new = ledger.read()
        self._read += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        self.at += [
            float(json.loads(line)["at"]) for line in lines if b'"END"' in line and QUICK.encode() in line
        ]
        self.at.sort()


def back_after(
    arrivals: Sequence[float], ends: Sequence[float], *, since: float, until: float, rate: float
) -> float | None:
    """Give the seconds after `since` from which on, for a window, 95 % of what arrived was done; None: not by `until`.

    A window in which producers could not enqueue most of `rate` says nothing.
    """
    began = since
    while began + WINDOW_SECONDS <= until:
        arrived = _within(arrivals, began, began + WINDOW_SECONDS)
        done = _within(ends, began, began + WINDOW_SECONDS)
        if arrived >= 0.8 * rate * WINDOW_SECONDS and done >= SHARE * arrived:
            return began - since
        began += STEP_SECONDS
    return None


def _within(times: Sequence[float], begin: float, end: float) -> int:
    return bisect_right(times, end) - bisect_left(times, begin)


@dataclass(slots=True)
class OrphanWatch:
    """Looks for RUNNING rows of owners that are silent or gone."""

    stage: Stage
    seen: list[Orphan] = field(default_factory=list)
    looks: int = 0
    _first: dict[tuple[str, int], float] = field(default_factory=dict)

    async def run(self, stop: anyio.Event) -> None:
        """Look until told to stop; while the server is away there is nothing to see."""
        while not stop.is_set():
            try:
                async with self.stage.connected() as connection:
                    while not stop.is_set():
                        await self._look(connection)
                        await anyio.sleep(LOOK_SECONDS)
            except BROKEN:
                await anyio.sleep(LOOK_SECONDS)

    async def _look(self, connection: Connection) -> None:
        rows = await connection.fetch(ORPHANS, timeout=5)
        now = time.monotonic()
        self.looks += 1
        keys = [(row["job_id"], row["claim"]) for row in rows]
        self._first = {key: self._first.get(key, now) for key in keys}
        for row, key in zip(rows, keys, strict=True):
            silent = row["silent"] if row["silent"] is not None else now - self._first[key]
            self.seen.append(Orphan(job_id=row["job_id"], run_no=row["run_no"], at=now, silent=silent))


async def is_whole(stage: Stage) -> bool:
    """Whether every daemon that runs now is registered, beats, and is not about to end."""
    pids = [slot.pid() for slot in stage.fleet.slots.values()]
    try:
        async with stage.connected() as connection:
            live: int = await connection.fetchval(LIVE, pids, stage.plan.timing.watch, timeout=5)
    except BROKEN:
        return False
    return live == len(pids)


async def usage(stage: Stage) -> Usage:
    """What the fleet uses now, and what the tables take."""
    async with stage.connected() as connection:
        connections = await connection.fetchval(
            "select count(*) from pg_stat_activity where usename = $1", WORKER
        )
        tables = await connection.fetch(
            "select relname, pg_total_relation_size(oid) as size from pg_class"
            " where relnamespace = 'wakeful'::regnamespace and relkind = 'r' and relname !~ '^finished'"
        )
        rows = {
            row["relname"]: await connection.fetchval(f"select count(*) from wakeful.{row['relname']}")
            for row in tables
        }
    pids = {slot.name: slot.pid() for slot in stage.fleet.slots.values()}
    statuses = {name: _status(pid) for name, pid in pids.items() if pid is not None}
    return Usage(
        connections=connections,
        megabytes={name: status["VmRSS"] / 1024 for name, status in statuses.items()},
        threads={name: int(status["Threads"]) for name, status in statuses.items()},
        table_bytes={row["relname"]: row["size"] for row in tables},
        table_rows=rows,
    )


def _status(pid: int) -> dict[str, float]:
    """The numbers that the kernel has about a process; memory in KiB."""
    fields = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {
        words[0].rstrip(":"): float(words[1]) for words in fields if len(words) > 1 and words[1].isdigit()
    }
