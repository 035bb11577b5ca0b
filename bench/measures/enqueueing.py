"""What producers reach: one job a transaction from several connections, and bulk calls.

The bare INSERT writes a row of the same shape into a copy of the hot table with its indexes. "Hot" is a lane that a
daemon polls, so that nobody notifies; "cold" is one whose every enqueue does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from bench.daemons import daemons
from bench.figures import Outcome, Sample
from bench.producing import MANY, batch_of, transactions_a_second
from bench.sizes import Sizes
from bench.stage import Connection, Stage

CONNECTIONS = (1, 8, 32)
COPY = "create table public.bare (like wakeful.ready including all) with (fillfactor = 45)"
SCRIPTS: Mapping[str, str] = {
    "bare INSERT": """
        insert into public.bare (lane_id, pos, job_id, job_type, queue, priority, payload, max_attempts, deadline, tags,
                                 meta, run_after, created_at)
        values (1, nextval('wakeful.position'), gen_random_uuid(), 'bench.noop', 'default', 'normal', '{"n": 1}', 5,
                '1 hour', '{}', '{}', now(), now());""",
    "wake-ups off": """select wakeful.enqueue('bench.noop', '{"n": 1}', notify => false);""",
    "hot": """select wakeful.enqueue('bench.noop', '{"n": 1}');""",
    "cold": """select wakeful.enqueue('bench.noop', '{"n": 1}', queue => 'cold');""",
}
LANE = "wakeful.lane_id('default', 'normal', 'bench.noop', null, false)"
HEAT = f"""
insert into wakeful.lane (lane_id, queue, priority, job_type, suspect, hot_until)
values ({LANE}, 'default', 'normal', 'bench.noop', false, now() + interval '1 day')
on conflict (lane_id) do update set hot_until = excluded.hot_until
"""


async def enqueue(here: Stage, sizes: Sizes) -> Outcome:
    """Each kind from each number of connections, one after another, on empty tables; somebody listens."""
    samples: list[Sample] = []
    async with here.connected() as connection:
        await connection.execute(COPY)
        await connection.execute(HEAT)
        await connection.execute("listen wakeful")
        for connections in CONNECTIONS:
            for kind, script in SCRIPTS.items():
                await connection.execute("truncate wakeful.ready, public.bare")
                rate = await transactions_a_second(
                    here, script, connections=connections, seconds=sizes["seconds"]
                )
                samples.append(_rate(f"enqueue: {kind}, {connections} connections", rate, sizes["seconds"]))
    return Outcome(samples=samples)


async def enqueue_busy(here: Stage, sizes: Sizes) -> Outcome:
    """The same onto a queue that a daemon works off at the same time, with wake-ups and without."""
    samples: list[Sample] = []
    async with here.connected() as connection, daemons(here, connection):
        for connections in CONNECTIONS[1:]:
            for kind in ("wake-ups off", "hot"):
                rate = await transactions_a_second(
                    here, SCRIPTS[kind], connections=connections, seconds=sizes["seconds"]
                )
                name = "wake-ups on" if kind == "hot" else kind
                samples.append(
                    _rate(f"enqueue-busy: {name}, {connections} connections", rate, sizes["seconds"])
                )
    return Outcome(samples=samples)


async def enqueue_many(here: Stage, sizes: Sizes) -> Outcome:
    """Bulk calls from one connection, each in a transaction of its own."""
    samples: list[Sample] = []
    async with here.connected() as connection:
        for batch in (1_000, 20_000):
            await connection.execute("truncate wakeful.ready")
            rate = await _bulk(connection, batch, sizes.whole("jobs"))
            how = f"{sizes.whole('jobs'):,} jobs in calls of {batch:,}, committed each, one connection"
            name = f"enqueue_many: batches of {batch:,}"
            samples.append(Sample(name=name, value=rate, unit="jobs/s", better="higher", how=how))
    return Outcome(samples=samples)


async def _bulk(connection: Connection, batch: int, jobs: int) -> float:
    document = batch_of("bench.noop", batch)
    await connection.fetch(MANY, document)
    began = time.perf_counter()
    calls = max(1, jobs // batch)
    for _ in range(calls):
        await connection.fetch(MANY, document)
    return calls * batch / (time.perf_counter() - began)


def _rate(name: str, value: float, seconds: float) -> Sample:
    how = f"pgbench, prepared statements, {seconds:g} s each, one job a transaction"
    return Sample(name=name, value=value, unit="jobs/s", better="higher", how=how)
