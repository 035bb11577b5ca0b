"""Calling handlers: whatever they do, an answer comes out and nothing else does (R8)."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from support.attempts import handler_of, make_attempt
from wakeful import Fail, JobContext, JobDeadlineExceeded, Registry, Retry, Snooze
from wakeful.handlers.invoke import Answer, Raised, Returned, invoke
from wakeful.handlers.threads import open_threads

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


async def answer_of(function: Callable[..., object], payload: object = None, **options: Any) -> Answer:
    async with open_threads(limit=2, stuck_limit=2) as threads:
        handler = handler_of(function, **options)
        return await invoke(handler, make_attempt(threads).job, payload, threads)


async def test_an_async_handler_runs_on_the_loop() -> None:
    async def handler(job: JobContext, payload: dict[str, object]) -> object:
        return [job.job_type, payload, asyncio.current_task() is not None]

    assert await answer_of(handler, {"a": 1}) == Returned(["COLLECT", {"a": 1}, True])


async def test_a_plain_handler_runs_in_a_thread() -> None:
    def handler(job: JobContext) -> object:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return job.job_type

    assert await answer_of(handler) == Returned("COLLECT")


RAISED = [
    ValueError("bad"),
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    asyncio.CancelledError("my own"),
    Unprintable(),
    StopAsyncIteration(),
    MemoryError(),
    Fail("no such place"),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
async def test_whatever_a_handler_raises_is_its_answer(error: BaseException) -> None:
    async def on_loop(job: JobContext) -> None:
        raise error

    def in_thread(job: JobContext) -> None:
        raise error

    for handler in (on_loop, in_thread):
        answer = await answer_of(handler)
        assert isinstance(answer, Raised)
        assert answer.exception is error


async def test_a_stop_iteration_is_an_error_like_any_other() -> None:
    async def on_loop(job: JobContext) -> None:
        raise StopIteration(5)

    def in_thread(job: JobContext) -> None:
        next(iter(()))

    for handler in (on_loop, in_thread):
        answer = await answer_of(handler)
        assert isinstance(answer, Raised)
        assert isinstance(answer.exception, RuntimeError)
        assert "StopIteration" in str(answer.exception)


async def test_sys_exit_in_a_handler_does_not_end_the_daemon() -> None:
    async def handler(job: JobContext) -> None:
        sys.exit("goodbye")

    answer = await answer_of(handler)

    assert isinstance(answer, Raised)
    assert isinstance(answer.exception, SystemExit)


async def test_a_directive_means_the_same_inside_a_task_group() -> None:
    async def snooze() -> None:
        raise Snooze(60)

    async def handler(job: JobContext) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(snooze)
            await anyio.sleep_forever()

    answer = await answer_of(handler)

    assert isinstance(answer, Raised)
    assert isinstance(answer.exception, Snooze)


async def test_an_ordinary_group_stays_a_group() -> None:
    async def handler(job: JobContext) -> None:
        raise ExceptionGroup("two", [ValueError("a"), Retry(5)])

    answer = await answer_of(handler)

    assert isinstance(answer, Raised)
    assert isinstance(answer.exception, ExceptionGroup)


async def test_a_cancel_by_the_runtime_is_an_answer_too() -> None:
    answers: list[Answer] = []

    async def handler(job: JobContext) -> None:
        await anyio.sleep_forever()

    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)

        async def run() -> None:
            with anyio.CancelScope() as scope:
                attempt.control.cancel(JobDeadlineExceeded("after 60 s"))
                scope.cancel()
                answers.append(await invoke(handler_of(handler), attempt.job, None, threads))

        async with anyio.create_task_group() as group:
            group.start_soon(run)

    assert isinstance(answers[0], Raised)
    assert isinstance(answers[0].exception, asyncio.CancelledError)
    assert attempt.control.cancelled


async def test_a_handler_that_swallows_its_cancellation_answers_all_the_same() -> None:
    answers: list[Answer] = []

    async def handler(job: JobContext) -> str:
        for _ in range(3):
            with contextlib.suppress(asyncio.CancelledError):
                await anyio.sleep_forever()
        return "in spite of all"

    async with open_threads(limit=1, stuck_limit=1) as threads:

        async def run() -> None:
            answers.append(await invoke(handler_of(handler), make_attempt(threads).job, None, threads))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    assert answers == [Returned("in spite of all")]


@pytest.mark.parametrize("kind", ["a plain function that gives a coroutine", "an async one that gives one"])
async def test_a_coroutine_that_nobody_awaits_is_a_mistake(kind: str) -> None:
    async def inner() -> int:
        return 5

    def plain(job: JobContext) -> object:
        return inner()

    async def on_loop(job: JobContext) -> object:
        return inner()

    answer = await answer_of(plain if kind.startswith("a plain") else on_loop)

    assert isinstance(answer, Raised)
    assert "returned a coroutine that nobody awaits" in str(answer.exception)


async def test_each_attempt_has_its_own_context_variables() -> None:
    seen: list[str] = []

    async def on_loop(job: JobContext) -> None:
        seen.append(WHO.get())
        WHO.set("left behind")

    def in_thread(job: JobContext) -> None:
        seen.append(WHO.get())
        WHO.set("left behind")

    async with open_threads(limit=1, stuck_limit=1) as threads:
        for function in (on_loop, in_thread, on_loop, in_thread):
            async with anyio.create_task_group() as group:
                group.start_soon(invoke, handler_of(function), make_attempt(threads).job, None, threads)

    assert seen == ["nobody"] * 4


def with_hook(hook: Callable[..., Awaitable[object]], function: Callable[..., object]) -> Any:
    registry = Registry()
    registry.around(hook)
    registry.job("COLLECT")(function)
    return registry.find("COLLECT")


def five(job: JobContext) -> int:
    return 5


async def test_the_hook_is_round_the_call() -> None:
    seen: list[object] = []

    async def hook(job: JobContext, call: Callable[[], Awaitable[object]]) -> object:
        seen.append(job.job_type)
        try:
            value = await call()
        except ZeroDivisionError as error:
            seen.append(type(error).__name__)
            raise
        seen.append(value)
        return {"wrapped": value}

    def divide(job: JobContext) -> float:
        return 1 / 0

    async with open_threads(limit=1, stuck_limit=1) as threads:
        job = make_attempt(threads).job
        assert await invoke(with_hook(hook, five), job, None, threads) == Returned({"wrapped": 5})
        assert isinstance(await invoke(with_hook(hook, divide), job, None, threads), Raised)

    assert seen == ["COLLECT", 5, "COLLECT", "ZeroDivisionError"]


async def test_a_hook_that_calls_twice_fails_the_attempt() -> None:
    async def hook(job: JobContext, call: Callable[[], Awaitable[object]]) -> object:
        await call()
        return await call()

    async with open_threads(limit=1, stuck_limit=1) as threads:
        answer = await invoke(with_hook(hook, five), make_attempt(threads).job, None, threads)

    assert isinstance(answer, Raised)
    assert "called its handler twice" in str(answer.exception)


async def test_a_hook_that_raises_is_an_answer() -> None:
    async def hook(job: JobContext, call: Callable[[], Awaitable[object]]) -> object:
        raise SystemExit(9)

    async with open_threads(limit=1, stuck_limit=1) as threads:
        answer = await invoke(with_hook(hook, five), make_attempt(threads).job, None, threads)

    assert isinstance(answer, Raised)
