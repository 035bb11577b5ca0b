"""A job postponed thousands of times: no attempt is spent, its row stays small, its first failure is its first."""

from __future__ import annotations

import pytest

from support.databases import ClonedDatabase, Connection
from support.factories import enqueue
from support.working import claimer_on, job_row
from wakeful import JobContext, testing

TIMES = 10_000
# As claimer and finisher do it, in the server: a claim, then a snooze that is over at once.
POSTPONE = """
do $$
declare
    job wakeful.ready;
begin
    for turn in 1..{times} loop
        select c.* into strict job
        from wakeful.claim({lane}, 1, {owner}, {incarnation}, turn, {after}, 'default') as c;
        perform d.status
        from (
            select array_agg(row (t, 'snooze', null, null, interval '0', turn)::wakeful.departure) as departures
            from wakeful.take_out({lane}, array[job.pos], array[job.claim], false) as t
        ) as g
        cross join lateral wakeful.depart(g.departures) as d;
        if turn % 50 = 0 then
            commit;
        end if;
    end loop;
end
$$
"""


async def fail(job: JobContext) -> None:
    raise ValueError("no such place")


@pytest.mark.case("F57")
async def test_ten_thousand_times_postponed_is_as_good_as_new(db: ClonedDatabase, sql: Connection) -> None:
    job_id = (await enqueue(sql, payload={"place_id": "p1"})).job_id
    before = await sql.fetchrow("select pg_column_size(r.*) as size, r.lane_id from wakeful.ready r")
    assert before is not None
    async with claimer_on(db) as claimer:
        owner, incarnation = claimer.owner.pair
        parts = {"lane": before["lane_id"], "owner": owner, "incarnation": incarnation, "after": 0}
        await sql.execute(POSTPONE.format(times=TIMES, **parts))

    row = await job_row(sql, job_id)
    assert (row["snoozed"], row["attempts"], row["run_no"]) == (TIMES, 0, TIMES)
    assert (row["status"], row["errors"], row["last_error"]) == ("PENDING", [], None)
    size = await sql.fetchval("select pg_column_size(r.*) from wakeful.ready r")
    assert size <= before["size"] + 32  # the token and the length of the snoozes, no history

    async with testing.instance(db, registry=fail) as w:
        assert await w.run_one()
    row = await job_row(sql, job_id)
    delay = await sql.fetchval("select run_after - clock_timestamp() from wakeful.scheduled")
    assert (row["attempts"], row["status"]) == (1, "PENDING")
    assert 0 < delay.total_seconds() <= 5
