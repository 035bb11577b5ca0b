"""Progress: a step's status is stored before its block goes on, the rest waits a second, and only the owner writes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import anyio
import pytest

from support.attempts import SECRET, Attempt, make_attempt
from wakeful.errors import (
    JobCancelled,
    JobDeadlineExceeded,
    JobInterrupted,
    LeaseLost,
    Snooze,
    StoreUnavailable,
)
from wakeful.handlers.threads import open_threads
from wakeful.handlers.trailing import TrailingWrites, run_trailing


async def in_thread(attempt: Attempt, call: Callable[[], object]) -> BaseException | None:
    """Run `call` in a thread of a pool of the attempt's loop; gives what it raised."""
    raised: list[BaseException | None] = []

    def answer() -> None:
        try:
            call()
            raised.append(None)
        except BaseException as error:  # noqa: BLE001 -- handed to the test
            raised.append(error)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    with anyio.fail_after(10):
        while not raised:
            await anyio.lowlevel.checkpoint()
    return raised[0]


async def test_every_declared_step_is_there_from_the_start() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads, steps=("fetch", "parse"))
        await attempt.progress.begin()

    nothing = {"started_at": None, "finished_at": None, "percent": None, "message": None, "error": None}
    assert attempt.writer.documents == [
        {
            "attempt": 1,
            "steps": [
                {"name": "fetch", "status": "pending", **nothing},
                {"name": "parse", "status": "pending", **nothing},
            ],
        }
    ]


async def test_a_type_without_steps_writes_nothing_until_it_has_something_to_say() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        await attempt.progress.begin()
        await attempt.progress.flush()
        await attempt.progress.close(None)

    assert attempt.writer.documents == []


async def test_a_status_is_stored_before_its_block_is_entered_and_left() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads, steps=("fetch", "parse"))

        async with attempt.job.step("fetch"):
            assert attempt.writer.steps()[-1] == ("fetch:running", "parse:pending")
        assert attempt.writer.steps()[-1] == ("fetch:done", "parse:pending")
        async with attempt.job.step("publish"):
            assert attempt.writer.steps()[-1] == ("fetch:done", "parse:pending", "publish:running")


async def test_times_are_those_of_the_databases_clock() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        async with attempt.job.step("fetch"):
            attempt.clock.seconds += 5

    step = attempt.writer.documents[-1]["steps"][0]
    assert step["started_at"] == "2026-03-01T00:01:40.000+00:00"
    assert step["finished_at"] == "2026-03-01T00:01:45.000+00:00"


async def test_percent_and_message_are_written_once_a_second() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        async with attempt.job.step("fetch") as step:
            for percent in range(100):
                await step.progress(percent, f"page {percent}")
            assert len(attempt.writer.documents) == 1
            attempt.clock.seconds += 1
            await step.progress(40, "page 4 of 10")
            assert len(attempt.writer.documents) == 2
            await step.progress(message="page 5 of 10")

    shown = [(step["percent"], step["message"]) for d in attempt.writer.documents for step in d["steps"]]
    assert shown == [(None, None), (40.0, "page 4 of 10"), (100.0, "page 5 of 10")]


async def test_progress_that_is_not_awaited_is_only_late() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        async with attempt.job.step("fetch") as step:
            attempt.clock.seconds += 1
            step.progress(40)
            assert len(attempt.writer.documents) == 1
            await attempt.progress.flush()

    assert attempt.writer.documents[1]["steps"][0]["percent"] == 40.0


async def test_progress_without_a_step_is_shown_under_a_step_of_its_own() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        await attempt.job.progress(10, "hello")
        async with attempt.job.step("outer"), attempt.job.step("inner"):
            attempt.clock.seconds += 1
            await attempt.job.progress(70)
        await attempt.progress.close(None)

    assert attempt.writer.steps()[-1] == ("run:done", "outer:done", "inner:done")
    assert [step["percent"] for step in attempt.writer.documents[3]["steps"]] == [10.0, None, 70.0]


@pytest.mark.parametrize(
    ("given", "shown"),
    [(-5, 0.0), (1000, 100.0), (33.333, 33.3), (True, None), ("5", None), (float("nan"), None)],
)
async def test_percent_is_a_number_from_0_to_100(given: float, shown: float | None) -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        if shown is None:
            with pytest.raises((TypeError, ValueError), match="percent is"):
                await attempt.job.progress(given)
        else:
            await attempt.job.progress(given)
            assert attempt.writer.documents[-1]["steps"][0]["percent"] == shown


async def test_texts_are_cleaned_and_bounded() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        with pytest.raises(ValueError, match="x"):  # noqa: PT012 -- the block is what raises
            async with attempt.job.step("na\x00me" + "n" * 1000) as step:
                await step.progress(1, "m\ud800" * 1000)
                raise ValueError("x\x00" * 1000)

    step = attempt.writer.documents[-1]["steps"][0]
    assert step["name"].startswith("na\u2400me")
    assert len(step["name"].encode()) <= 100
    assert len(step["message"].encode()) <= 500
    assert len(step["error"].encode()) <= 500
    assert step["error"].startswith("ValueError: x\u2400")


async def test_no_secret_of_the_process_is_shown_not_even_half_of_one() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        with pytest.raises(ValueError, match="x"):  # noqa: PT012 -- the block is what raises
            async with attempt.job.step("fetch") as step:
                await step.progress(1, f"with {SECRET}")
                raise ValueError("x" * 480 + SECRET)

    step = attempt.writer.documents[-1]["steps"][0]
    assert step["message"] == "with ***"
    assert SECRET[:4] not in step["error"]


async def test_more_than_a_hundred_steps_are_counted_and_not_shown() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        for number in range(103):
            async with attempt.job.step(f"step {number}"):
                pass

    assert len(attempt.writer.documents[-1]["steps"]) == 100
    assert attempt.writer.documents[-1]["omitted"] == 3


async def test_a_step_entered_again_starts_anew() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        with pytest.raises(OSError, match="reset"):
            async with attempt.job.step("fetch"):
                raise OSError("reset")
        assert attempt.writer.documents[-1]["steps"][0]["error"] == "OSError: reset"
        async with attempt.job.step("fetch"):
            assert attempt.writer.documents[-1]["steps"][0]["error"] is None

    assert attempt.writer.steps() == [
        ("fetch:running",),
        ("fetch:failed",),
        ("fetch:running",),
        ("fetch:done",),
    ]


async def test_a_step_entered_by_several_is_done_when_the_last_has_left() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        async with attempt.job.step("fetch"):
            async with attempt.job.step("fetch"):
                pass
            assert attempt.writer.steps()[-1] == ("fetch:running",)
        assert attempt.writer.steps()[-1] == ("fetch:done",)


async def test_a_directive_ends_its_step_as_failed() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        with pytest.raises(Snooze):
            async with attempt.job.step("fetch"):
                raise Snooze(60)

    assert attempt.writer.documents[-1]["steps"][0]["error"] == "Snooze: snoozed by the handler"


async def test_a_refused_write_raises_in_the_handler_and_so_does_every_later_one() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        with pytest.raises(LeaseLost):  # noqa: PT012 -- the block is what raises
            async with attempt.job.step("fetch") as step:
                attempt.writer.owned = False
                attempt.clock.seconds += 1
                await step.progress(50)
        attempt.writer.owned = True
        for again in range(3):
            with pytest.raises(LeaseLost):
                await attempt.job.progress(again)
        with pytest.raises(LeaseLost):
            await attempt.job.step("other").__aenter__()

    assert attempt.writer.steps() == [("fetch:running",)]


async def test_a_step_waits_through_an_outage_until_its_status_is_stored() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        attempt.writer.outages = 3
        async with attempt.job.step("fetch"):
            assert attempt.writer.steps() == [("fetch:running",)]

    assert attempt.writer.waits == 3


async def test_an_outage_only_delays_percent_and_message() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        async with attempt.job.step("fetch") as step:
            attempt.writer.outages = 1
            attempt.clock.seconds += 1
            await step.progress(50)
            assert attempt.progress.waiting
            attempt.clock.seconds += 1
            await step.progress(60)
            assert not attempt.progress.waiting


async def test_an_outage_does_not_hide_what_the_handler_raised() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        with pytest.raises(ValueError, match="bad page"):  # noqa: PT012 -- the block is what raises
            async with attempt.job.step("fetch"):
                attempt.writer.outages = 1
                raise ValueError("bad page")
        with pytest.raises(ValueError, match="bad page"):  # noqa: PT012 -- the block is what raises
            async with attempt.job.step("fetch"):
                attempt.writer.owned = False
                raise ValueError("bad page")


async def test_a_cancelled_step_says_why_and_is_still_written() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        with anyio.CancelScope() as scope:
            async with attempt.job.step("fetch"):
                attempt.control.cancel(JobDeadlineExceeded("after 60 s"))
                scope.cancel()
                await anyio.sleep_forever()

    assert scope.cancelled_caught
    assert attempt.writer.documents[-1]["steps"][0]["error"] == "JobDeadlineExceeded: after 60 s"


async def test_a_step_is_not_entered_once_the_attempt_should_stop() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        attempt.control.cancel(JobInterrupted("the process is stopping"))
        attempt.control.cancel(JobCancelled("too late to matter"))
        with pytest.raises(JobInterrupted, match="the process is stopping"):
            async with attempt.job.step("fetch"):
                pass

    assert attempt.writer.documents == []


async def test_changes_at_the_same_time_are_written_in_order_and_together() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        attempt.writer.gate = anyio.Event()

        async def step(name: str) -> None:
            async with attempt.job.step(name):
                pass

        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(step, f"step {number}")
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            attempt.writer.gate.set()

    lengths = [len(steps) for steps in attempt.writer.steps()]
    assert lengths == sorted(lengths)
    assert set(attempt.writer.steps()[-1]) == {f"step {number}:done" for number in range(10)}
    assert len(lengths) < 20


async def test_closing_ends_the_steps_that_still_run() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads, steps=("never",))
        await attempt.job.step("fetch").__aenter__()
        await attempt.progress.close("JobDeadlineExceeded: after 60 s")

    assert attempt.writer.steps()[-1] == ("never:pending", "fetch:failed")
    assert attempt.writer.documents[-1]["steps"][1]["error"] == "JobDeadlineExceeded: after 60 s"


async def test_in_a_thread_steps_are_plain_blocks() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)

        def handler() -> None:
            with attempt.job.step("fetch") as step:
                assert attempt.writer.steps()[-1] == ("fetch:running",)
                attempt.clock.seconds += 1
                step.progress(40, "page 4 of 10")
                assert attempt.writer.documents[-1]["steps"][0]["percent"] == 40.0
                step.progress(50)

        assert await in_thread(attempt, handler) is None

    assert attempt.writer.steps()[-1] == ("fetch:done",)


async def test_in_a_thread_a_refused_write_raises_too() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        attempt.writer.owned = False

        def handler() -> None:
            with attempt.job.step("fetch"):
                raise AssertionError("not reached")

        assert isinstance(await in_thread(attempt, handler), LeaseLost)


async def test_a_thread_that_reports_progress_is_ended_by_the_stop_reason() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)

        def handler() -> None:
            with attempt.job.step("fetch") as step:
                attempt.control.cancel(JobCancelled("asked for by an operator"))
                while not attempt.job.cancelled:
                    pass
                step.progress(40)

        raised = await in_thread(attempt, handler)

    assert isinstance(raised, JobCancelled)
    assert attempt.writer.documents[-1]["steps"][0]["error"] == "JobCancelled: asked for by an operator"


async def test_a_thread_that_waits_through_an_outage_is_released_by_the_stop_reason() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        attempt.writer.gate = anyio.Event()

        def handler() -> None:
            with attempt.job.step("fetch"):
                raise AssertionError("not reached")

        async def cancel() -> None:
            while not attempt.progress.waiting:
                await anyio.lowlevel.checkpoint()
            attempt.control.cancel(JobDeadlineExceeded("after 60 s"))

        async with anyio.create_task_group() as group:
            group.start_soon(cancel)
            assert isinstance(await in_thread(attempt, handler), JobDeadlineExceeded)
        attempt.writer.gate.set()


async def test_a_thread_that_outlives_the_process_learns_of_it() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)

    def handler() -> None:
        with attempt.job.step("fetch"):
            raise AssertionError("not reached")

    assert isinstance(await in_thread(attempt, handler), JobInterrupted)


async def test_the_wrong_kind_of_block_says_so_in_place_of_blocking_the_loop() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        with pytest.raises(RuntimeError, match="write `async with"), attempt.job.step("fetch"):
            pass

        async def enter() -> None:
            async with attempt.job.step("fetch"):
                pass

        raised = await in_thread(attempt, lambda: asyncio.run(enter()))

    assert "without `async`" in str(raised)
    assert attempt.writer.documents == []


async def test_what_a_quiet_handler_said_last_is_written_by_the_trailing_loop() -> None:
    trailing, stop = TrailingWrites(), anyio.Event()

    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        attempt.progress.mark("fetch", 40, None)
        trailing.add(attempt.progress)
        lost = make_attempt(threads)
        lost.writer.owned = False
        lost.progress.mark("fetch", 40, None)
        trailing.add(lost.progress)
        away = make_attempt(threads)
        away.writer.outages = 1
        away.progress.mark("fetch", 40, None)
        trailing.add(away.progress)

        async with anyio.create_task_group() as group:
            group.start_soon(run_trailing, trailing, stop)
            while away.writer.outages:
                await anyio.lowlevel.checkpoint()
            stop.set()

    assert attempt.writer.documents[-1]["steps"][0]["percent"] == 40.0
    assert trailing.take() == (away.progress,)


async def test_flushing_at_the_end_tells_of_an_outage() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)
        attempt.progress.mark("fetch", 40, None)
        attempt.writer.outages = 1
        with pytest.raises(StoreUnavailable):
            await attempt.progress.flush()
