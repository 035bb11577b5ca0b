"""An attempt runs in a task of its own: what it does to that task never reaches its worker."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import anyio
import pytest

from wakeful.runtime.apart import apart, ended

name: ContextVar[str] = ContextVar("name", default="worker's")


async def test_its_value_comes_back() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 5

    assert await ended(apart(work())) == 5


async def test_what_it_binds_ends_with_it() -> None:
    async def work() -> str:
        before = name.get()
        name.set("attempt's")
        await asyncio.sleep(0)
        return before

    assert await ended(apart(work())) == "worker's"
    assert name.get() == "worker's"


async def test_one_that_was_cancelled_before_it_began_gives_none() -> None:
    began = False

    async def work() -> int:
        nonlocal began
        began = True
        return 5

    task = apart(work())
    task.cancel()

    assert await ended(task) is None
    assert not began


async def test_a_cancellation_of_itself_is_not_its_workers() -> None:
    async def work() -> int:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        asyncio.get_running_loop().call_later(0.01, task.cancel)  # comes when it is long over
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            task.uncancel()
            return 7
        return 0

    worker = asyncio.current_task()
    assert worker is not None
    assert await ended(apart(work())) == 7
    await anyio.sleep(0.03)
    assert worker.cancelling() == 0


async def test_a_scope_that_it_never_left_is_not_its_workers() -> None:
    async def work() -> None:
        anyio.CancelScope().__enter__()

    await ended(apart(work()))
    with anyio.move_on_after(0.01) as scope:
        await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_it_is_cancelled_with_its_worker() -> None:
    outcomes = []

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            outcomes.append("ended")

    with anyio.move_on_after(0.01) as scope:
        await ended(apart(work()))
        outcomes.append("never")

    assert scope.cancelled_caught
    assert outcomes == ["ended"]


async def test_what_it_raises_comes_out() -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await ended(apart(work()))
