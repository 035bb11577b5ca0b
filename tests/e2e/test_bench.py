"""`python -m bench`: one small run from its server to its file, and daemons that end while they are measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from bench.daemons import DaemonEnded, daemons
from bench.stage import Cluster, Stage

from support.databases import ClonedDatabase, Connection
from support.sources import TOP


def test_a_run_measures_on_a_server_of_its_own_and_writes_what_it_found(tmp_path: Path) -> None:
    sizes = ("--set", "jobs=200", "--set", "singles=20", "--rounds", "1")
    run = subprocess.run(
        [sys.executable, "-m", "bench", "bare", "drain", "wal", *sizes, "--out", tmp_path],
        cwd=TOP,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    (written,) = tmp_path.glob("results-*.json")
    found = json.loads(written.read_text())
    figures = {one["name"]: one for one in found["figures"]}
    for name in (
        "bare: rate",
        "drain: rate",
        "drain: WAL a job",
        "drain / bare",
        "wal: whole life, with history",
    ):
        assert figures[name]["median"] > 0
        assert figures[name]["how"]
        assert f"{name} " in run.stdout
    for surrounding in ("machine", "Python", "PostgreSQL", "asyncpg", "uvloop"):
        assert found["machine"][surrounding] in run.stdout


def stage_on(db: ClonedDatabase, folder: Path) -> Stage:
    """A database of these tests as the benchmarks see one."""
    server = db.cluster.server
    cluster = Cluster(
        socket_folder=server.socket_folder, pid=server.pid, folder=folder, binaries=db.cluster.binaries.folder
    )
    return Stage(cluster=cluster, database=db.name)


async def test_a_daemon_that_does_not_start_is_told_with_what_it_said(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    with pytest.raises(DaemonEnded, match=r"worker\.concurrency"):
        async with daemons(stage_on(db, tmp_path), sql, settings={"worker__concurrency": "many"}):
            raise AssertionError("it has started")


async def test_a_daemon_that_ends_ends_the_wait_for_it(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    async def wait_for_one_that_is_killed() -> None:
        async with daemons(stage_on(db, tmp_path), sql) as (process,):
            process.kill()
            await anyio.sleep_forever()

    with pytest.raises(DaemonEnded):
        await wait_for_one_that_is_killed()
