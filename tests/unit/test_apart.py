"""An attempt runs in a task apart: what it does to that task never reaches its worker, and is seen where it stays."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import weakref
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any, cast

import anyio
import pytest

from wakeful.runtime.apart import apart, are_variables, ended, traces_in

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


KEPT: list[object] = []


def keeps_it(task: asyncio.Task[Any]) -> None:
    KEPT.append(task)


def keeps_it_weakly(task: asyncio.Task[Any]) -> None:
    KEPT.append(weakref.ref(task))


def cancels_it(task: asyncio.Task[Any]) -> None:
    task.cancel()


def cancels_it_and_denies_it(task: asyncio.Task[Any]) -> None:
    task.cancel()
    task.uncancel()


def cancels_it_later(task: asyncio.Task[Any]) -> None:
    KEPT.append(asyncio.get_running_loop().call_later(60, task.cancel))


def wants_to_know_when_it_ends(task: asyncio.Task[Any]) -> None:
    task.add_done_callback(lambda _task: None)


def enters_a_scope_and_never_leaves(_task: asyncio.Task[Any]) -> None:
    anyio.CancelScope().__enter__()


def leaves_a_variable(_task: asyncio.Task[Any]) -> None:
    name.set("attempt's")


def leaves_a_variable_that_can_not_be_compared(_task: asyncio.Task[Any]) -> None:
    name.set(cast(str, Incomparable()))


class Incomparable:
    def __eq__(self, other: object) -> bool:
        raise ValueError("no")

    __hash__ = object.__hash__


TOUCHES: tuple[Callable[[asyncio.Task[Any]], None], ...] = (
    keeps_it,
    keeps_it_weakly,
    cancels_it,
    cancels_it_and_denies_it,
    cancels_it_later,
    wants_to_know_when_it_ends,
    enters_a_scope_and_never_leaves,
    leaves_a_variable,
    leaves_a_variable_that_can_not_be_compared,
)


async def is_as_it_was(touch: Callable[[asyncio.Task[Any]], object]) -> bool:
    """Whether a task shows no trace of what was done in it; `touch` may be awaited."""
    task = asyncio.current_task()
    assert task is not None
    name.set("worker's")
    variables, traces = copy_context(), traces_in(task)
    done = touch(task)
    if inspect.isawaitable(done):
        await done
    del done
    return traces_in(task) == traces and are_variables(variables)


@pytest.mark.parametrize("touch", TOUCHES, ids=lambda touch: touch.__name__)
@pytest.mark.parametrize("waits", [False, True])
async def test_whoever_takes_hold_of_a_task_or_leaves_something_in_it_is_seen(
    touch: Callable[[asyncio.Task[Any]], None], *, waits: bool
) -> None:
    async def touches_and_waits(task: asyncio.Task[Any]) -> None:
        touch(task)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)

    seen = not await ended(apart(is_as_it_was(touches_and_waits if waits else touch)))

    KEPT.clear()
    # Since Python 3.13 a request that is taken back leaves nothing.
    assert seen or (touch is cancels_it_and_denies_it and sys.version_info >= (3, 13))


async def test_what_has_ended_leaves_no_trace_in_a_task() -> None:
    async def leaves_nothing(task: asyncio.Task[Any]) -> None:
        token = name.set("attempt's")
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
        name.reset(token)

    for touch in (leaves_nothing, lambda _task: None):
        assert await ended(apart(is_as_it_was(touch)))
