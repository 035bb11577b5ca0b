"""A streaming standby of a test's server, with a way to cut what streams, and to promote it as a failover does.

The standby is made by `pg_basebackup` and streams over a proxy of its own. A synchronous one has all that was ever
acknowledged; an asynchronous one whose stream was cut lacks what was committed last.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from support.cluster import SETTINGS, Cluster, execute
from support.eventually import eventually
from support.proxy import Mode, Proxy, running_proxy
from wakeful.embedded import Postmaster, Server, StopMode

_STANDBY = "select count(*) from pg_stat_replication where state = 'streaming' and sync_state = $1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """A standby that streams from `primary` through `stream`."""

    primary: Cluster
    postmaster: Postmaster
    server: Server
    stream: Proxy

    @property
    def socket(self) -> Path:
        """Its unix socket: what a proxy is switched to."""
        return self.server.socket_folder / self.primary.socket.name

    def cut(self) -> None:
        """Let nothing that is committed from now on reach it."""
        self.stream.set(Mode.BLACKHOLE)

    async def fail_over(self) -> None:
        """Kill the primary, and promote: what has not arrived is lost."""
        self.primary.postmaster.stop(StopMode.KILL)
        self.stream.reset()  # before anything that is held could pass
        self.stream.set(Mode.REFUSE)
        await execute(self.server.dsn, "select pg_promote(true, 60)")


@contextmanager
def running_standby(primary: Cluster, folder: Path, *, synchronous: bool) -> Iterator[Standby]:
    """Run a standby on an empty folder until the block ends; a synchronous one is waited for by each commit."""
    with running_proxy(primary.socket) as stream:
        _copy(primary, folder, stream)
        with Postmaster(folder, settings=SETTINGS, binaries=primary.binaries.folder) as postmaster:
            standby = Standby(
                primary=primary, postmaster=postmaster, server=postmaster.start(), stream=stream
            )
            yield standby


async def streaming(standby: Standby, *, synchronous: bool) -> None:
    """Wait until it streams; from then on commits wait for a synchronous one."""
    dsn = standby.primary.dsn()
    if synchronous:
        await execute(dsn, "alter system set synchronous_standby_names = '*'")
        await execute(dsn, "select pg_reload_conf()")
    connection = await asyncpg.connect(dsn)
    try:
        state = "sync" if synchronous else "async"
        await eventually(lambda: connection.fetchval(_STANDBY, state), timeout=30)
    finally:
        await connection.close()


def _copy(primary: Cluster, folder: Path, stream: Proxy) -> None:
    owner = primary.server.data.stat()
    folder.mkdir()
    program = [
        *(primary.binaries.program("pg_basebackup"), "--pgdata", str(folder / "cluster")),
        *("--write-recovery-conf", "--checkpoint=fast", "--wal-method=stream", "--no-sync"),
        *("--dbname", f"host=127.0.0.1 port={stream.port} user=postgres sslmode=disable"),
    ]
    subprocess.run(program, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    for path in (folder, *folder.rglob("*")):
        if os.geteuid() == 0:
            shutil.chown(path, owner.st_uid, owner.st_gid)
