"""Who may cancel a task of the daemon's loop: the daemon, and the attempt that the task belongs to; on both loops."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import threading
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from functools import partial

import anyio
import pytest

from support.attempts import make_job
from wakeful.sturdy import sturdy_loop
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import EXIT_REFUSED
from wakeful.telemetry.job_log import LineBuffer, attempt_context
from wakeful.telemetry.recorder import Recorder
from wakeful.telemetry.redaction import Redactor

LOOPS = ["asyncio", *(["uvloop"] if importlib.util.find_spec("uvloop") else [])]
NAMES = make_job()


@pytest.fixture(params=LOOPS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    return str(request.param)


def run(body: Callable[[], Awaitable[None]]) -> Recorder:
    """Run on a sturdy loop, as the daemon; gives what was told."""
    recorder, telemetry = Recorder(), Telemetry(strict=True)
    telemetry.subscribe(recorder)
    options = {"loop_factory": partial(sturdy_loop, telemetry)}
    # In a context of its own, so that the test itself does not count as the daemon afterwards.
    copy_context().run(lambda: anyio.run(body, backend="asyncio", backend_options=options))
    return recorder


def attempt() -> Context:
    """Give the context of an attempt."""
    context = copy_context()
    context.run(attempt_context(NAMES, LineBuffer(Redactor())).__enter__)
    return context


async def forever() -> None:
    await asyncio.sleep(3600)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_an_attempt_cancels_its_own_tasks_and_no_other(kind: str) -> None:
    seen: list[bool] = []

    async def body() -> None:
        loop, first, second = asyncio.get_running_loop(), attempt(), attempt()
        daemons, others, own = (
            loop.create_task(forever(), context=one) for one in (copy_context(), second, first)
        )
        for _ in range(3):
            seen.extend(first.run(task.cancel) for task in (daemons, others))
        seen.append(first.run(own.cancel))
        await settle()
        seen.extend((own.cancelled(), daemons.done(), others.done()))
        assert others.cancel() and daemons.cancel(), "the daemon may"
        await settle()
        seen.extend((daemons.cancelled(), others.cancelled()))

    told = run(body).of(EXIT_REFUSED)
    assert seen == [False] * 6 + [True, True, False, False, True, True]
    assert len(told) == 1, "whoever cancels all is told of once"


def test_code_that_belongs_to_nobody_cancels_nothing_but_its_like(kind: str) -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        contexts = (copy_context(), attempt(), Context())
        daemons, attempts, nobodys = (loop.create_task(forever(), context=one) for one in contexts)

        def cancel_all() -> None:
            for task in asyncio.all_tasks(loop):
                task.cancel()

        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(cancel_all,))
        thread.start()
        while not nobodys.done():
            await asyncio.sleep(0.001)
        assert not daemons.done() and not attempts.done()
        daemons.cancel()
        attempts.cancel()

    assert run(body).of(EXIT_REFUSED)


def test_an_attempt_that_waits_for_a_task_of_the_daemon_does_not_take_it_along(kind: str) -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        daemons = loop.create_task(forever())

        async def waits(cure: Awaitable[object]) -> None:
            await cure

        for cure in (
            daemons,
            asyncio.gather(daemons, asyncio.current_task() or daemons, return_exceptions=True),
        ):
            waiting = loop.create_task(waits(cure), context=attempt())
            await settle()
            waiting.cancel()
            await settle()
            assert not daemons.done()
        daemons.cancel()

    run(body)


def test_the_way_in_which_tasks_are_made_stays(kind: str) -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        before = type(loop.create_task(asyncio.sleep(0)))
        loop.set_task_factory(None)
        assert type(loop.create_task(asyncio.sleep(0))) is before

    assert run(body).of(EXIT_REFUSED) == [{"error": "loop.set_task_factory()"}]


def test_what_is_left_at_the_end_is_cancelled(kind: str) -> None:
    left: list[asyncio.Task[None]] = []

    async def body() -> None:
        left.extend(
            asyncio.get_running_loop().create_task(forever(), context=one) for one in (attempt(), Context())
        )
        await settle()

    run(body)
    assert all(task.cancelled() for task in left)
