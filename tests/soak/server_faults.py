"""Faults of the server: what is done to it, or by other sessions on it, and undone."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import anyio
from anyio.to_thread import run_sync

from soak.daemon_faults import Kind
from soak.plan import ANY, Planned
from soak.producing import AGAIN_SECONDS, BROKEN
from soak.stage import DATABASE, WORKER, Stage
from wakeful.embedded import StopMode

OTHERS = (
    "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    " and backend_type = 'client backend'"
)


async def terminate(stage: Stage, planned: Planned) -> None:
    """End each session with a chance of one in two, several times over."""
    for _ in range(3):
        async with stage.connected() as admin:
            await admin.execute(f"select pg_terminate_backend(pid) {OTHERS} and random() < 0.5")
        await anyio.sleep(planned.seconds / 3)


async def restart(stage: Stage, planned: Planned) -> None:
    """Stop the server in order, and start it after a while."""
    await _restart(stage, StopMode.FAST, planned.seconds)


async def crash(stage: Stage, planned: Planned) -> None:
    """Stop the server as in a crash, and start it after a while."""
    await _restart(stage, StopMode.IMMEDIATE, planned.seconds)


async def _restart(stage: Stage, mode: StopMode, seconds: float) -> None:
    postmaster = stage.cluster.postmaster
    await run_sync(postmaster.stop, mode)
    await anyio.sleep(seconds)
    server = None
    while server is None:
        await run_sync(postmaster.prepare)
        postmaster.launch()  # here: the kernel ends it with the thread that started it
        server = await run_sync(postmaster.wait_ready)


async def connection_limit(stage: Stage, planned: Planned) -> None:
    """Cut the daemons' sessions and let only two of them connect."""
    try:
        async with stage.connected() as admin:
            await admin.execute(f"alter role {WORKER} connection limit 2")
            await admin.execute(f"select pg_terminate_backend(pid) {OTHERS} and usename = '{WORKER}'")
        await anyio.sleep(planned.seconds)
    finally:
        await _undo(stage, f"alter role {WORKER} connection limit -1")


async def read_only(stage: Stage, planned: Planned) -> None:
    """Let each new session refuse to write, and cut the old ones; and the other way round."""
    setting = f"alter database {DATABASE} set default_transaction_read_only"
    cut = f"select pg_terminate_backend(pid) {OTHERS}"
    try:
        async with stage.connected() as admin:
            await admin.execute(f"{setting} = on")
            await admin.execute(cut)
        await anyio.sleep(planned.seconds)
    finally:
        await _undo(stage, "set default_transaction_read_only = off", f"{setting} = off", cut)


async def _undo(stage: Stage, *statements: str) -> None:
    """Try until it is done: the server may be away for another fault."""
    while True:
        try:
            async with stage.connected() as admin:
                for statement in statements:
                    await admin.execute(statement)
                return
        except BROKEN:
            await anyio.sleep(AGAIN_SECONDS)


async def lock_table(stage: Stage, planned: Planned) -> None:
    """Hold the strongest lock on the hot table."""
    async with stage.connected() as admin, admin.transaction():
        await admin.execute("lock table wakeful.ready in access exclusive mode")
        await anyio.sleep(planned.seconds)


async def lock_rows(stage: Stage, planned: Planned) -> None:
    """Hold locks on rows of running and waiting jobs, as a forgotten psql does."""
    async with stage.connected() as admin, admin.transaction():
        await admin.fetch(
            "select from wakeful.ready order by owner nulls last limit 50 for update skip locked"
        )
        await anyio.sleep(planned.seconds)


async def vacuum_full(stage: Stage, planned: Planned) -> None:
    """Write the tables of waiting jobs anew, each under the strongest lock."""
    async with stage.connected() as admin:
        for table in ("ready", "scheduled", "dedupe", "dead", "instance"):
            await admin.execute(f"vacuum full wakeful.{table}")


async def old_snapshot(stage: Stage, planned: Planned) -> None:
    """Hold a transaction open that has an id, so that nothing dead can be removed."""
    async with stage.connected() as admin, admin.transaction(isolation="repeatable_read"):
        await admin.execute("select pg_current_xact_id()")
        await anyio.sleep(planned.seconds)


SERVER_KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "terminate": Kind(
            of=ANY, act=terminate, what="`pg_terminate_backend` of half of all sessions, three times"
        ),
        "server_restart": Kind(of=ANY, act=restart, what="PostgreSQL stopped in order and started again"),
        "server_crash": Kind(
            of=ANY, act=crash, what="PostgreSQL stopped at once, as in a crash, and started again"
        ),
        "connection_limit": Kind(
            of=ANY, act=connection_limit, what="sessions cut, too few connections for all"
        ),
        "read_only": Kind(of=ANY, act=read_only, what="every session refuses to write"),
        "lock_table": Kind(of=ANY, act=lock_table, what="the hot table locked by somebody else"),
        "lock_rows": Kind(of=ANY, act=lock_rows, what="rows of fifty jobs locked by somebody else"),
        "vacuum_full": Kind(of=ANY, act=vacuum_full, what="`VACUUM FULL` of the tables of waiting jobs"),
        "old_snapshot": Kind(of=ANY, act=old_snapshot, what="a transaction held open"),
    }
)
