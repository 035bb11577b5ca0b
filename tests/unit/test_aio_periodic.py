"""The rhythm of the loops: a turn at once, rests that a stop or a ring cuts short, no turn after a stop."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio

from wakeful.aio.periodic import every, pause
from wakeful.aio.wakeup import Wakeup

LONG = 3600.0


async def test_the_first_turn_comes_at_once() -> None:
    stop = anyio.Event()

    with anyio.fail_after(1):
        async for _ in every(LONG, stop):
            break


async def test_a_stop_ends_a_long_rest_at_once() -> None:
    stop, turns = anyio.Event(), 0

    with anyio.fail_after(1):
        async with anyio.create_task_group() as group:
            group.start_soon(_when_all_wait, stop.set)
            async for _ in every(LONG, stop):
                turns += 1

    assert turns == 1


async def test_a_stop_ends_a_rest_that_a_bell_could_cut_short() -> None:
    stop, turns = anyio.Event(), 0

    with anyio.fail_after(1):
        async with anyio.create_task_group() as group:
            group.start_soon(_when_all_wait, stop.set)
            async for _ in every(LONG, stop, Wakeup()):
                turns += 1

    assert turns == 1


async def test_no_turn_begins_after_a_stop() -> None:
    stop = anyio.Event()
    stop.set()

    assert [turn async for turn in every(0.001, stop)] == []


async def test_a_stop_during_a_turn_makes_it_the_last() -> None:
    stop, turns = anyio.Event(), 0

    async for _ in every(0, stop):
        turns += 1
        if turns == 3:
            stop.set()

    assert turns == 3


async def test_a_ring_cuts_a_rest_short() -> None:
    stop, bell, turns = anyio.Event(), Wakeup(), 0

    with anyio.fail_after(1):
        async with anyio.create_task_group() as group:
            group.start_soon(_when_all_wait, bell.ring)
            async for _ in every(LONG, stop, bell):
                turns += 1
                if turns == 2:
                    stop.set()

    assert turns == 2


async def test_a_ring_during_a_turn_is_a_turn_more() -> None:
    stop, bell, turns = anyio.Event(), Wakeup(), 0

    with anyio.fail_after(1):
        async for _ in every(LONG, stop, bell):
            turns += 1
            if turns == 1:
                bell.ring()
            else:
                stop.set()

    assert turns == 2


async def test_a_rest_is_shortened_by_the_jitter_at_most() -> None:
    stop, began, rests = anyio.Event(), 0.0, []

    async for _ in every(0.05, stop, jitter=0.2):
        if began:
            rests.append(time.monotonic() - began)
        if len(rests) == 10:
            stop.set()
        began = time.monotonic()

    assert min(rests) >= 0.04


async def test_a_pause_tells_why_it_ended() -> None:
    stop = anyio.Event()
    assert await pause(stop, 0.01) is False

    async with anyio.create_task_group() as group:
        group.start_soon(_when_all_wait, stop.set)
        with anyio.fail_after(1):
            assert await pause(stop, LONG) is True


async def _when_all_wait(act: Callable[[], None]) -> None:
    await anyio.wait_all_tasks_blocked()
    act()
