"""The bell: coalescing, sticky, and never losing a ring to a cancelled or timed-out wait."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.aio.wakeup import Wakeup, rung_at


async def test_a_ring_before_the_wait_is_kept() -> None:
    bell = Wakeup()
    bell.ring()

    assert await bell.wait(0) is True


async def test_many_rings_are_one() -> None:
    bell = Wakeup()
    for _ in range(3):
        bell.ring()

    assert await bell.wait(0) is True
    assert await bell.wait(0) is False


async def test_silence_ends_with_the_timeout() -> None:
    assert await Wakeup().wait(0.01) is False


async def test_a_ring_wakes_a_waiter_that_waits_without_end() -> None:
    bell = Wakeup()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(_ring_when_idle, bell)
            assert await bell.wait(None) is True


async def test_a_ring_while_the_waiter_acts_is_for_its_next_wait() -> None:
    bell = Wakeup()
    bell.ring()
    await bell.wait(0)

    bell.ring()

    assert await bell.wait(0) is True


async def test_a_ring_in_the_turn_that_cancels_the_wait_is_reported_or_kept() -> None:
    bell = Wakeup()
    heard: list[bool] = []

    async def wait() -> None:
        heard.append(await bell.wait(None))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        bell.ring()
        group.cancel_scope.cancel()
    heard.append(await bell.wait(0))

    assert heard.count(True) == 1


async def test_a_cancelled_wait_leaves_a_later_ring_for_the_next() -> None:
    bell = Wakeup()

    async with anyio.create_task_group() as group:
        group.start_soon(bell.wait)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
        bell.ring()

    assert await bell.wait(0) is True


async def test_a_ring_in_the_turn_of_the_timeout_counts() -> None:
    bell = Wakeup()
    heard: list[bool] = []

    async def wait() -> None:
        heard.append(await bell.wait(0.02))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.sleep(0.02)
        bell.ring()
    heard.append(await bell.wait(0))

    assert heard.count(True) == 1


@given(st.lists(st.sampled_from(("ring", "wait"))))
def test_it_rings_if_and_only_if_there_was_a_ring_since_the_last_wait(actions: list[str]) -> None:
    async def play() -> None:
        bell, rung = Wakeup(), False
        for action in actions:
            if action == "ring":
                bell.ring()
                rung = True
            else:
                assert await bell.wait(0) is rung
                rung = False

    anyio.run(play)


async def _ring_when_idle(bell: Wakeup) -> None:
    await anyio.wait_all_tasks_blocked()
    bell.ring()


async def test_a_stop_rings_while_the_block_runs() -> None:
    bell, stop = Wakeup(), anyio.Event()

    with anyio.fail_after(5):
        async with rung_at(stop, bell):
            stop.set()
            assert await bell.wait(None)


async def test_a_block_that_is_rung_at_a_stop_ends_without_one_and_raises_what_it_raises() -> None:
    async with rung_at(anyio.Event(), Wakeup()):
        pass
    with pytest.raises(LookupError):
        async with rung_at(anyio.Event(), Wakeup()):
            raise LookupError("it is not there")
