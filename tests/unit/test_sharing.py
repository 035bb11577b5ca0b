"""How much may be claimed: what can start soon, whatever runs already, and each lane its part."""

from __future__ import annotations

import time

import anyio

from support.holding import make_holding
from wakeful.aio.wakeup import Wakeup
from wakeful.core.pace import ENOUGH_RUNS, Pace, Starts
from wakeful.core.turns import Turns
from wakeful.runtime.crew import Crew
from wakeful.runtime.sharing import CHUNK, MOST_AT_ONCE, NO_LIMIT, Room, demand_of, shares_of
from wakeful.store.jobs import Lane


def lane(lane_id: int, job_type: str = "A") -> Lane:
    return Lane(
        lane_id=lane_id,
        pos=1,
        job_type=job_type,
        queue="default",
        priority="normal",
        limit_key=None,
        suspect=False,
        waiting=0.0,
    )


def pace_of(**seconds: float) -> Pace:
    pace = Pace()
    for job_type, one in seconds.items():
        for _ in range(ENOUGH_RUNS):
            pace.ran(job_type, one)
    return pace


def jobs_of(lanes: list[Lane], room: Room) -> dict[int, int]:
    turns = Turns()
    for one in lanes:
        turns.want(demand_of(one, room=room, most=1))
    shares = shares_of(
        {one.lane_id: one for one in lanes}, room=room, turns=turns, limits=lambda lane: NO_LIMIT
    )
    return {share.lane.lane_id: share.jobs for share in shares}


async def busy_crew(concurrency: int, *, busy: int, waiting: int = 0) -> Crew:
    crew = Crew(concurrency, Wakeup())
    crew.put_all([make_holding() for _ in range(busy)])
    for _ in range(busy):
        await crew.next()
    crew.put_all([make_holding() for _ in range(waiting)])
    return crew


async def test_of_a_type_that_nobody_knows_only_what_workers_are_free_for() -> None:
    crew = await busy_crew(10, busy=4)
    room = Room.of(crew, Pace(), Starts(), {"A"})

    assert (room.free, room.low) == (6, -1)
    assert jobs_of([lane(1)], room) == {1: 6}


async def test_busy_workers_count_by_what_has_really_started() -> None:
    """Nine may be busy for an hour: what is claimed ahead waits for those that go on."""
    crew, starts, pace = await busy_crew(10, busy=10), Starts(), pace_of(A=0.001)
    starts.note(crew.started, anyio.current_time() + 1e9)
    assert not Room.of(crew, pace, starts, {"A"}).any

    idle = Room.of(await busy_crew(10, busy=9), pace, Starts(), {"A"})
    assert idle.ahead["A"] == 50  # what one worker starts in 50 ms


async def test_what_waits_already_is_taken_off_and_it_is_worth_a_claim_when_half_of_it_is_gone() -> None:
    pace = pace_of(A=0.01)
    assert Room.of(await busy_crew(10, busy=0, waiting=5), pace, Starts(), {"A"}).free == 5

    for waiting, worth in ((50, False), (36, False), (35, True), (10, True)):
        crew = await busy_crew(10, busy=0, waiting=waiting)
        room = Room.of(crew, pace, Starts(), {"A"})
        assert (room.any, room.low) == (worth, 25)


async def test_quick_and_slow_lanes_together_take_no_more_than_can_start() -> None:
    room = Room.of(await busy_crew(10, busy=0), pace_of(QUICK=0.01, SLOW=30.0), Starts(), {"QUICK", "SLOW"})
    given = jobs_of([lane(1, "QUICK"), lane(2, "SLOW")], room)

    assert given[2] <= 10
    assert sum(given.values()) <= 10 + 50


async def test_a_slow_lane_has_its_turns_while_quick_jobs_keep_all_workers_busy() -> None:
    pace, turns, starts = pace_of(QUICK=0.001), Turns(), Starts()
    lanes = {one.lane_id: one for one in (lane(1, "QUICK"), lane(2, "SLOW"))}
    crew = await busy_crew(4, busy=4)
    given: dict[int, int] = {}
    while 2 not in given:
        starts.note(crew.started, time.monotonic() - 0.02)
        for _ in range(20):
            crew.put(make_holding(job_type="QUICK"))
            crew.done()
            await crew.next()
        room = Room.of(crew, pace, starts, {"QUICK", "SLOW"})
        assert room.free == 0
        for one in lanes.values():
            turns.want(demand_of(one, room=room, most=1))
        given = {
            share.lane.lane_id: share.jobs
            for share in shares_of(lanes, room=room, turns=turns, limits=lambda lane: NO_LIMIT)
        }
    assert 1 <= given[2] <= 2

    # They start when their turn comes; until then no more of them are claimed.
    crew.put_all([make_holding(job_type="SLOW") for _ in range(2)])
    assert Room.of(crew, pace, starts, {"QUICK", "SLOW"}).others == 0


async def test_what_is_ahead_is_bounded_by_time_whatever_the_types() -> None:
    room = Room.of(await busy_crew(10, busy=0), pace_of(A=0.01, B=0.02), Starts(), {"A", "B"})
    given = jobs_of([lane(1, "A"), lane(2, "B"), lane(3, "B")], room)
    seconds = sum(jobs * (0.01 if lane_id == 1 else 0.02) for lane_id, jobs in given.items())

    assert seconds <= 10 * 0.05 + 10 * 0.02 + 0.001


async def test_lanes_of_short_jobs_take_turns_of_many() -> None:
    room = Room.of(await busy_crew(10, busy=0), pace_of(A=0.0001), Starts(), {"A"})
    given = jobs_of([lane(n) for n in range(1000)], room)

    assert 10 <= len(given) <= 12
    assert max(given.values()) <= CHUNK + 10
    assert max(jobs_of([lane(1)], room).values()) <= MOST_AT_ONCE


async def test_nothing_is_claimed_for_a_crew_that_has_closed() -> None:
    crew = await busy_crew(10, busy=0)
    crew.close()

    assert not Room.of(crew, pace_of(A=0.001), Starts(), {"A"}).any
