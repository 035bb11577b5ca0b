"""A daemon in trouble of its own, whose jobs run all the same: others say so, from what it reports with its beat."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.clocks import FakeClock
from support.databases import ClonedDatabase, Connection
from support.dispatching import heard, pass_time, store_of
from support.eventually import eventually
from support.fleets import STALL, enqueue, reached, running_fleet
from support.proxy import Mode, Proxy
from support.ruling import MINUTE, evaluate, keys, titles
from wakeful.core.alert_settings import RuleSettings

SOON = {"listener_down": RuleSettings(over=1.0)}


@pytest.mark.case("F27", "F29")
async def test_a_blocked_loop_a_cut_listener_and_a_wrong_clock_are_told_and_so_is_their_end(
    db: ClonedDatabase, sql: Connection, proxy: Proxy, tmp_path: Path
) -> None:
    clock = FakeClock(tmp_path, "ahead", 60.0)
    with running_fleet(db.dsn, tmp_path) as fleet:
        fleet.start("ahead", around=clock.around, worker_name="ahead", worker_queues="elsewhere")
        fleet.start("ill", worker_name="ill", database_listen_dsn=proxy.dsn(db.name))
        proxy.set(Mode.REFUSE)
        proxy.reset()
        blocked = await enqueue(sql, "probe.block", seconds=2.5)
        await reached(sql, blocked, "DONE")
        async with store_of(db, heard()) as store:

            async def told() -> list[str]:
                await evaluate(store, **SOON)
                return await keys(sql)

            troubles = ["clock_skew:ahead", "listener_down:ill", "loop_blocked:ill"]
            await eventually(told, until=lambda found: found == troubles, timeout=30.0 + STALL)
            said = "\n".join(await titles(sql))
            assert "a handler of probe.block blocked it" in said
            assert "the clock of instance ahead is " in said
            assert " ahead of the database's" in said

            proxy.set(Mode.PASS)
            clock.set(0.0)
            look = "select count(*) from wakeful.instance where deaf_for is null and clock_ahead is null"
            await eventually(lambda: sql.fetchval(look), until=lambda well: well == 2, timeout=30.0 + STALL)
            assert [fleet.stop("ill"), fleet.stop("ahead")] == [0, 0]
            await pass_time(sql, 2 * MINUTE)
            await evaluate(store, **SOON)
            assert await keys(sql) == [], "an instance that is gone is in no trouble"
