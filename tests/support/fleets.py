"""Several daemons on one database, with leases of seconds; what is done to one of them is noted in the ledger.

All bounds that tests assert come from the settings here, by the ledger's clock; STALL is what a busy machine may take.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from support.databases import Connection
from support.eventually import eventually
from support.ledger import Ledger, Line, at_of
from support.process import Daemon, running_daemon

LEASE, BEAT, REAP, STALL = 3.0, 0.5, 0.5, 5.0
START: Final = 60.0  # a machine on which all else runs, too, takes its time for the first import
WATCH: Final = 3 * BEAT
SETTINGS: Final[Mapping[str, object]] = {
    "lease.default": f"{LEASE:g}s",
    "lease.long": f"{LEASE:g}s",
    "lease.beat": "500ms",
    "reaper.interval": "500ms",
    "poll.min": "100ms",
    "poll.max": "500ms",
    "drain.grace": "2s",
    "drain.interrupt": "1s",
}


class Fleet:
    """The daemons by their tags."""

    def __init__(self, dsn: str, ledger: Ledger, stack: ExitStack) -> None:
        self.dsn = dsn
        self.ledger = ledger
        self._stack = stack
        self.daemons: dict[str, Daemon] = {}

    def start(
        self, tag: str, *, dsn: str | None = None, around: tuple[str, ...] = (), **settings: object
    ) -> Daemon:
        """Start a daemon and wait until it serves; `settings` are named as `drain_grace`, and a tag is used once."""
        assert tag not in self.daemons
        given = {**SETTINGS, **{name.replace("_", ".", 1): value for name, value in settings.items()}}
        daemon = self._stack.enter_context(
            running_daemon(dsn or self.dsn, settings=given, ledger=self.ledger.path, tag=tag, around=around)
        )
        self.daemons[tag] = daemon
        daemon.wait_for("daemon.started", timeout=START)
        return daemon

    def kill(self, tag: str) -> None:
        """Kill it, and note that once it is gone."""
        self.daemons[tag].send(signal.SIGKILL)
        self.daemons[tag].exit_code()
        self.ledger.note("KILLED", tag=tag)

    def pause(self, tag: str) -> None:
        """Stop it as a whole."""
        self.daemons[tag].send(signal.SIGSTOP)
        self.ledger.note("PAUSED", tag=tag)

    def resume(self, tag: str) -> None:
        """Let it go on."""
        self.ledger.note("RESUMED", tag=tag)
        self.daemons[tag].send(signal.SIGCONT)

    def stop(self, tag: str) -> int:
        """Stop it with SIGTERM, and give its exit code."""
        self.daemons[tag].send(signal.SIGTERM)
        return self.daemons[tag].exit_code()

    async def noted(
        self, what: str, count: int = 1, *, timeout: float = 40.0, **fields: object
    ) -> list[Line]:
        """Wait until the ledger has so many lines of this kind with these fields."""

        async def look() -> list[Line]:
            return self.ledger.lines(what, **fields)

        return await eventually(look, until=lambda lines: len(lines) >= count, timeout=timeout)

    def killed_at(self, tag: str) -> float:
        """When it was killed."""
        return at_of(self.ledger.lines("KILLED", tag=tag)[0])


@contextmanager
def running_fleet(dsn: str, folder: Path) -> Iterator[Fleet]:
    """Give a fleet without daemons; all that are started in it end with the block."""
    with ExitStack() as stack:
        yield Fleet(dsn, Ledger(folder / "ledger"), stack)


async def enqueue(sql: Connection, job_type: str, *, options: str = "", **payload: object) -> str:
    """Enqueue a job; `options` as in SQL, such as "deadline => '2s'"."""
    more = f", {options}" if options else ""
    found = await sql.fetchval(
        f"select job_id::text from wakeful.enqueue($1, $2{more})", job_type, json.dumps(payload)
    )
    return str(found)


async def row_of(sql: Connection, job_id: str) -> dict[str, object]:
    """The job as the view shows it."""
    row = await sql.fetchrow("select * from wakeful.jobs where job_id = $1::uuid", job_id)
    assert row is not None
    return dict(row)


async def reached(sql: Connection, job_id: str, *statuses: str, timeout: float = 40.0) -> dict[str, object]:
    """Wait until the job has one of these statuses, and give its row."""
    return await eventually(
        lambda: row_of(sql, job_id), until=lambda row: row["status"] in statuses, timeout=timeout
    )
