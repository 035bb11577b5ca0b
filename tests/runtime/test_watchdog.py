"""The watchdog: a blocked loop is named while it blocks, and a process that is beyond help ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from support.eventually import eventually, looked
from support.holding import make_holding
from support.working import telling
from wakeful.handlers.control import AttemptControl
from wakeful.runtime.attempts import Attempt, Attempts
from wakeful.runtime.lease import Lease, Owner, suspended_clock
from wakeful.runtime.watchdog import EXIT_CODE, IDLE_SECONDS, Watchdog
from wakeful.telemetry.events import LOOP_BLOCKED, LOOP_STALLED
from wakeful.telemetry.health import Health
from wakeful.telemetry.recorder import Recorder


@dataclass(slots=True, kw_only=True)
class Kennel:
    """A watchdog that notes instead of ending the process."""

    watchdog: Watchdog
    attempts: Attempts
    lease: Lease
    recorder: Recorder
    health: Health
    ended: list[int]

    def begin(self, work: Any, *, deadline: float = 3600.0, grace: float = 3600.0) -> Attempt:
        """An attempt that does this in a task of its own."""
        attempt = Attempt(
            make_holding(job_type="BLOCKING"),
            AttemptControl(deadline),
            task=asyncio.get_running_loop().create_task(work),
            seconds=deadline,
        )
        attempt.grace = grace
        self.attempts.begin(attempt)
        return attempt


@asynccontextmanager
async def kennel(*, blocked_after: float = 0.6) -> AsyncIterator[Kennel]:
    telemetry, recorder = telling()
    attempts, lease, health = Attempts(), Lease(), Health()
    lease.registered(Owner(1, 1), sent=suspended_clock())
    ended: list[int] = []
    watchdog = Watchdog(
        attempts=attempts,
        lease=lease,
        telemetry=telemetry,
        health=health,
        die=ended.append,
        blocked_after=blocked_after,
    )
    made = Kennel(
        watchdog=watchdog, attempts=attempts, lease=lease, recorder=recorder, health=health, ended=ended
    )
    stop = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(watchdog.pulse, stop)
        await anyio.lowlevel.checkpoint()
        yield made
        stop.set()


def look_twice(watchdog: Watchdog) -> None:
    watchdog.look()
    watchdog.look()


async def block_for(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251 -- what handlers do


async def test_a_handler_that_blocks_the_loop_is_named_while_it_blocks_with_its_stack() -> None:
    async with kennel() as k:
        attempt = k.begin(block_for(2.0))
        await attempt.task
        (told,) = k.recorder.of(LOOP_BLOCKED, job_id=str(attempt.job_id))
        assert told["job_type"] == "BLOCKING"
        assert "time.sleep(seconds)" in str(told["stack"])
        assert k.ended == []


async def test_each_block_is_told_once() -> None:
    async with kennel() as k:
        for _ in range(2):
            attempt = k.begin(block_for(2.0))
            await attempt.task
            await anyio.sleep(0.2)
            assert len(k.recorder.of(LOOP_BLOCKED, job_id=str(attempt.job_id))) == 1


async def test_a_loop_that_turns_is_no_matter_however_much_runs() -> None:
    async with kennel() as k:
        attempt = k.begin(anyio.sleep(0.8))
        await attempt.task
        assert k.recorder.of(LOOP_BLOCKED, job_id=str(attempt.job_id)) == []


async def test_a_block_that_is_nobodys_job_is_told_too() -> None:
    async with kennel() as k:
        await block_for(2.0)
        assert k.recorder.of(LOOP_BLOCKED, job_id=None)


async def test_after_an_idle_time_the_first_handler_that_blocks_is_named_as_soon_as_any() -> None:
    async with kennel() as k:
        assert k.watchdog._rest == IDLE_SECONDS
        attempt = k.begin(block_for(IDLE_SECONDS + 0.4))
        await attempt.task
        assert k.recorder.of(LOOP_BLOCKED, job_id=str(attempt.job_id))


async def test_a_loop_that_is_dead_past_a_jobs_deadline_and_grace_ends_the_process() -> None:
    async with kennel() as k:
        attempt = k.begin(block_for(2.5), deadline=0.2, grace=0.2)
        await attempt.task
        assert k.ended
        assert set(k.ended) == {EXIT_CODE}
        told = k.recorder.of(LOOP_STALLED)[0]
        assert told["jobs"] == [f"BLOCKING {attempt.job_id}"]
        assert "time.sleep(seconds)" in str(told["stack"])


async def test_a_job_that_is_late_on_a_loop_that_turns_is_the_overseers_matter() -> None:
    async with kennel() as k:
        attempt = k.begin(anyio.sleep(0.8), deadline=0.0, grace=0.0)
        await attempt.task
        assert k.ended == []


@pytest.mark.parametrize(("share", "ends"), [(0.94, False), (0.96, True)])
async def test_a_handler_that_runs_on_while_its_lease_runs_out_ends_the_process(
    share: float, ends: bool
) -> None:
    async with kennel() as k:
        attempt = k.begin(anyio.sleep(0.8))
        k.lease._sent = suspended_clock() - share * attempt.holding.lease + 0.01
        await anyio.to_thread.run_sync(look_twice, k.watchdog)
        assert bool(k.ended) is ends
        attempt.task.cancel()


async def test_a_process_that_was_paused_has_a_moment_to_see_that_its_lease_has_run_out() -> None:
    async with kennel() as k:
        attempt = k.begin(anyio.sleep_forever())
        k.lease._sent = suspended_clock() - 3600
        k.watchdog.look()
        attempt.task.cancel()
        k.attempts.end(attempt.holding)
        k.watchdog.look()
        assert k.ended == []


async def test_without_a_running_job_a_lost_lease_ends_nothing() -> None:
    async with kennel() as k:
        k.lease._sent = suspended_clock() - 3600
        await anyio.to_thread.run_sync(k.watchdog.look)
        assert k.ended == []


async def test_its_thread_ends_with_the_loop_that_it_watches() -> None:
    async with kennel():
        await eventually(looked(names), until=lambda seen: "wakeful-watchdog" in seen)
    await eventually(looked(names), until=lambda seen: "wakeful-watchdog" not in seen)


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]
