"""The limit: a hand-written program that runs the daemon's own SQL on two connections, with nothing between.

It claims and finishes what lies ready and prints what it took as JSON: no handlers, no events, no deadlines. What a
daemon adds to this is the price of being one. Claims commit asynchronously and overlap with finishes, as a daemon's do.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import secrets
import sys
import time
from collections.abc import Callable
from typing import TypeAlias

import asyncpg

from wakeful.store.statements import statements

CLAIM = 500
BATCHES_AHEAD = 8

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"  # subscriptable only in its stubs
Batches = asyncio.Queue[list[tuple[int, int]] | None]
YES = True


async def drain(dsn: str) -> dict[str, float]:
    """Empty every lane; gives jobs, wall seconds and this process's processor seconds."""
    claims, finishes = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    owner = await _register(claims)
    lanes = [row["lane_id"] for row in await claims.fetch("select distinct lane_id from wakeful.ready")]
    jobs, began, used = 0, time.perf_counter(), time.process_time()
    for lane in lanes:
        batches: Batches = asyncio.Queue(BATCHES_AHEAD)
        async with asyncio.TaskGroup() as group:
            group.create_task(_claim(claims, lane, owner, batches))
            finishing = group.create_task(_finish(finishes, lane, batches))
        jobs += finishing.result()
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    await asyncio.gather(claims.close(), finishes.close())
    return {"jobs": jobs, "seconds": seconds, "cpu": cpu}


async def _register(connection: Connection) -> tuple[int, int]:
    incarnation = secrets.randbits(62)
    number = await connection.fetchval(
        statements()["register_instance"],
        incarnation,
        "bare",
        "here",
        os.getpid(),
        "0",
        600.0,
        YES,
        "{}",
        ["*"],
        [],
        [],
        "",
    )
    return number, incarnation


async def _claim(connection: Connection, lane: int, owner: tuple[int, int], batches: Batches) -> None:
    statement = await connection.prepare(statements()["claim_jobs"])
    after = 0  # all of it lies ready, so the last position is the cursor
    while True:
        token = secrets.randbits(62)
        rows = await statement.fetch(lane, CLAIM, *owner, token, YES, after, None)
        if not rows:
            break
        after = max(row["pos"] for row in rows)
        await batches.put([(row["pos"], token) for row in rows])
    await batches.put(None)


async def _finish(connection: Connection, lane: int, batches: Batches) -> int:
    """Finish what was claimed, as much at once as has gathered; gives how many."""
    statement = await connection.prepare(statements()["finish_jobs"])
    done = 0
    while (batch := await batches.get()) is not None:
        positions, tokens = zip(*batch, strict=True)
        number = len(batch)
        rows = await statement.fetch(
            lane, positions, tokens, ["null"] * number, [None] * number, [True] * number
        )
        done += len(rows)
    return done


def main() -> None:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        print(json.dumps(runner.run(drain(sys.argv[1]))))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's loop where that is installed, as the daemon has it; None is asyncio's own."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return factory


if __name__ == "__main__":
    main()
