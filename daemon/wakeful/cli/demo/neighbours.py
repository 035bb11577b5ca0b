"""Who else works in somebody's database, and what the demo leaves to them there.

Invariant: the demo never runs beside an instance that serves one of its job types: each would take the other's jobs, or
change what an enqueue of the type means. Where anybody else works at all, the demo is a guest: it prunes, fails and
tells nothing of theirs, and raises no alert of its own on purpose.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection

from wakeful.cli.exits import CommandFailed
from wakeful.store import reads
from wakeful.store.database import Database
from wakeful.store.reads import InstanceSeen


async def is_guest(database: Database, *, queue: str, job_types: Collection[str]) -> bool:
    """Whether others work here. Raises CommandFailed where the demo can't, with who is in the way."""
    alive = [one for one in await reads.list_instances(database) if _may_be_alive(one)]
    for one in alive:
        shared = sorted(set(job_types) & set(one.job_types))
        if shared or one.every_type:
            raise CommandFailed(
                f"in this database {_named(one)} serves {', '.join(shared) or 'every type'}: "
                "beside it the demo would take its jobs, and it the demo's",
                hint=_hint(one),
            )
    return bool(alive) or await reads.has_jobs_elsewhere(database, queue)


def _may_be_alive(one: InstanceSeen) -> bool:
    if one.state == "dead" or one.lease_left < 0:
        return False
    return one.host != socket.gethostname() or _is_running(one.pid)


def _is_running(pid: int) -> bool:
    if pid == os.getpid():
        return False  # a number that came round again, as in a container: it is ours now
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _named(one: InstanceSeen) -> str:
    return f"the instance {one.name} (process {one.pid} on {one.host})"


def _hint(one: InstanceSeen) -> str:
    return (
        "stop it first, or use another database; if it was killed, it is out of the way when its lease ends, "
        f"in {one.lease_left:.0f} s"
    )
