"""What claim and enqueue cost where much lies about: a huge backlog, finished rows, running rows at the head, lanes.

Each case is measured just as the small one is: enqueues of one connection, then a daemon that works for some seconds,
both by the server's own clock, per job.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from bench.daemons import daemons
from bench.figures import Outcome, Sample
from bench.filling import Load, fill
from bench.producing import transactions_a_second
from bench.server import cost_of
from bench.sizes import Sizes
from bench.stage import Connection, Stage

Crowd = Callable[[Connection, int], Awaitable[None]]
ENQUEUE = """select wakeful.enqueue('bench.noop', '{"n": 1}', notify => false);"""
HISTORY = """
insert into wakeful.finished (
    slot, lane_id, job_id, job_type, queue, priority, payload, max_attempts, deadline, tags, meta, run_after,
    attempts, run_no, handed_back, snoozed, snoozed_for, lost, errors, created_at, status, started_at, finished_at)
select wakeful.finished_slot(now()), 1, gen_random_uuid(), 'bench.noop', 'default', 'normal', '{}', 5, '1 hour',
    '{}', '{}', now(), 1, 1, 0, 0, '0', 0, '[]', now(), 'DONE', now(), now()
from generate_series(1, $1::integer)
"""
# Their owner is an instance that lives, as far as anybody can see.
OTHERS = """
with other as (
    insert into wakeful.instance (incarnation, name, host, pid, version, lease, every_type, serves, queues)
    values (1, 'other', 'elsewhere', 1, '0', interval '1 hour', false, '{}', '{*}') returning instance_id)
update wakeful.ready set owner = (select instance_id from other), claim = 1, attempts = 1, run_no = 1,
                         started_at = now(), deadline_at = now() + interval '1 hour'
"""


async def nothing(connection: Connection, number: int) -> None:
    """The small case."""


async def backlog(connection: Connection, number: int) -> None:
    """So many jobs before ours in the same lane."""
    await fill(connection, Load(jobs=number))


async def history(connection: Connection, number: int) -> None:
    """So many jobs that are done."""
    await connection.execute("set synchronous_commit = off")
    for _ in range(0, number, 500_000):
        await connection.execute(HISTORY, min(number, 500_000), timeout=600)


async def running(connection: Connection, number: int) -> None:
    """So many running jobs of another instance at the head of the lane."""
    await fill(connection, Load(jobs=number))
    await connection.execute(OTHERS)


async def lanes(connection: Connection, number: int) -> None:
    """So many lanes with one job each, of queues that this daemon does not serve."""
    await fill(connection, Load(jobs=number, queues=[f"elsewhere-{one}" for one in range(number)]))


def crowd(name: str, make: Crowd) -> Callable[[Stage, Sizes], Awaitable[Outcome]]:
    """The measurement with this crowd; its sizes are `rows`, `jobs` and `seconds`."""

    async def measure(here: Stage, sizes: Sizes) -> Outcome:
        jobs, seconds = sizes.whole("jobs"), sizes["seconds"]
        async with here.connected() as connection:
            await make(connection, sizes.whole("rows"))
            await fill(connection, Load(jobs=jobs))
            await connection.execute("vacuum (analyze)")
            await transactions_a_second(here, ENQUEUE, connections=1, seconds=seconds)
            enqueue = await cost_of(connection, "enqueue")
            async with daemons(here, connection, settings={"worker__queues": "default"}):
                await anyio.sleep(seconds)
            spent = {what: await cost_of(connection, what) for what in ("claim", "finish", "look")}
        how = f"{sizes.whole('rows'):,} rows of it; a daemon beside {jobs:,} jobs for {seconds:g} s; pg_stat_statements"

        def sample(what: str, value: float) -> Sample:
            return Sample(name=f"{name}: {what}", value=value * 1000, unit="µs", better="lower", how=how)

        return Outcome(
            samples=[
                sample("enqueue", enqueue.milliseconds / max(1, enqueue.calls)),
                sample("claim a job", spent["claim"].milliseconds / max(1, spent["claim"].rows)),
                sample("finish a job", spent["finish"].milliseconds / max(1, spent["finish"].rows)),
                sample("one look at the lanes", spent["look"].milliseconds / max(1, spent["look"].calls)),
            ]
        )

    return measure
