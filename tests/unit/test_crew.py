"""The crew: who is free, what waits for a worker, and what becomes of it when the crew closes."""

from __future__ import annotations

import gc
import warnings

import anyio

from support.holding import make_holding
from wakeful.aio.wakeup import Wakeup
from wakeful.runtime.crew import WAIT_SECONDS, Crew
from wakeful.runtime.holdings import Holding


async def test_a_job_that_waits_takes_a_free_place_as_one_that_runs_does() -> None:
    crew = Crew(3, Wakeup())

    crew.put(make_holding())
    crew.put(make_holding())
    assert (crew.free, crew.waiting, crew.busy) == (1, 2, 0)

    await crew.next()
    assert (crew.free, crew.waiting, crew.busy) == (1, 1, 1)

    crew.done()
    assert (crew.free, crew.waiting, crew.busy) == (2, 1, 0)
    crew.close()


async def test_a_job_on_its_way_to_a_worker_that_waits_takes_a_free_place_at_once() -> None:
    crew = Crew(2, Wakeup())
    async with anyio.create_task_group() as workers:
        workers.start_soon(crew.next)
        workers.start_soon(crew.next)
        await anyio.wait_all_tasks_blocked()

        crew.put(make_holding())
        assert (crew.free, crew.waiting, crew.busy) == (1, 1, 0)
        crew.put(make_holding())
        assert (crew.free, crew.waiting, crew.busy) == (0, 2, 0)

        await anyio.wait_all_tasks_blocked()
        assert (crew.free, crew.waiting, crew.busy) == (0, 0, 2)
    crew.close()


async def test_more_than_its_workers_can_wait_and_nothing_is_free_then() -> None:
    crew = Crew(1, Wakeup())

    for _ in range(5):
        crew.put(make_holding())

    assert crew.free == 0
    assert len(crew.close()) == 5


async def test_jobs_come_to_workers_in_the_order_in_which_they_were_claimed() -> None:
    crew = Crew(2, Wakeup())
    first, second = make_holding(), make_holding()
    crew.put(first)
    crew.put(second)

    assert [await crew.next(), await crew.next()] == [first, second]
    crew.close()


async def test_a_worker_that_becomes_free_wakes_a_claimer_that_wanted_more_and_no_other() -> None:
    vacancy = Wakeup()
    crew = Crew(1, vacancy)
    crew.put(make_holding())
    await crew.next()

    crew.done()
    assert not await vacancy.wait(0)

    crew.put(make_holding())
    await crew.next()
    crew.wanted = True
    crew.done()
    assert await vacancy.wait(0)
    crew.close()


async def test_what_has_waited_for_a_second_is_taken_out_and_the_rest_keeps_its_order() -> None:
    crew = Crew(1, Wakeup())
    stale, fresh, fresher = (make_holding(received=at) for at in (100.0, 100.5, 100.6))
    for holding in (stale, fresh, fresher):
        crew.put(holding)

    assert crew.take_back_stale(now=100.0 + WAIT_SECONDS) == [stale]
    assert crew.close() == [fresh, fresher]


async def test_closing_gives_what_was_never_started_and_sends_waiting_workers_home() -> None:
    crew = Crew(2, Wakeup())
    went_home: list[Holding | None] = []

    async def work() -> None:
        went_home.append(await crew.next())

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        group.start_soon(work)
        await anyio.wait_all_tasks_blocked()
        assert crew.close() == []

    assert went_home == [None, None]
    assert await crew.next() is None


async def test_a_claim_that_is_answered_after_the_crew_closed_is_not_taken_on() -> None:
    crew = Crew(1, Wakeup())
    crew.close()

    assert not crew.put(make_holding())
    assert crew.waiting == 0
    assert crew.take_back_stale() == []
    assert crew.close() == []


async def test_a_closed_crew_leaves_nothing_open() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        crew = Crew(1, Wakeup())
        crew.put(make_holding())
        crew.close()
        del crew
        gc.collect()

    assert [one for one in told if issubclass(one.category, ResourceWarning)] == []


async def test_the_jobs_of_one_claim_wake_as_many_workers_and_are_taken_in_their_order() -> None:
    crew, taken = Crew(3, Wakeup()), list[Holding | None]()

    async def work() -> None:
        taken.append(await crew.next())

    jobs = [make_holding() for _ in range(4)]
    async with anyio.create_task_group() as workers:
        for _ in range(3):
            workers.start_soon(work)
        await anyio.wait_all_tasks_blocked()
        assert crew.put_all(jobs)

    assert taken == jobs[:3]
    assert (crew.waiting, crew.busy, crew.started) == (1, 3, 3)
    assert crew.close() == jobs[3:]


async def test_the_claimer_is_woken_when_only_as_many_wait_as_it_said() -> None:
    vacancy = Wakeup()
    crew = Crew(1, vacancy)
    crew.put_all([make_holding() for _ in range(4)])
    crew.want(2)

    await crew.next()
    assert not await vacancy.wait(0)
    crew.done()
    assert not await vacancy.wait(0)  # it takes the next one itself
    await crew.next()
    assert await vacancy.wait(0)
    crew.close()


async def test_a_worker_that_is_cancelled_as_it_is_woken_wakes_the_next_one() -> None:
    crew, taken, scope = Crew(2, Wakeup()), list[Holding | None](), anyio.CancelScope()

    async def give_up() -> None:
        with scope:
            await crew.next()

    async def work() -> None:
        taken.append(await crew.next())

    holding = make_holding()
    async with anyio.create_task_group() as workers:
        workers.start_soon(give_up)
        await anyio.wait_all_tasks_blocked()
        workers.start_soon(work)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        crew.put(holding)

    assert taken == [holding]
    crew.close()


async def test_a_worker_that_gives_up_waiting_is_woken_for_nothing() -> None:
    crew = Crew(2, Wakeup())
    with anyio.move_on_after(0):
        await crew.next()
    crew.put(make_holding())

    assert crew.waiting == 1
    assert await crew.next() is not None
    crew.close()
