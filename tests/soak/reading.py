"""From the ledger, the book and the database to evidence."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from soak.evidence import Enqueued, Evidence, Execution, Lifetime, Row, Told
from support.databases import Connection

ENDS = ("END", "FAILED", "CANCELLED")
ROWS = """
with jobs as (
    select job_id, job_type, 'ready' as home, case when owner is null then 'PENDING' else 'RUNNING' end as status,
           attempts, max_attempts, run_no, lost, null::jsonb as result, payload from wakeful.ready
    union all
    select job_id, job_type, 'scheduled', 'PENDING', attempts, max_attempts, run_no, lost, null, payload
    from wakeful.scheduled
    union all
    select job_id, job_type, 'dead', 'DEAD', attempts, max_attempts, run_no, lost, null, payload from wakeful.dead
    union all
    select job_id, job_type, 'finished', status, attempts, max_attempts, run_no, coalesce(lost, 0), result, payload
    from wakeful.finished
)
select j.job_id::text, j.job_type, j.home, j.status, j.attempts, j.max_attempts, j.run_no, j.lost, j.result,
       j.payload ->> 'parent' as parent, p.run_no as progress_run_no,
       jsonb_array_length(jsonb_path_query_array(p.document, '$.steps[*] ? (@.status == "done")')) as steps_done
from jobs j
left join wakeful.progress p on p.job_id = j.job_id"""
TOLD = "select job_id::text, alert_id is not null as folded from wakeful.alert_outbox where kind = 'job_dead'"
OCCURRENCES = "select coalesce(sum(occurrences), 0)::bigint from wakeful.alert where kind = 'job_dead'"

Line = Mapping[str, object]


def executions(lines: Iterable[Line], lifetimes: Sequence[Lifetime]) -> list[Execution]:
    """One execution a START; one without an end ended with its process."""
    starts: dict[object, Line] = {}
    ends: dict[object, Line] = {}
    deaf: dict[object, float] = {}
    for line in lines:
        if line["what"] == "START":
            starts[line["nonce"]] = line
        elif line["what"] in ENDS:
            ends[line["nonce"]] = line
        elif line["what"] == "DEAF":
            deaf.setdefault(line["nonce"], float(str(line["at"])))
    return [
        replace(_execution(start, ends.get(nonce), lifetimes), deaf=deaf.get(nonce, math.inf))
        for nonce, start in starts.items()
    ]


def _execution(start: Line, end: Line | None, lifetimes: Sequence[Lifetime]) -> Execution:
    began = float(str(start["at"]))
    return Execution(
        job_id=str(start["job_id"]),
        job_type=str(start["job_type"]),
        run_no=int(str(start["run_no"])),
        nonce=str(start["nonce"]),
        slot=str(start["tag"]),
        pid=int(str(start["pid"])),
        began=began,
        ended=_process_end(str(start["tag"]), began, lifetimes) if end is None else float(str(end["at"])),
        how="KILLED" if end is None else str(end["what"]),
        error="" if end is None else str(end.get("error", "")),
        early=bool(start.get("early")),
    )


def _process_end(slot: str, began: float, lifetimes: Sequence[Lifetime]) -> float:
    """The end of the process of the slot that ran then; a handler in a process of its own ends with its daemon."""
    ends = [life.ended for life in lifetimes if life.slot == slot and life.began <= began <= life.ended]
    return min(ends, default=float("inf"))


async def evidence(
    connection: Connection,
    *,
    lines: Iterable[Line],
    enqueued: Sequence[Enqueued],
    lifetimes: Sequence[Lifetime],
) -> Evidence:
    """What the database and the ledgers say, when all is over."""
    return Evidence(
        executions=executions(lines, lifetimes),
        enqueued=enqueued,
        rows=[_row(dict(record)) for record in await connection.fetch(ROWS)],
        told=[Told(job_id=one["job_id"], folded=one["folded"]) for one in await connection.fetch(TOLD)],
        occurrences=await connection.fetchval(OCCURRENCES),
        keys_left=[one["key"] for one in await connection.fetch("select key from wakeful.dedupe")],
        lifetimes=lifetimes,
    )


def _row(record: Mapping[str, object]) -> Row:
    result = json.loads(str(record["result"] or "null")) or {}
    return Row(
        job_id=str(record["job_id"]),
        job_type=str(record["job_type"]),
        table=str(record["home"]),
        status=str(record["status"]),
        attempts=int(str(record["attempts"])),
        max_attempts=int(str(record["max_attempts"])),
        run_no=int(str(record["run_no"])),
        lost=int(str(record["lost"])),
        result_run_no=result.get("run_no"),
        result_nonce=result.get("nonce"),
        parent=None if record["parent"] is None else str(record["parent"]),
        progress_run_no=None if record["progress_run_no"] is None else int(str(record["progress_run_no"])),
        steps_done=int(str(record["steps_done"] or 0)),
    )
