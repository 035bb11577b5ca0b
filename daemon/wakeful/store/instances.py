"""This process's row in `instance`, the heartbeat on it, and what its handlers declare.

Invariant: an id is never used twice, and the incarnation, a random number, is checked by every beat and claim, since a
sequence can go backwards when a server crashes (I4). Taking dead instances' jobs back is `store.upkeep`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from wakeful.core import jsontext
from wakeful.store.database import Database
from wakeful.store.jobs import Held


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What an instance says of itself. `lease` is the longest of its types', in seconds; `serves` maps type to hash.

    `sinks` and `critical_types` are those of its settings; `rules` is the hash of its settings of the alert rules.
    """

    name: str
    host: str
    pid: int
    version: str
    lease: float
    every_type: bool
    serves: Mapping[str, str]
    queues: Sequence[str]
    sinks: Sequence[str] = ()
    critical_types: Sequence[str] = ()
    rules: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How an instance is, as it says with each beat; all times in seconds, None: nothing to tell.

    `deaf_for`: its listener hears nothing; `blocked_for`, `blocked_by`: the worst standstill of its event loop of late
    and the job type that caused it; `clock_ahead`: of the database's, negative: behind; `free_workers`: idle ones.
    """

    deaf_for: float | None = None
    blocked_for: float | None = None
    blocked_by: str | None = None
    clock_ahead: float | None = None
    free_workers: int | None = None


NOTHING_TO_REPORT: Final = Report()


async def register(database: Database, registration: Registration, *, incarnation: int) -> int:
    """Make a row for this process, committed synchronously; gives the instance id."""
    row = await database.fetchrow(
        "register_instance",
        incarnation,
        registration.name,
        registration.host,
        registration.pid,
        registration.version,
        registration.lease,
        registration.every_type,
        jsontext.dumps(dict(registration.serves)),
        list(registration.queues),
        list(registration.sinks),
        list(registration.critical_types),
        registration.rules,
    )
    assert row is not None, "an insert without a condition returns its row"
    instance_id: int = row["instance_id"]
    return instance_id


async def beat(
    database: Database, owner: tuple[int, int], report: Report = NOTHING_TO_REPORT, *, deadline: float
) -> float | None:
    """Prove that `owner` is alive, and report how it is; gives the server's time in seconds. None: it was deposed."""
    row = await database.fetchrow(
        "beat",
        *owner,
        report.deaf_for,
        report.blocked_for,
        report.blocked_by,
        report.clock_ahead,
        report.free_workers,
        deadline=deadline,
    )
    return None if row is None else row["server_s"]


async def look_up_held(
    database: Database, held: Sequence[Held], *, deadline: float
) -> tuple[set[int], dict[int, str | None]]:
    """Indexes (from 0) of the claims that still hold, and of those whose cancellation was asked for, and why."""
    rows = await database.fetch(
        "look_up_held",
        [one.lane_id for one in held],
        [one.pos for one in held],
        [one.claim for one in held],
        deadline=deadline,
    )
    holding = {row["n"] - 1 for row in rows}
    return holding, {row["n"] - 1: row["cancel_reason"] for row in rows if row["cancel_requested"]}


async def drain(
    database: Database, owner: tuple[int, int], *, hot: Sequence[int] = (), deadline: float | None = None
) -> None:
    """Say that this instance claims nothing any more, and does not poll the lanes that it has marked `hot`."""
    await database.fetch("drain_instance", *owner, list(hot), deadline=deadline)


async def retire(database: Database, owner: tuple[int, int]) -> bool:
    """Remove this instance's row; False where it still holds a job, which the reaper will take back."""
    return await database.fetchval("retire_instance", *owner) is not None


async def publish(database: Database, declarations: Sequence[Mapping[str, object]]) -> list[str]:
    """Publish declarations ({job_type, hash, declaration}); gives the types whose declaration in force changed."""
    await database.fetch("publish_declarations", jsontext.dumps(list(declarations)))
    return [row["job_type"] for row in await database.fetch("refresh_job_types")]
