"""A process that dispatches alerts until it is killed: `python dispatcher_child.py DSN URL`."""

from __future__ import annotations

import sys

import anyio

from wakeful.aio.wakeup import Wakeup
from wakeful.core.alert_settings import AlertSettings, RouteSettings
from wakeful.core.settings import DatabaseSettings, OutboxSettings, SinkSettings
from wakeful.outbox.dispatcher import run_dispatcher
from wakeful.outbox.policy import Policy
from wakeful.outbox.sinks import build_sinks
from wakeful.store.database import open_database
from wakeful.telemetry.bus import Telemetry


async def main(dsn: str, url: str) -> None:
    telemetry = Telemetry()
    sinks = build_sinks({"hook": SinkSettings(kind="webhook", url=url, timeout=5)}, telemetry)
    async with open_database(DatabaseSettings(dsn=dsn), telemetry) as database:
        await run_dispatcher(
            database,
            sinks,
            anyio.Event(),
            telemetry=telemetry,
            settings=OutboxSettings(interval=0.05),
            policy=Policy(
                alerts=AlertSettings(first_wait=0.0), routes={"hook": RouteSettings(digest="off", most=0)}
            ),
            wakeup=Wakeup(),
            instance_id=lambda: 1,
        )


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
