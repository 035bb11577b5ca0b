"""A database whose name is pointed at another address, in a hosts file or by DNS: found at the next connect."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from support.canaries import QUICK, charged, enqueue
from support.cluster import Cluster
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually, looked
from support.hosts import hosts_file
from support.process import running_daemon
from support.proxy import Mode, running_proxy

NAME = "database.wakeful.test"
BEFORE, AFTER = "127.0.0.1", "127.0.0.2"


@pytest.mark.case("F82")
async def test_a_name_that_is_pointed_elsewhere_needs_no_restart(
    cluster: Cluster, db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    hosts = hosts_file(tmp_path)
    hosts.point(NAME, BEFORE)
    with (
        running_proxy(cluster.socket, host=BEFORE) as before,
        running_proxy(cluster.socket, host=AFTER, port=before.port) as after,
        running_daemon(
            before.dsn(db.name).replace(BEFORE, NAME), settings=QUICK, around=hosts.around
        ) as daemon,
    ):
        daemon.wait_for("daemon.started")
        daemon.wait_for("listener.connected")
        first = await enqueue(sql, "probe.ok")
        daemon.wait_for("job.finished", job_id=first)
        assert after.count == 0

        before.set(Mode.REFUSE)
        hosts.point(NAME, AFTER)
        before.reset()
        second = await enqueue(sql, "probe.ok")
        daemon.wait_for("job.finished", job_id=second, timeout=40)
        await eventually(
            looked(lambda: {link.application_name for link in after.links()}),
            until=lambda names: names >= {"wakeful", "wakeful beat", "wakeful listener"},
        )
        assert await charged(sql) == []
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 0
