"""The reaper against owners that died, that only look dead, and that come back meanwhile (I1, I5, I11, F20, F25)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.dispatching import Heard, heard, store_of
from support.eventually import blocked, eventually
from support.factories import declare, enqueue, status_of
from support.loops import running
from support.owners import Owner, owned_jobs, register, silence, token
from support.proxy import Proxy
from support.refusals import refuse_job
from wakeful.core.job import Job
from wakeful.runtime.reaper import (
    SWEEP,
    SWEEP_SECONDS,
    Reaping,
    keep_sweeping,
    reap,
    reap_once,
    run_reaper,
    take_turn,
)
from wakeful.runtime.sweep import LARGEST_SLICE, SMALLEST_SLICE, next_slice
from wakeful.runtime.watch import Watch
from wakeful.store import jobs, upkeep
from wakeful.store.database import Database
from wakeful.store.statements import statements
from wakeful.store.upkeep import Rescued
from wakeful.telemetry.events import INSTANCE_REAPED, JOB_STRANDED, JOBS_RESCUED

BEAT = 5.0


@pytest.fixture
def said() -> Heard:
    return heard()


@pytest.fixture
async def database(db: ClonedDatabase, said: Heard) -> AsyncIterator[Database]:
    async with store_of(db, said) as opened:
        yield opened


@dataclass(slots=True)
class Clock:
    """The reaper's own clock, moved by the test."""

    seconds: float = 1000.0

    def __call__(self) -> float:
        return self.seconds


def watching(database: Database, clock: Clock) -> Reaping:
    """A reaper that watches, with beats and looks of five seconds."""
    watch = Watch(beat=BEAT, interval=BEAT)
    return Reaping(database=database, telemetry=database.telemetry, watch=watch, now=clock)


async def looks(reaping: Reaping, clock: Clock, count: int) -> list[int]:
    """So many looks, five seconds apart; gives how many jobs each took back."""
    taken = []
    for _ in range(count):
        taken.append(len(await reap(reaping, anyio.Event())))
        clock.seconds += BEAT
    return taken


async def one_job(sql: Connection, owner: Owner, job_type: str = "COLLECT") -> Job:
    await enqueue(sql, job_type)
    (job,) = await owner.claim()
    return job


async def test_a_job_of_a_dead_owner_runs_again_and_its_late_result_is_refused(
    sql: Connection, database: Database, said: Heard
) -> None:
    first, second = await register(database), await register(database, "w2")
    job = await one_job(sql, first)
    await silence(sql, first, 60.0)

    (rescued,) = await reap_once(database)

    assert (rescued.job_id, rescued.status, rescued.owner) == (job.job_id, "PENDING", first.instance_id)
    row = await sql.fetchrow("select * from wakeful.jobs where job_id = $1", job.job_id)
    assert row is not None
    assert (row["status"], row["attempts"], row["lost"], row["run_no"]) == ("PENDING", 0, 1, 1)
    assert "lease-expired reclaim" in row["last_error"]
    assert '"type": "LeaseExpired"' in row["errors"]
    assert said.recorder.of(JOBS_RESCUED, jobs=1, dead=0, reason="lease")
    assert said.recorder.of(INSTANCE_REAPED, instance_id=first.instance_id, jobs=1, name="w1")

    (again,) = await second.claim()
    assert (again.job_id, again.attempts, again.run_no) == (job.job_id, 1, 2)
    assert not await first.finish(job)
    assert await second.finish(again)


async def test_a_job_within_its_lease_is_left_alone(sql: Connection, database: Database) -> None:
    owner = await register(database)
    job = await one_job(sql, owner)
    await silence(sql, owner, 29.0)

    assert await reap_once(database) == ()
    assert await owner.finish(job)


# I1: a lease that is past is not enough.


async def test_a_lease_that_is_past_must_also_be_watched_for_three_beats(
    sql: Connection, database: Database
) -> None:
    owner, clock = await register(database), Clock()
    await one_job(sql, owner)
    await silence(sql, owner, 3600.0)

    assert await looks(watching(database, clock), clock, 4) == [0, 0, 0, 1]


@pytest.mark.case("I1")
async def test_after_an_outage_longer_than_the_lease_an_owner_has_time_to_beat(
    sql: Connection, database: Database
) -> None:
    owner, clock = await register(database), Clock()
    job = await one_job(sql, owner)
    reaping = watching(database, clock)
    await looks(reaping, clock, 2)
    assert reaping.watch is not None
    reaping.watch.restart()  # what the loop does when contact is lost
    clock.seconds += 120.0
    await silence(sql, owner, 120.0)

    assert await looks(reaping, clock, 2) == [0, 0]
    assert await owner.beat()
    assert await looks(reaping, clock, 4) == [0, 0, 0, 0]
    assert await owner.finish(job)


async def test_a_short_loss_of_contact_begins_the_watch_anew(
    db: ClonedDatabase, sql: Connection, said: Heard, proxy: Proxy
) -> None:
    async with store_of(db, said, proxy=proxy) as database:
        owner, clock = await register(database), Clock()
        await one_job(sql, owner)
        await silence(sql, owner, 3600.0)
        reaping = watching(database, clock)
        await looks(reaping, clock, 2)
        proxy.reset()
        await take_turn(reaping, anyio.Event())
        clock.seconds += BEAT

        assert await looks(reaping, clock, 4) == [0, 0, 0, 1]


@pytest.mark.case("I1")
async def test_a_reaper_that_wakes_from_a_pause_takes_nothing(sql: Connection, database: Database) -> None:
    owner, clock = await register(database), Clock()
    await one_job(sql, owner)
    reaping = watching(database, clock)
    await looks(reaping, clock, 2)
    clock.seconds += 600.0  # SIGSTOP, or the machine slept: the owner too, for all we know
    await silence(sql, owner, 610.0)

    assert await looks(reaping, clock, 3) == [0, 0, 0]


@pytest.mark.case("I1")
async def test_a_clock_step_of_the_server_takes_nothing_from_an_owner_that_beats(
    sql: Connection, database: Database
) -> None:
    owner, clock = await register(database), Clock()
    job = await one_job(sql, owner)
    reaping = watching(database, clock)
    for _ in range(6):
        assert await owner.beat()
        await silence(sql, owner, 7200.0)
        assert await looks(reaping, clock, 1) == [0]

    assert await owner.finish(job)


@pytest.mark.case("F29")
async def test_a_clock_that_was_set_back_does_not_keep_a_dead_owner_alive(
    sql: Connection, database: Database
) -> None:
    owner, clock = await register(database), Clock()
    await one_job(sql, owner)
    await silence(sql, owner, -3600.0)  # its last beat lies in the future

    # Watched for longer than the lease, by our own clock.
    assert await looks(watching(database, clock), clock, 8) == [0, 0, 0, 0, 0, 0, 0, 1]


async def test_the_loop_takes_from_the_dead_and_not_from_one_whose_lease_only_looks_past(
    sql: Connection, database: Database, said: Heard
) -> None:
    dead, alive = await register(database, "dead"), await register(database, "alive")
    lost = await one_job(sql, dead)
    kept = await one_job(sql, alive)
    await silence(sql, dead, 60.0)
    over = anyio.Event()
    rescued: list[Rescued] = []

    async def beat_with_a_wrong_clock() -> None:
        while not over.is_set():
            assert await alive.beat()
            await silence(sql, alive, 60.0)

    async def loop(stop: anyio.Event) -> None:
        await run_reaper(database, stop, interval=0.05, beat=0.2, on_rescued=rescued.extend)

    async with anyio.create_task_group() as group:
        group.start_soon(beat_with_a_wrong_clock)
        async with running(loop):
            await said.recorder.seen(INSTANCE_REAPED, name="dead")
        over.set()

    assert await alive.finish(kept)
    assert await status_of(sql, lost.job_id) == "PENDING"
    assert [one.job_id for one in rescued] == [lost.job_id]
    assert not said.recorder.of(INSTANCE_REAPED, name="alive")


# I5: the reaper's statement against beats and claims.


async def reclaim_on(connection: Connection, job: Job, owner: Owner, beat_seq: int) -> list[object]:
    """The reaper's statement, in a transaction that the test leaves open."""
    return list(
        await connection.fetch(
            statements()["reclaim_jobs"], job.lane_id, [job.pos], owner.instance_id, beat_seq, None, 3
        )
    )


@pytest.mark.case("I5")
async def test_a_late_beat_waits_for_the_reaper_and_then_learns_the_truth(
    db: ClonedDatabase, sql: Connection, database: Database
) -> None:
    owner = await register(database)
    job = await one_job(sql, owner)
    await silence(sql, owner, 60.0)
    reaper, beater = await db.connect(), await db.connect()
    transaction = reaper.transaction()
    await transaction.start()
    assert len(await reclaim_on(reaper, job, owner, beat_seq=0)) == 1

    async with anyio.create_task_group() as group:
        group.start_soon(beater.fetch, statements()["beat"], *owner.pair, *[None] * 5)
        await blocked(sql, beater, by=reaper)
        await transaction.commit()

    assert await owner.holds([job]) == set()
    assert await sql.fetchval("select state from wakeful.instance") == "live"


async def test_a_beat_that_comes_first_keeps_the_jobs(
    db: ClonedDatabase, sql: Connection, database: Database
) -> None:
    owner = await register(database)
    job = await one_job(sql, owner)
    await silence(sql, owner, 60.0)
    reaper, beater = await db.connect(), await db.connect()
    async with beater.transaction():
        assert await beater.fetch(statements()["beat"], *owner.pair, *[None] * 5)
        # Not even waited for: the row of the instance is locked, so the beat may be moving.
        assert await reclaim_on(reaper, job, owner, beat_seq=0) == []

    await silence(sql, owner, 60.0)
    assert await reclaim_on(reaper, job, owner, beat_seq=0) == []
    (sight,) = await upkeep.look_at_instances(database)
    assert not await upkeep.depose(database, replace(sight, beat_seq=0), watched=60.0)
    assert await owner.finish(job)


async def test_the_lease_is_looked_at_again_when_the_jobs_are_taken(
    sql: Connection, database: Database
) -> None:
    owner = await register(database)
    job = await one_job(sql, owner)

    assert await reclaim_on(sql, job, owner, beat_seq=0) == []
    (sight,) = await upkeep.look_at_instances(database)
    assert not await upkeep.depose(database, sight, watched=0.0)


async def test_jobs_go_by_the_lease_of_their_type_and_the_instance_by_its_longest(
    sql: Connection, database: Database
) -> None:
    await declare(sql, "LONG", lease=timedelta(seconds=180))
    owner = await register(database, lease=180.0)
    short, long = await one_job(sql, owner), await one_job(sql, owner, "LONG")

    await silence(sql, owner, 60.0)
    assert [one.job_id for one in await reap_once(database)] == [short.job_id]
    assert await sql.fetchval("select state from wakeful.instance") == "live"
    assert await owner.beat()

    await silence(sql, owner, 200.0)
    assert [one.job_id for one in await reap_once(database)] == [long.job_id]
    assert await sql.fetchval("select state from wakeful.instance") == "dead"
    assert not await owner.beat()


async def test_a_silent_owner_is_swept_once_for_each_lease_that_ends(
    sql: Connection, database: Database
) -> None:
    await declare(sql, "LONG", lease=timedelta(seconds=180))
    owner, clock = await register(database, lease=180.0), Clock()
    await one_job(sql, owner)
    reaping = watching(database, clock)
    await silence(sql, owner, 60.0)

    assert await looks(reaping, clock, 5) == [0, 0, 0, 1, 0]
    assert await sql.fetchval("select (swept_beat, swept_past) from wakeful.instance") == (0, 1)


@pytest.mark.case("I5")
async def test_a_claim_that_commits_after_the_pass_is_taken_back_by_a_later_one(
    db: ClonedDatabase, sql: Connection, database: Database
) -> None:
    owner = await register(database)
    lane = await lane_of(sql)
    claimer = await db.connect()
    claiming = claimer.transaction()
    await claiming.start()
    claim = (lane, 10, *owner.pair, token(), False, 0, None)
    assert len(await claimer.fetch(statements()["claim_jobs"], *claim)) == 1
    await silence(sql, owner, 60.0)
    reaping = Reaping(database=database, telemetry=database.telemetry)

    assert await reap(reaping, anyio.Event()) == []  # it is dead now, and nothing of it can be seen
    await claiming.commit()
    assert [one.owner for one in await reap(reaping, anyio.Event())] == [owner.instance_id]

    for _ in range(2):
        assert await reap(reaping, anyio.Event()) == []
    assert await sql.fetchval("select count(*) from wakeful.instance") == 0


async def test_a_deposed_instance_claims_nothing(sql: Connection, database: Database) -> None:
    owner = await register(database)
    await silence(sql, owner, 60.0)
    await reap_once(database)
    await enqueue(sql)

    assert await owner.claim() == []


async def test_another_incarnation_under_the_same_id_is_not_deposed(
    sql: Connection, database: Database
) -> None:
    owner = await register(database)
    await silence(sql, owner, 60.0)
    (sight,) = await upkeep.look_at_instances(database)
    await sql.execute("update wakeful.instance set incarnation = incarnation + 1")

    assert not await upkeep.depose(database, sight, watched=0.0)
    assert not await owner.beat()


# F25: what reaps can't get stuck.


@pytest.mark.case("F25")
async def test_jobs_of_an_owner_without_a_row_are_taken_back(sql: Connection, database: Database) -> None:
    owner = await register(database)
    job = await one_job(sql, owner)
    await sql.execute("delete from wakeful.instance")

    assert [one.job_id for one in await reap_once(database)] == [job.job_id]


async def test_a_row_that_somebody_has_locked_delays_no_other(
    db: ClonedDatabase, sql: Connection, database: Database
) -> None:
    owner = await register(database)
    await owned_jobs(sql, owner, 100)
    await silence(sql, owner, 60.0)
    psql = await db.connect()
    reaping = Reaping(database=database, telemetry=database.telemetry)
    async with psql.transaction():
        await psql.execute("select from wakeful.ready order by pos limit 1 for update")
        assert len(await reap(reaping, anyio.Event())) == 99

    assert len(await reap(reaping, anyio.Event())) == 1


async def test_a_dedupe_key_that_somebody_has_locked_is_not_waited_for(
    db: ClonedDatabase, sql: Connection, database: Database
) -> None:
    owner = await register(database)
    await enqueue(sql, dedupe_key="mine")
    await owner.claim()
    await silence(sql, owner, 60.0)
    psql = await db.connect()
    async with psql.transaction():
        await psql.execute("select from wakeful.dedupe for update")
        assert await reap_once(database) == ()

    assert len(await reap_once(database)) == 1


@pytest.mark.case("F25")
async def test_two_reapers_take_a_great_many_jobs_back_once_each(
    db: ClonedDatabase, sql: Connection, database: Database
) -> None:
    owner = await register(database)
    await owned_jobs(sql, owner, 6000)
    await sql.execute(
        "select count(*) from wakeful.enqueue_many((select jsonb_agg($1::jsonb) from generate_series(1, 500)))",
        '{"job_type": "COLLECT"}',
    )
    await silence(sql, owner, 60.0)
    taken: list[int] = []

    async with store_of(db, heard()) as other:

        async def one(store: Database) -> None:
            rescued = await reap(Reaping(database=store, telemetry=store.telemetry), anyio.Event())
            taken.append(len({job.job_id for job in rescued}))

        async with anyio.create_task_group() as group:
            group.start_soon(one, database)
            group.start_soon(one, other)

    assert sum(taken) == 6000
    assert await sql.fetchval("select count(*) from wakeful.ready where owner is null and lost = 1") == 6000
    assert await sql.fetchval("select count(*) from wakeful.ready where owner is null and lost = 0") == 500


async def test_a_job_that_the_database_refuses_stops_no_other_and_keeps_no_dead_instance(
    sql: Connection, database: Database, said: Heard
) -> None:
    owner = await register(database)
    await owned_jobs(sql, owner, 10)
    bad = await sql.fetchval("select job_id from wakeful.ready order by pos offset 3 limit 1")
    await refuse_job(sql, bad)
    await silence(sql, owner, 60.0)
    reaping = Reaping(database=database, telemetry=database.telemetry)

    assert len(await reap(reaping, anyio.Event())) == 9
    (told,) = said.recorder.of(JOB_STRANDED, action="reclaim")
    assert "refused" in str(told["error"])
    for _ in range(2):
        assert await reap(reaping, anyio.Event()) == []
    assert await sql.fetchval("select count(*) from wakeful.instance") == 0

    await sql.execute("alter table wakeful.ready drop constraint refused")
    assert [one.job_id for one in await reap_once(database)] == [bad]  # as the backstop finds it


# Of a fleet, one makes the pass.


async def test_while_one_reaper_makes_the_pass_another_leaves_it_to_it(
    db: ClonedDatabase, sql: Connection, database: Database
) -> None:
    owner = await register(database)
    await one_job(sql, owner)
    await sql.execute("update wakeful.instance set state = 'dead'")
    await upkeep.keep_duties(database, [SWEEP])
    assert await upkeep.take_duty(database, SWEEP, SWEEP_SECONDS)
    reaping = watching(database, Clock())

    assert await reap(reaping, anyio.Event()) == []
    await upkeep.hold_duty(database, SWEEP, 0.0)  # the other one is done, and overlooked it
    assert len(await reap(reaping, anyio.Event())) == 1
    # Two passes that find nothing, each at once: none has to wait for the last one's time.
    for _ in range(2):
        assert await reap(reaping, anyio.Event()) == []
    assert await sql.fetchval("select count(*) from wakeful.instance") == 0


@pytest.mark.case("F25")
async def test_a_reaper_that_dies_in_its_pass_leaves_it_to_another(
    sql: Connection, database: Database
) -> None:
    owner = await register(database)
    await one_job(sql, owner)
    await sql.execute("update wakeful.instance set state = 'dead'")
    await upkeep.keep_duties(database, [SWEEP])
    assert await upkeep.take_duty(database, SWEEP, SWEEP_SECONDS)
    await sql.execute("update wakeful.duty set next_at = next_at - make_interval(secs => $1)", SWEEP_SECONDS)

    assert len(await reap(watching(database, Clock()), anyio.Event())) == 1


async def test_a_pass_that_takes_long_stays_with_its_reaper(sql: Connection, database: Database) -> None:
    reaping = watching(database, Clock())
    await upkeep.keep_duties(database, [SWEEP])
    assert await upkeep.take_duty(database, SWEEP, SWEEP_SECONDS)
    await sql.execute("update wakeful.duty set next_at = now()")
    reaping.held_at = float("-inf")

    await keep_sweeping(reaping)

    assert not await upkeep.take_duty(database, SWEEP, SWEEP_SECONDS)


async def test_for_a_silent_owner_one_reaper_of_the_fleet_makes_the_pass(
    sql: Connection, database: Database
) -> None:
    await declare(sql, "LONG", lease=timedelta(seconds=180))
    owner, clock = await register(database, lease=180.0), Clock()
    await silence(sql, owner, 60.0)
    reaping = watching(database, clock)
    assert (await upkeep.look_at_instances(database))[0].is_worth_a_sweep

    await looks(reaping, clock, 4)
    assert not (await upkeep.look_at_instances(database))[0].is_worth_a_sweep
    await silence(sql, owner, 200.0)  # the next lease
    assert (await upkeep.look_at_instances(database))[0].is_worth_a_sweep

    await looks(reaping, clock, 1)
    await silence(sql, owner, 60.0)
    await sql.execute(
        "update wakeful.instance set beat_seq = beat_seq + 1, state = 'live'"
    )  # the next silence
    assert (await upkeep.look_at_instances(database))[0].is_worth_a_sweep


@pytest.mark.parametrize(
    ("rows", "seconds", "following"),
    [
        (1000, 0.025, 1000),
        (1000, 0.001, 2000),
        (1000, 0.05, 500),
        (1000, 5.0, 250),
        (SMALLEST_SLICE, 5.0, SMALLEST_SLICE),
        (LARGEST_SLICE, 0.001, LARGEST_SLICE),
    ],
)
def test_a_slice_is_sized_by_what_the_last_one_took(rows: int, seconds: float, following: int) -> None:
    assert next_slice(rows, seconds) == following


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_a_sweep_reads_by_the_primary_key_whatever_the_statistics_say(
    sql: Connection, database: Database, mode: str
) -> None:
    owner = await register(database)
    await sql.execute("analyze wakeful.ready")  # empty: what the planner believes is out of date
    await owned_jobs(sql, owner, 3000)
    lane = await sql.fetchval("select lane_id from wakeful.ready limit 1")
    async with sql.transaction():
        await sql.execute(f"set local plan_cache_mode = {mode}")
        rows = await sql.fetch(f"explain (costs off) {statements()['look_at_owned']}", lane, 0, 500, 60.0)

    plan = "\n".join(row[0] for row in rows)
    assert "Seq Scan on ready" not in plan, plan
    assert "ready_pkey" in plan


async def test_a_pass_ends_where_it_is_when_the_stop_comes(sql: Connection, database: Database) -> None:
    owner = await register(database)
    await owned_jobs(sql, owner, 10)
    await silence(sql, owner, 60.0)
    stop = anyio.Event()
    stop.set()

    assert await reap(Reaping(database=database, telemetry=database.telemetry), stop) == []
    assert await sql.fetchval("select swept from wakeful.instance") == 0


# I11: poison and its innocent siblings.


async def test_the_third_lost_owner_kills_a_job_and_only_lost_is_charged(
    sql: Connection, database: Database
) -> None:
    for number in range(3):
        owner = await register(database, f"w{number}")
        if number == 0:
            await owned_jobs(sql, owner, 3, options='{"subject": "berlin"}')
        claimed = await owner.claim()
        assert number == 0 or {job.attempts for job in claimed} == {1}
        await silence(sql, owner, 60.0)
        rescued = await reap_once(database)
        assert {one.status for one in rescued} == ({"DEAD"} if number == 2 else {"PENDING"})

    rows = await sql.fetch("select attempts, lost, cause, last_error from wakeful.dead")
    assert {(row["attempts"], row["lost"], row["cause"]) for row in rows} == {(0, 3, "lost")}
    assert all(row["last_error"].startswith("worker lost 3 times: lease-expired reclaim") for row in rows)
    told = "select count(*) from wakeful.alert_outbox where subject = 'berlin' and kind = 'job_dead'"
    assert await sql.fetchval(told) == 3


@pytest.mark.case("I11")
async def test_a_job_lost_twice_waits_in_the_suspect_twin_of_its_lane(
    sql: Connection, database: Database
) -> None:
    home = await lane_of(sql)
    lanes = []
    for number in range(2):
        owner = await register(database, f"w{number}")
        await owner.claim()
        await silence(sql, owner, 60.0)
        await reap_once(database)
        lanes.append(await sql.fetchval("select lane_id from wakeful.ready"))

    assert lanes[0] == home
    assert lanes[1] == await sql.fetchval(
        "select wakeful.lane_id('default', 'normal', 'COLLECT', null, true)"
    )
    found = await jobs.find_lanes(database, job_types=None, queues=None)
    assert [lane.suspect for lane in found] == [True]


@pytest.mark.case("F38")
async def test_a_job_that_was_to_be_cancelled_is_cancelled_when_its_owner_dies(
    sql: Connection, database: Database
) -> None:
    owner = await register(database)
    job = await one_job(sql, owner)
    assert await sql.fetchval("select wakeful.cancel($1)", job.job_id) == "RUNNING"
    await silence(sql, owner, 60.0)

    assert [one.status for one in await reap_once(database)] == ["CANCELLED"]


async def test_an_owners_released_jobs_ring_those_who_can_run_them(
    db: ClonedDatabase, sql: Connection, database: Database
) -> None:
    owner = await register(database)
    job = await one_job(sql, owner)
    await silence(sql, owner, 60.0)
    rung: list[str] = []
    listener = await db.connect()
    await listener.add_listener("wakeful", lambda *heard: rung.append(str(heard[3])))
    await reap_once(database)

    async def count() -> int:
        return len(rung)

    await eventually(count)
    assert rung == [str(job.lane_id)]


async def lane_of(sql: Connection) -> int:
    """Enqueue one job and give its lane."""
    await enqueue(sql)
    lane: int = await sql.fetchval("select lane_id from wakeful.ready")
    return lane
