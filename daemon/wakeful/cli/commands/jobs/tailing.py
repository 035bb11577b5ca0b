"""`wakeful jobs tail`: the steps of jobs as they go on; only what has changed is printed.

Invariant: looking costs the database at most a fifth of the time. An outage is said once and waited for: it ends a
tail as little as it ends a job.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import anyio

from wakeful.cli import exits
from wakeful.cli.commands.jobs.documents import step_text, steps_of
from wakeful.cli.commands.jobs.selecting import add_ids
from wakeful.cli.commands.jobs.showing import no_such_job
from wakeful.cli.database import with_database
from wakeful.cli.options import Commands, add_command
from wakeful.cli.terminal import say, show, to_json, visible
from wakeful.errors import StoreUnavailable
from wakeful.store import reads
from wakeful.store.database import Database
from wakeful.store.reads import JobRow
from wakeful.telemetry.redaction import Redactor

LOOK_SECONDS: Final = 0.5
_REST_PER_LOOK: Final = 4.0
_WATCHED_AT_MOST: Final = 200
_ENDED: Final = frozenset({"DONE", "DEAD", "CANCELLED"})

Step = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something about a job that was not so at the last look: its status, or (where there is one) a step."""

    row: JobRow
    step: Step | None


@dataclass(slots=True)
class Watch:
    """What was seen of jobs so far."""

    _states: dict[UUID, tuple[str, int]] = field(default_factory=dict)
    _steps: dict[UUID, dict[object, Step]] = field(default_factory=dict)

    def changes(self, rows: Iterable[JobRow]) -> Iterator[Change]:
        """Give what is new in these rows; a step that has not begun is nothing new."""
        for row in rows:
            job_id, state = row["job_id"], (row["status"], row["run_no"])
            steps = {step.get("name"): step for step in steps_of(row["progress"])}
            before = self._steps.get(job_id, {}) if self._states.get(job_id, state)[1] == state[1] else {}
            begun = [
                step
                for name, step in steps.items()
                if step.get("status") != "pending" and step != before.get(name)
            ]
            is_new = self._states.get(job_id) != state
            self._states[job_id], self._steps[job_id] = state, steps
            # A job that has ended is told of after its last step, one that goes on before its next.
            if is_new and row["status"] not in _ENDED:
                yield Change(row=row, step=None)
            yield from (Change(row=row, step=step) for step in begun)
            if is_new and row["status"] in _ENDED:
                yield Change(row=row, step=None)

    def unfinished(self) -> list[UUID]:
        """The jobs seen that had not ended."""
        return [job_id for job_id, (status, _) in self._states.items() if status not in _ENDED]

    def has_seen(self) -> bool:
        """Whether any job was ever seen."""
        return bool(self._states)

    def knows(self, job_id: UUID) -> bool:
        """Whether this job was ever seen."""
        return job_id in self._states

    def end(self, job_id: UUID) -> bool:
        """Note that no table holds a job any more; False where its end was seen before."""
        status, run_no = self._states[job_id]
        self._states[job_id] = ("DONE", run_no)
        return status not in _ENDED


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "tail",
        run,
        summary="show the steps of jobs as they go on, until they have ended; without ids, of whatever runs",
        example="wakeful jobs tail 01980f3e-7a10-7cc0-b1f0-3d0c5a4f9e21",
    )
    add_ids(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print changes. JSON: one object a line."""

    return with_database(arguments, lambda database: _tail(database, arguments))


async def _tail(database: Database, arguments: argparse.Namespace) -> int:
    watch, never = Watch(), anyio.Event()
    job_ids: list[UUID] = list(dict.fromkeys(arguments.job_ids))
    is_away = False
    while True:
        began = time.monotonic()
        try:
            await _look(database, watch, job_ids, as_json=arguments.json)
        except StoreUnavailable as error:
            if not watch.has_seen():
                raise
            if not is_away:
                say(f"the database is away, waiting for it ({visible(Redactor().text(str(error)))})")
            is_away = True
            await database.available(never)
            continue
        is_away = False
        if job_ids and not watch.unfinished():
            return exits.OK
        await anyio.sleep(max(LOOK_SECONDS, _REST_PER_LOOK * (time.monotonic() - began)))


async def _look(database: Database, watch: Watch, job_ids: list[UUID], *, as_json: bool) -> None:
    wanted = job_ids or await _running(database, watch)
    rows = await reads.watch_jobs(database, wanted)
    for change in watch.changes(rows):
        show(_json(change) if as_json else _text(change))
    sys.stdout.flush()
    _tell_gone(watch, set(wanted) - {row["job_id"] for row in rows})


async def _running(database: Database, watch: Watch) -> list[UUID]:
    found = await reads.find_running(database, limit=_WATCHED_AT_MOST)
    return list(dict.fromkeys([*watch.unfinished(), *found]))


def _tell_gone(watch: Watch, gone: set[UUID]) -> None:
    for job_id in sorted(gone):
        if not watch.knows(job_id):
            raise no_such_job(job_id)
        if watch.end(job_id):
            say(f"{job_id} has ended, and is not kept")


def _text(change: Change) -> str:
    row, step = change.row, change.step
    head = f"{datetime.now().astimezone():%H:%M:%S}  {row['job_id']}  {visible(row['job_type'])}"
    if step is not None:
        return f"{head}  {visible(step_text(step))}"
    if row["status"] == "RUNNING":
        return f"{head}  RUNNING, attempt {row['attempts']} of {row['max_attempts']}"
    error = (row["last_error"] or "").partition("\n")[0] if row["status"] != "DONE" else ""
    return f"{head}  {row['status']}  {visible(error)}".rstrip()


def _json(change: Change) -> str:
    row = change.row
    return to_json(
        {
            "job_id": str(row["job_id"]),
            "job_type": row["job_type"],
            "status": row["status"],
            "attempt": row["attempts"],
            "run_no": row["run_no"],
            "step": change.step,
        }
    )
