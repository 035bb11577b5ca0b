"""Threads of plain handlers: bounded, reused, abandoned when they must be, and never waited for (F42, F93)."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from wakeful.handlers.threads import Ended, ThreadPool, open_threads

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


async def until(condition: Callable[[], bool]) -> None:
    """Turn the loop until something that a thread does has happened."""
    with anyio.fail_after(10):
        while not condition():
            await anyio.lowlevel.checkpoint()


async def keep(
    pool: ThreadPool, call: Callable[[], object], answers: list[Ended[object]], label: str = "x"
) -> None:
    answers.append(await pool.run(call, label=label))


async def most_at_once(pool: ThreadPool) -> int:
    """How many of three calls that wait for each other get a thread."""
    together = threading.Barrier(3)
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(keep, pool, partial(together.wait, 30), [])
        await until(lambda: together.n_waiting > 0)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        running = len(pool.running)
        together.abort()
    return running


async def test_a_call_gives_its_value_or_what_it_raised() -> None:
    async with open_threads(limit=1, stuck_limit=0) as pool:
        assert await pool.run(lambda: 5, label="x") == Ended(value=5)

        ended = await pool.run(partial(sys.exit, 3), label="x")

    assert isinstance(ended.raised, SystemExit)


@pytest.mark.parametrize(
    "error", [StopIteration(1), StopAsyncIteration(), GeneratorExit(), KeyboardInterrupt()]
)
async def test_any_exception_comes_out_as_a_value(error: BaseException) -> None:
    def call() -> None:
        raise error

    async with open_threads(limit=1, stuck_limit=0) as pool:
        ended = await pool.run(call, label="x")
        assert ended.raised is error
        assert (await pool.run(lambda: "alive", label="x")).value == "alive"


async def test_one_thread_serves_call_after_call() -> None:
    async with open_threads(limit=3, stuck_limit=0) as pool:
        names = {(await pool.run(threading.get_ident, label="x")).value for _ in range(20)}

        assert len(names) == 1
        assert pool.threads == 1


async def test_no_more_calls_run_at_once_than_there_are_places() -> None:
    together = threading.Barrier(3)
    answers: list[Ended[object]] = []

    async with open_threads(limit=2, stuck_limit=0) as pool, anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(keep, pool, partial(together.wait, 30), answers)
        await until(lambda: together.n_waiting == 2)
        assert len(pool.running) == 2
        together.abort()

    assert len(answers) == 3
    assert all(isinstance(answer.raised, threading.BrokenBarrierError) for answer in answers)


async def test_a_call_has_a_copy_of_its_callers_context() -> None:
    def call() -> tuple[str, str]:
        before = WHO.get()
        WHO.set("changed")
        return before, WHO.get()

    async with open_threads(limit=1, stuck_limit=0) as pool:
        for name in ("one", "two"):
            WHO.set(name)
            assert (await pool.run(call, label="x")).value == (name, "changed")
            assert WHO.get() == name


async def test_calls_that_end_while_the_loop_is_busy_wake_it_once_and_all_are_answered() -> None:
    loop, ended, woken = asyncio.get_running_loop(), threading.Barrier(4), 0
    answers: list[Ended[object]] = []
    wake = loop.call_soon_threadsafe

    def counted(*arguments: Any) -> Any:
        nonlocal woken
        woken += 1
        return wake(*arguments)

    async with open_threads(limit=3, stuck_limit=0) as pool, anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(keep, pool, partial(ended.wait, 30), answers)
        await until(lambda: ended.n_waiting == 3)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(pool, "_loop", SimpleNamespace(call_soon_threadsafe=counted))
            ended.wait(30)
            while len(pool._done) < 3:  # the loop is held: nothing is collected meanwhile
                threading.Event().wait(0.001)
    assert len(answers) == 3
    assert woken == 1


async def test_a_call_that_is_cancelled_keeps_its_thread_and_gives_its_place_away() -> None:
    release = threading.Event()

    async with open_threads(limit=1, stuck_limit=1) as pool:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(keep, pool, release.wait, [], "COLLECT 1 run 1")
                await until(lambda: bool(pool.running))
                scope.cancel()

        assert pool.stuck == ("COLLECT 1 run 1",)
        assert (await pool.run(lambda: "goes on", label="y")).value == "goes on"
        assert pool.threads == 2
        release.set()
        await until(lambda: not pool.stuck)
        assert pool.threads == 1  # one idle thread is enough for one place
        assert await most_at_once(pool) == 1


async def test_a_call_may_be_given_up_while_its_end_is_still_waited_for() -> None:
    release = threading.Event()
    answers: list[Ended[object]] = []

    async with open_threads(limit=1, stuck_limit=1) as pool, anyio.create_task_group() as group:
        group.start_soon(keep, pool, release.wait, answers, "slow")
        await until(lambda: bool(pool.running))

        assert pool.give_up("slow") is True
        assert pool.give_up("slow") is True
        assert pool.give_up("unknown") is False
        assert (await pool.run(lambda: 1, label="y")).value == 1
        release.set()

    assert answers == [Ended(value=True)]
    assert pool.stuck == ()


async def test_past_the_bound_a_stuck_call_keeps_its_place() -> None:
    release = threading.Event()

    async with open_threads(limit=2, stuck_limit=1) as pool, anyio.create_task_group() as group:
        for label in ("one", "two"):
            group.start_soon(keep, pool, release.wait, [], label)
        await until(lambda: len(pool.running) == 2)

        assert [pool.give_up("one"), pool.give_up("two")] == [True, False]
        assert pool.stuck == ("one", "two")
        assert (await pool.run(lambda: 1, label="y")).value == 1
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as more:
                for label in ("three", "four"):
                    more.start_soon(keep, pool, release.wait, [], label)
                await until(lambda: "three" in pool.running or "four" in pool.running)
                assert len(pool.running) == 3
                scope.cancel()
        release.set()
        await until(lambda: not pool.running)

    assert pool.stuck == ()


async def test_a_thread_carries_its_jobs_name_while_it_works() -> None:
    async with open_threads(limit=1, stuck_limit=0) as pool:
        name = (await pool.run(lambda: threading.current_thread().name, label="COLLECT 1 run 1")).value

    assert name == "wakeful-handler COLLECT 1 run 1"


async def test_closing_ends_the_idle_threads_and_waits_for_no_other() -> None:
    release, ended = threading.Event(), threading.Event()

    def call() -> None:
        release.wait(30)
        ended.set()

    async with open_threads(limit=2, stuck_limit=2) as pool:
        await pool.run(lambda: None, label="x")
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(keep, pool, call, [])
                await until(lambda: bool(pool.running))
                scope.cancel()

    assert not ended.is_set()
    release.set()
    await until(lambda: not pool.running)
    assert pool.threads == 0


PROGRAM = """
import anyio, time
from wakeful.handlers.threads import open_threads

async def main():
    async with open_threads(limit=1, stuck_limit=1) as pool:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: pool.run(lambda: time.sleep(600), label="x"))
                while not pool.running:
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
        print("left", pool.stuck)

anyio.run(main)
"""


def test_a_process_ends_while_a_thread_works_on() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30, check=False
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "left ('x',)\n", "")
